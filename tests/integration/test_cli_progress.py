"""What a person watches: bars on a terminal, plain lines in a pipe."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import Make
from tests.support import haste
from tests.support.project import ROOT, Project, command

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture
def project(make: Make, tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = make()
    made.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")
    made.database.insert("orders", [(n, "2025-01-01 00:00:00") for n in range(3000)])
    return made.write(
        "tables: [orders], cursor: at, settle: 1s, batch_rows: 1000, parallel: 1, read: jdbc",
        top=f"spark: {json.dumps({'master': 'local[1]', 'conf': haste.CONF_AND_JAVA})}",
    )


def on_a_terminal(words: list[str], *, width: int = 120) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(width), "LINES": "40"}
    process = subprocess.Popen(
        words, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError as error:
            assert error.errno == errno.EIO  # noqa: PT017 - how Linux says that the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(), shown.decode(errors="replace")


def test_a_terminal_shows_a_bar_with_rows_and_rate_and_a_closing_table(project: Project) -> None:
    code, raw = on_a_terminal(command("run", "--project", project.file))
    assert code == 0, raw
    assert "\x1b[" in raw, "nothing moves"
    shown = ESCAPE.sub("", raw)
    assert "planning" in shown
    assert "starting Spark" in shown
    assert re.search(r"orders.*[━╸].*1,000 rows", shown), shown
    assert re.search(r"3,000 rows +[\d,]+/s", shown), shown
    assert re.search(r"orders +SUCCESS +3 +3,000", shown), shown
    assert "WARN" not in shown, "Spark's own chatter reached the terminal"

    code, raw = on_a_terminal(command("status", "--project", project.file), width=80)
    assert code == 0, raw
    assert "SUCCESS" in ESCAPE.sub("", raw)


def test_a_pipe_gets_plain_lines_and_spark_is_silent(project: Project, tmp_path: Path) -> None:
    ran = project.shell("run")
    assert ran.code == 0, ran.said
    assert "\x1b" not in ran.out + ran.err
    assert ran.err.splitlines() == [
        "planning 1 flow",
        "orders: planned: 3,000 rows in 3 batches",
        "starting Spark",
        "orders: batch 1/3: 1,000 rows",
        "orders: batch 2/3: 1,000 rows",
        "orders: batch 3/3: 1,000 rows",
        ran.err.splitlines()[-1],
    ]
    assert re.fullmatch(r"orders: SUCCESS: 3,000 rows in [\d.]+ s", ran.err.splitlines()[-1])
