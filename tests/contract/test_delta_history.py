"""What the logs of real tables say of each version: by delta-rs, by hand, on a local folder and on S3."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable, write_deltalake

from tests.support.delta_tables import FED, ROWS, actions, add, append, commit, facts, log, metadata, protocol
from tidegauge.delta_log.history import history
from tidegauge.delta_log.table import read_newest


def test_each_version_says_what_it_did(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, partition_by=["p"], configuration=FED)
    append(path)
    DeltaTable(path).update({"id": "id + 10"}, predicate="id = 2")
    DeltaTable(path).delete("id = 1")
    append(path)
    DeltaTable(path).optimize.compact()
    found = history(str(path), after=0)
    assert (found.latest, found.earliest, found.after, found.partition_by) == (5, 0, 0, ("p",))
    assert facts(found, "number", "changes", "only_adds") == [
        (1, True, True),
        (2, True, False),
        (3, True, False),
        (4, True, True),
        (5, False, True),
    ]
    assert {(one.feed, one.table_id, one.digest, one.missing) for one in found.versions} == {
        (True, found.table_id, found.digest, ())
    }
    table = DeltaTable(path)
    assert (found.table_id, found.feed) == (str(table.metadata().id), True)
    assert json.loads(found.schema) == json.loads(table.schema().to_json())
    assert found.digest == read_newest(str(path)).schema_version
    sizes = [part["add"]["size"] for part in actions(path, 1) if "add" in part]
    assert [one.bytes for one in found.versions][:1] == [sum(sizes)]
    assert found.versions[4].bytes == 0
    changes = [part["cdc"]["size"] for part in actions(path, 2) if "cdc" in part]
    assert found.versions[1].bytes == sum(changes) > 0
    assert found.at == found.versions[-1].at == read_newest(str(path)).commit_timestamp


def test_from_the_beginning_means_every_commit_that_is_there(tmp_path: Path) -> None:
    for _ in range(3):
        append(tmp_path / "t")
    assert facts(history(str(tmp_path / "t"), after=None), "number", "feed") == [(n, False) for n in range(3)]


def test_c6_times_are_the_commits_own_whatever_happened_to_the_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number, at in enumerate((1_700_000_000_123, 1_700_000_060_000, 1_700_000_120_000)):
        commit(path, number, *([protocol(), metadata()] if number == 0 else []), at=at)
    for file in (path / "_delta_log").iterdir():
        os.utime(file, (1, 1))
    found = history(str(path), after=None)
    first = datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert found.versions[0].at == first
    assert found.at == first + timedelta(seconds=119, milliseconds=877)
    commit(path, 3, {"commitInfo": {"timestamp": 5, "inCommitTimestamp": 1_700_000_180_000}}, at=None)
    commit(path, 4, at=None)
    assert [one.at for one in history(str(path), after=2).versions] == [
        first.replace(minute=16, microsecond=0),
        None,
    ]


def test_c1_change_files_that_are_gone_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, partition_by=["p"], configuration=FED)
    DeltaTable(path).update({"id": "id + 10"}, predicate="id = 2")
    append(path)
    [change] = [unquote(part["cdc"]["path"]) for part in actions(path, 1) if "cdc" in part]
    assert "%" in change  # the folder of a value with a colon and a blank
    (path / change).unlink()
    assert facts(history(str(path), after=0), "number", "missing") == [(1, (change,)), (2, ())]


def test_c1_where_the_feed_is_made_of_data_files_those_are_needed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, configuration=FED)
    append(path)
    [kept] = [part["add"]["path"] for part in actions(path, 1) if "add" in part]
    DeltaTable(path).optimize.compact()
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    found = history(str(path), after=0)
    assert found.versions[0].missing == (kept,)
    assert all(not one.missing for one in found.versions[1:])
    assert not found.readable(1)
    assert found.readable(found.latest)


def test_c1_a_log_that_was_cleaned_is_absent_and_what_follows_is_known(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, configuration=FED)
    for _ in range(6):
        append(path)
    DeltaTable(path).create_checkpoint()
    for _ in range(2):
        append(path)
    before = history(str(path), after=4)
    for number in range(6):
        log(path, number).unlink()
    found = history(str(path), after=3)
    assert found.earliest == 6
    assert facts(found, "number", "absent") == [(4, True), (5, True), (6, False), (7, False), (8, False)]
    assert found.versions[2:] == before.versions[1:]
    assert not found.readable(5)
    assert found.readable(6)
    assert found.readable(8)
    whole = history(str(path), after=None)
    assert [one.number for one in whole.versions] == [6, 7, 8]
    assert (whole.table_id, whole.digest, whole.feed) == (before.table_id, before.digest, True)


def test_c2_a_table_made_anew_under_the_same_version_has_another_id(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for _ in range(3):
        append(path)
    before = history(str(path), after=2)
    shutil.rmtree(path)
    for _ in range(3):
        append(path)
    found = history(str(path), after=2)
    assert (found.latest, found.versions) == (before.latest, ()) == (2, ())
    assert found.table_id != before.table_id


def test_c2_the_id_is_known_version_by_version(tmp_path: Path) -> None:
    path = tmp_path / "t"
    commit(path, 0, protocol(), metadata("id1"))
    commit(path, 1)
    commit(path, 2, metadata("id2"))
    assert facts(history(str(path), after=0), "number", "table_id") == [(1, "id1"), (2, "id2")]


def test_c3_the_feed_is_known_version_by_version(tmp_path: Path) -> None:
    path = tmp_path / "t"
    on = metadata(delta_enableChangeDataFeed="TRUE")
    commit(path, 0, protocol(), metadata())
    commit(path, 1, on)
    commit(path, 2)
    commit(path, 3, metadata(delta_enableChangeDataFeed="false"))
    commit(path, 4, on)
    assert [one.feed for one in history(str(path), after=None).versions] == [False, True, True, False, True]
    assert [one.feed for one in history(str(path), after=1).versions] == [True, False, True]


def test_c4_a_changed_schema_shows_at_its_version(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path)
    append(path)
    wider = ROWS.append_column("x", [[1, 2]])
    for _ in range(2):
        write_deltalake(path, wider, mode="append", schema_mode="merge")
    found = history(str(path), after=0)
    first, second, third = (one.digest for one in found.versions)
    assert first != second == third == found.digest


def test_c9_what_rewrites_files_or_alters_the_table_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t"
    commit(path, 0, protocol(), metadata())
    commit(path, 1, metadata(delta_logRetentionDuration="interval 1 day"))
    commit(path, 2, {"txn": {"appId": "x", "version": 1}})
    commit(path, 3, add("n", dataChange=False), {"remove": {"path": "o", "dataChange": False}})
    commit(path, 4, {"remove": {"path": "n", "dataChange": True}})
    commit(path, 5, add("m", deletionVector={"storageType": "i", "pathOrInlineDv": "x", "cardinality": 1}))
    found = history(str(path), after=0)
    assert facts(found, "changes", "only_adds", "bytes", "missing") == [
        (False, True, 0, ()),
        (False, True, 0, ()),
        (False, True, 0, ()),
        (True, False, 0, ()),
        (True, False, 7, ()),
    ]
    assert found.properties == {"delta.logRetentionDuration": "interval 1 day"}


def test_files_elsewhere_are_looked_for_there(tmp_path: Path) -> None:
    path, other = tmp_path / "clone", tmp_path / "other place"
    other.mkdir()
    (other / "a b.parquet").write_text("x")
    there = f"file:{other}/a%20b.parquet".replace(" ", "%20")
    vector = {"storageType": "p", "pathOrInlineDv": f"file://{other}/v.bin".replace(" ", "%20"), "offset": 1}
    commit(path, 0, protocol("deletionVectors"), metadata(delta_enableChangeDataFeed="true"))
    commit(path, 1, add(there))
    commit(path, 2, add(there.replace("a%20b", "gone")))
    commit(path, 3, add(there, deletionVector=vector))
    commit(path, 4, add("abfss://container@account/x.parquet"))
    found = history(str(path), after=0)
    assert [len(one.missing) for one in found.versions] == [0, 1, 1, 0]
    assert found.versions[2].missing == (f"file://{other}/v.bin",)
    assert found.readable(1)
    assert not found.readable(3)


def test_deletion_vectors_beside_the_files_are_needed_too(tmp_path: Path) -> None:
    path = tmp_path / "t"
    # The digits and the name as Delta's protocol gives them for an example.
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
    commit(path, 0, protocol("deletionVectors"), metadata(delta_enableChangeDataFeed="true"))
    commit(path, 1, add("f"), {"remove": {"path": "f", "dataChange": True}})
    commit(path, 2, add("f", deletionVector=vector), {"remove": {"path": "f", "dataChange": True}})
    (path / "f").write_text("x")
    name = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert facts(history(str(path), after=0), "missing") == [((),), ((name,),)]
    (path / "ab").mkdir()
    (path / name).write_text("x")
    found = history(str(path), after=0)
    assert facts(found, "missing") == [((),), ((),)]
    assert found.readable(2)
