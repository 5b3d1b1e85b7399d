"""The shortcuts for small batches into Delta tables, and their switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tidegauge.delta_log.snapshot import Log
from tidegauge.model.spec import Lake
from tidegauge.outputs.delta import small_batches
from tidegauge.storage.store import open_store


class Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


class Session:
    def __init__(self) -> None:
        self.conf = Conf({"spark.sql.shuffle.partitions": "7"})


def tuned(*, few: bool) -> tuple[dict[str, str], dict[str, str]]:
    """The settings inside and after."""
    session: Any = Session()
    with small_batches.tune_for_small(session, few=few):
        inside = dict(session.conf)
    return inside, dict(session.conf)


def test_settings_for_small_work_are_put_back() -> None:
    inside, after = tuned(few=True)
    assert inside["spark.sql.adaptive.enabled"] == "false"
    assert inside["spark.sql.shuffle.partitions"] == "1"
    assert after == {"spark.sql.shuffle.partitions": "7"}


def test_large_work_and_the_switch_leave_the_session_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_was = {"spark.sql.shuffle.partitions": "7"}
    assert tuned(few=False) == (as_it_was, as_it_was)
    monkeypatch.setenv(small_batches.SWITCH, "off")
    assert tuned(few=True) == (as_it_was, as_it_was)
    nobody: Any = None  # neither the session nor the table is looked at
    small_batches.read_log_ahead(nobody, "t", nobody, remote=False)


def _table(path: Path, commits: int = 2) -> Lake:
    for number in range(commits):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
    return Lake("", str(path))


def test_tables_are_small_together_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = _table(tmp_path / "one"), _table(tmp_path / "other")
    look = Log(open_store(one)).look()
    assert look is not None
    size = look.find_size()
    assert size is not None
    assert size.files == 2  # its writer has noted nothing: the log says it
    assert size.bytes == sum(file.stat().st_size for file in (tmp_path / "one").glob("*.parquet"))
    assert small_batches.reads_little([one, other])
    monkeypatch.setattr(small_batches, "_READ_BYTES", size.bytes)
    assert small_batches.reads_little([one])
    assert not small_batches.reads_little([one, other])


def test_a_size_that_was_noted_counts_with_what_has_come_since(tmp_path: Path) -> None:
    lake, note = _table(tmp_path / "one", 3), tmp_path / "one" / "_delta_log" / f"{1:020}.crc"
    note.write_text('{"numFiles": 5, "tableSizeBytes": 7000}')
    look = Log(open_store(lake)).look()
    assert look is not None
    size = look.find_size()
    assert size is not None
    newest = max((tmp_path / "one").glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    assert (size.files, size.bytes) == (6, 7000 + newest.stat().st_size)


def test_what_is_no_table_here_is_not_small(tmp_path: Path) -> None:
    assert not small_batches.reads_little([Lake("", str(tmp_path / "none"))])
    assert not small_batches.reads_little([Lake("", "s3a://bucket/far")])  # not even asked
    torn = _table(tmp_path / "torn", 1)
    (tmp_path / "torn" / "_delta_log" / f"{0:020}.json").write_text('{"add"')
    assert not small_batches.reads_little([torn])


def test_the_switch_makes_every_table_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(small_batches.SWITCH, "off")
    assert not small_batches.reads_little([_table(tmp_path / "one")])
