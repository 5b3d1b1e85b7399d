"""On a terminal commands work as the papers on them type them: what is missing is asked for."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.support.project import ROOT, Project, command, local, sqlite_database


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = local(tmp_path, sqlite_database(tmp_path / "source.db"))
    made.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")
    made.database.insert("orders", [(n, f"2025-01-0{n} 12:00:00") for n in range(1, 5)])
    return made.write("tables: [orders], cursor: at, settle: 1s")


def answered(project: Project, answers: str, *words: str) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*words, "--project", project.file),
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        close_fds=True,
    )
    os.close(theirs)
    os.write(ours, answers.encode())
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError as error:
        assert error.errno == errno.EIO  # noqa: PT017 - how Linux says that the other end is closed
    os.close(ours)
    return process.wait(), shown.decode(errors="replace")


def position(project: Project) -> object:
    marks = project.here("watermark", "list", "--json").json["watermarks"]
    return marks[0]["position"] if marks else None


SET = ("watermark", "set", "-t", "orders", "--timestamp", "2025-01-02 12:00:00")


def test_the_reason_and_the_yes_are_asked_for(project: Project) -> None:
    code, shown = answered(project, "only the recent ones\ny\n", *SET)
    assert code == 0, shown
    assert "why?" in shown
    assert "change the watermark of orders?" in shown
    assert position(project) == {"cursor": "2025-01-02 12:00:00", "key": []}
    [event] = project.here("history", "--json", "--limit", "1").json["events"]
    assert (event["event"], event["reason"]) == ("set", "only the recent ones")


@pytest.mark.parametrize("answers", ["\n", "because\nn\n"])
def test_no_reason_or_no_yes_changes_nothing(project: Project, answers: str) -> None:
    code, shown = answered(project, answers, *SET)
    assert code == 2, shown
    assert "nothing was changed" in shown
    assert position(project) is None
