"""Debian's Chromium, headless."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

AXE = Path(__file__).parents[2] / ".axe" / "axe.min.js"
"""The file that `make axe` fetches; missing without npm."""
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


@contextmanager
def open_browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    with tempfile.TemporaryDirectory(prefix="tidegauge-browser-", ignore_cleanup_errors=True) as profile:
        for word in (*_OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        try:
            yield browser
        finally:
            browser.quit()


def look_like(
    browser: webdriver.Chrome, *, dark: bool = False, phone: bool = False, height: int = 900
) -> None:
    """Emulate a viewer's color scheme and screen."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    screen = {"width": 390, "height": 844} if phone else {"width": 1280, "height": height}
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {**screen, "deviceScaleFactor": 1, "mobile": phone}
    )


def find_barriers(browser: webdriver.Chrome) -> list[str]:
    """Run axe-core on the open page; describe each broken rule and its first place."""
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    found = browser.execute_async_script(
        "const done = arguments[0]; axe.run().then(found => done(found.violations.map("
        "({id, nodes}) => `${id}: ${nodes.length} times, ${nodes[0].html}: ${nodes[0].failureSummary}`)))"
    )
    return [str(one) for one in found]


def complaints(browser: webdriver.Chrome) -> list[str]:
    """Return the console's messages since the last call."""
    return [str(entry["message"]) for entry in browser.get_log("browser")]  # type: ignore[no-untyped-call]
