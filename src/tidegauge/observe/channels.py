"""Alert channels: sends messages to Apprise addresses, in bounded time, and says why one did not arrive."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from tidegauge.errors import RuntimeMissing
from tidegauge.model.alert import AlertChannel
from tidegauge.model.secret import MASK, mask

TIMEOUT = 20.0
"""Seconds that one channel may take."""
_SERVERS = ("json", "jsons", "xml", "xmls", "form", "forms", "mailto", "mailtos", "http", "https")
"""Schemes of addresses whose host part is a real host; in other schemes it may be a token."""


@dataclass(frozen=True)
class Message:
    title: str
    body: str
    level: str = "failure"
    """Apprise's notification type: `failure`, `warning`, `success` or `info`."""


def apprise_library() -> Any:
    """Import the module `apprise`. Raises RuntimeMissing if it is not installed."""
    try:
        import apprise
    except ImportError as error:
        raise RuntimeMissing(
            "alerts are sent by the library apprise, which is not installed",
            hint="run: pip install 'tidegauge[alerts]'",
        ) from error
    return apprise


def send_all(channels: Sequence[tuple[AlertChannel, Sequence[Message]]]) -> dict[str, str | None]:
    """Send each channel its messages, all channels at once. Return by channel why it failed, or None.

    Never raises, and never takes much longer than TIMEOUT: a channel that hangs is abandoned then.
    """
    try:
        library = apprise_library()
    except RuntimeMissing as error:
        return {channel.name: f"{error.message}; {error.hint}" for channel, _ in channels}
    answers: dict[str, str | None] = {
        channel.name: f"no answer within {TIMEOUT:.0f} s" for channel, _ in channels
    }

    def send(channel: AlertChannel, messages: Sequence[Message]) -> None:
        answers[channel.name] = _send(library, channel, messages)

    # Daemon threads: a channel that hangs does not keep the process from ending.
    threads = [threading.Thread(target=send, args=each, daemon=True) for each in channels]
    with _silence():
        for thread in threads:
            thread.start()
        until = time.monotonic() + TIMEOUT
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
    return dict(answers)


def _send(library: Any, channel: AlertChannel, messages: Sequence[Message]) -> str | None:
    url = channel.url.reveal()
    with _listen() as said:
        try:
            service = library.Apprise.instantiate(url)
            if service is None:
                return _hide(said[0] if said else "not an address that Apprise knows", url)
            for message in messages:
                level = library.NotifyType(message.level)
                if not service.notify(title=mask(message.title), body=mask(message.body), notify_type=level):
                    return _hide(said[-1] if said else "the service did not take it", url)
        except Exception as error:  # an error of a plugin must not fail the run
            return _hide(f"{type(error).__name__}: {error}", url)
    return None


@contextmanager
def _silence() -> Iterator[None]:
    """Keep Apprise's log lines from other handlers: callers report them masked, with the channel's name."""
    logger = logging.getLogger("apprise")
    before, level = logger.propagate, logger.level
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.propagate = before
        logger.setLevel(level)


@contextmanager
def _listen() -> Iterator[list[str]]:
    """Collect what Apprise logs in this thread: only its log says why a message was refused."""
    said: list[str] = []
    mine = threading.get_ident()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == mine:
                said.append(" ".join(record.getMessage().split()))

    handler, logger = Handler(), logging.getLogger("apprise")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


def _hide(text: str, url: str) -> str:
    """Mask every part of the address in the text, except its scheme and a server's host and port."""
    scheme, _, rest = url.partition("://")
    parts = set(re.split(r"[/?&=#@:,]", rest)) - {""}
    if scheme.lower() in _SERVERS:
        host, _, port = re.split(r"[/?#]", rest)[0].rpartition("@")[2].partition(":")
        parts -= {host, port}
    text = mask(text.replace(rest, MASK))
    for part in sorted({form for one in parts for form in (one, unquote(one), quote(one))}, key=len)[::-1]:
        if len(part) > 2:
            text = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", MASK, text)
    return text[:300]
