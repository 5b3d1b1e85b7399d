"""The demo is the first thing a user sees; the README shows what it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

README = (Path(__file__).parents[2] / "README.md").read_text()


def words(line: str) -> str:
    """Without the seconds, which are not the same twice."""
    return re.sub(r"\d+\.\d( s)?$", "", " ".join(line.split())).rstrip(" ,")


def test_the_demo_proves_itself_and_prints_what_the_readme_shows(tmp_path: Path) -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "tidegauge.cli.main", "demo", "--keep", str(tmp_path / "shop")],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "Proven: every row of the source is in the lake" in demo.stdout
    [shown] = re.findall(r"```\n\$ tidegauge demo\n(.*?)```", README, re.DOTALL)
    printed = {words(line) for line in demo.stdout.splitlines()}
    assert [line for line in shown.splitlines() if line.strip() and words(line) not in printed] == []
