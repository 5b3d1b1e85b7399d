"""A SQLite file that stays open between two splits hides nothing, holds nobody up, and is closed soon."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import until
from tests.support.source_parts import asked, sqlite_place
from tidegauge.errors import SourceError, SourceUnreachable
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.sources.direct import DirectReader
from tidegauge.sources.open import open_source
from tidegauge.sources.sqlite import dialect, kept_files
from tidegauge.storage import kept_open
from tidegauge.storage.kept_open import SWITCH

END = RowPosition(Value(ValueKind.INT, "1000000"))


class Source:
    def __init__(self, folder: Path) -> None:
        self.place = sqlite_place(folder)
        self.file = self.place.database.path
        assert self.file is not None
        self.write("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT)")

    def write(self, *statements: str) -> None:
        assert self.file is not None
        with closing(sqlite3.connect(self.file, timeout=5)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def batches(self) -> Iterator[Any]:
        with closing(open_source(self.place.database)) as control:
            table = control.describe(self.place.table("t"), asked(cursor="id"))
        data = DirectReader(self.place.database).batch_data(table, Batch((Window(None, END),)))
        return (batch for split in data.splits for batch in split.batches())

    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches() for row in batch.to_pylist()]

    def is_open(self) -> bool:
        links = (os.path.realpath(link) for link in Path("/proc/self/fd").iterdir())
        return str(self.file) in links


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    made = Source(tmp_path)
    yield made
    until(lambda: not made.is_open())


def test_it_is_opened_once_for_many_splits_and_closed_soon_after_the_last(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    real = kept_files._open

    def count(path: Path) -> sqlite3.Connection:
        opened.append(path)
        return real(path)

    monkeypatch.setattr(kept_files, "_open", count)
    monkeypatch.setattr(kept_open, "LINGER", 600.0)
    source.write("INSERT INTO t VALUES (1, 'one')")
    for _ in range(3):
        assert source.rows() == [{"id": 1, "word": "one"}]
    assert len(opened) == 1
    assert source.is_open()
    monkeypatch.setattr(kept_open, "LINGER", 0.0)
    until(lambda: not source.is_open())


def test_the_switch_closes_each_at_once(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "off")
    assert source.rows() == []
    assert not source.is_open()


def test_a4_what_others_commit_in_between_is_seen(source: Source) -> None:
    """Rows, deleted rows and columns."""
    source.write("INSERT INTO t VALUES (1, 'one')")
    assert len(source.rows()) == 1
    source.write("INSERT INTO t VALUES (2, 'two')", "DELETE FROM t WHERE id = 1")
    assert source.rows() == [{"id": 2, "word": "two"}]
    source.write("ALTER TABLE t ADD COLUMN more INTEGER", "UPDATE t SET more = 7")
    assert source.rows() == [{"id": 2, "word": "two", "more": 7}]


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_b9_nobody_who_writes_waits_for_it(source: Source, journal: str) -> None:
    source.write(f"PRAGMA journal_mode = {journal}", "INSERT INTO t VALUES (1, 'one')")
    assert len(source.rows()) == 1
    assert source.file is not None
    with closing(sqlite3.connect(source.file, timeout=0, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("INSERT INTO t VALUES (2, 'two')")
        writer.execute("COMMIT")
        writer.execute("VACUUM")
    assert len(source.rows()) == 2


def test_c2_a_file_that_was_put_in_the_place_of_another_is_read(source: Source, tmp_path: Path) -> None:
    source.write("INSERT INTO t VALUES (1, 'one')")
    assert len(source.rows()) == 1
    (tmp_path / "other").mkdir()
    other = Source(tmp_path / "other")
    other.write("INSERT INTO t VALUES (5, 'five'), (6, 'six')")
    assert other.file is not None
    assert source.file is not None
    other.file.replace(source.file)
    assert [row["id"] for row in source.rows()] == [5, 6]
    source.file.unlink()
    with pytest.raises(SourceError, match="cannot be opened"):
        source.rows()


def test_who_stops_half_way_leaves_nothing_open(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegauge.sources.sqlite.split._PIECE", 1)
    source.write("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    batches = source.batches()
    next(batches)
    assert source.is_open()
    del batches
    until(lambda: not source.is_open())
    assert len(source.rows()) == 2


_RECOVER = """
import fcntl, os, struct, sys
file = os.open(sys.argv[1] + "-shm", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 0)
os.ftruncate(file, 32768)
for kind, first in ((fcntl.F_RDLCK, 128), (fcntl.F_WRLCK, 120), (fcntl.F_WRLCK, 122)):
    fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, first, 1, 0))
print("held", flush=True)
sys.stdin.read()
"""
"""A process that has the locks of one that makes a WAL's index anew, as after a crash."""


def test_a_file_that_another_process_recovers_is_worth_a_retry(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLITE_BUSY_RECOVERY, which is not SQLITE_BUSY itself."""
    for module in (dialect, kept_files):
        monkeypatch.setattr(module, "_WAIT", 0.0)
    monkeypatch.setenv(SWITCH, "off")
    source.write("PRAGMA journal_mode = wal", "INSERT INTO t VALUES (1, 'one')")
    batches = source.batches()
    with subprocess.Popen(
        [sys.executable, "-c", _RECOVER, str(source.file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        for ask in (lambda: next(batches), lambda: open_source(source.place.database)):
            with pytest.raises(SourceUnreachable, match="is locked by another process") as caught:
                ask()
            assert caught.value.retryable
            cause = caught.value.__cause__
            assert isinstance(cause, sqlite3.OperationalError)
            assert cause.sqlite_errorname == "SQLITE_BUSY_RECOVERY"
    assert source.rows() == [{"id": 1, "word": "one"}]
