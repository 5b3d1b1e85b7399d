"""Logs of Delta tables of every kind: checkpoints, features, damage, many tables at once, and S3."""

from __future__ import annotations

import errno
import json
import shutil
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.delta_tables import (
    FED,
    ROWS,
    actions,
    add,
    append,
    commit,
    facts,
    log,
    metadata,
    protocol,
    same,
)
from tests.support.servers import S3
from tidegauge.delta_log.data_files import NeedsSpark
from tidegauge.delta_log.delta_rs import address, options
from tidegauge.delta_log.history import histories, history, version_at
from tidegauge.delta_log.log import ListedLog
from tidegauge.errors import (
    ConfigError,
    SourceError,
    SourceUnreachable,
    TableMissing,
)
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake
from tidegauge.model.versions import LATEST, DeltaHistory
from tidegauge.sources.delta.added_files import commit_time, find_additions
from tidegauge.sources.delta.small_feed import read_small_feed


def test_checkpoints_of_every_kind_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, configuration=FED)
    append(path)
    DeltaTable(path).create_checkpoint()
    append(path)
    known = history(str(path), after=1)
    classic = log(path, 1, "checkpoint.parquet")
    log(path, 0).unlink()
    rows = pq.read_table(classic)
    halves = [rows.slice(0, 3), rows.slice(3)]
    classic.unlink()
    parts = [log(path, 1, f"checkpoint.{part:010}.0000000002.parquet") for part in (1, 2)]
    pq.write_table(halves[0], parts[0])
    with pytest.raises(SourceError, match="cannot be read: commit 0 is missing"):
        history(str(path), after=1)
    pq.write_table(halves[1], parts[1])
    assert same(history(str(path), after=1), known)
    assert history(str(path), after=1).readable(1)
    for part in parts:
        part.unlink()
    uuid = "80a083e8-7026-4e79-81be-64bd76c43a11"
    aside = path / "_delta_log" / "_sidecars" / f"{uuid}.parquet"
    aside.parent.mkdir()
    pq.write_table(rows.select(["add"]).filter(rows["add"].is_valid()), aside)
    beside = [
        {name: row[name] | {"configuration": FED}}
        for row in rows.select(["protocol", "metaData"]).to_pylist()
        for name in row
        if row[name]
    ]
    top = [*beside, {"sidecar": {"path": aside.name, "sizeInBytes": 1, "modificationTime": 1}}]
    log(path, 1, f"checkpoint.{uuid}.json").write_text("\n".join(map(json.dumps, top)))
    assert same(history(str(path), after=1), known)
    assert history(str(path), after=1).readable(1)
    [file] = [part["add"]["path"] for part in actions(path, 1) if "add" in part]
    (path / file).unlink()
    assert not history(str(path), after=1).readable(1)


def test_sparks_checksum_spares_the_way_back_and_a_torn_one_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "t"
    commit(path, 0, protocol(), metadata("id1"))
    commit(path, 1)
    checksum = {"protocol": protocol()["protocol"], "metadata": metadata("id1")["metaData"]}
    log(path, 1, "crc").write_text(json.dumps(checksum))
    whole = log(path, 0).read_text()
    log(path, 0).write_text("torn")
    assert history(str(path), after=1).table_id == "id1"
    log(path, 1, "crc").write_text("torn")
    log(path, 0).write_text(whole)
    assert history(str(path), after=1).table_id == "id1"


@pytest.mark.parametrize(
    "name", ["fancy", "catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"]
)
def test_a_feature_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t"
    commit(path, 0, protocol("deletionVectors", "variantType-preview"), metadata())
    assert history(str(path), after=None).features == {"deletionVectors", "variantType-preview"}
    commit(path, 1, protocol(name))
    commit(path, 2, protocol())
    for after in (0, None):
        with pytest.raises(SourceError, match=name):
            history(str(path), after=after)
    assert history(str(path), after=1).latest == 2
    commit(path, 3, {"protocol": {"minReaderVersion": 4, "minWriterVersion": 9}})
    with pytest.raises(SourceError, match="reader protocol 4"):
        history(str(path), after=LATEST)


def test_what_is_no_table_and_what_is_torn_are_said(tmp_path: Path) -> None:
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    for name, words in {"gone": "there is no Delta table at", "empty": "is not a Delta table"}.items():
        with pytest.raises(TableMissing, match=words):
            history(str(tmp_path / name), after=None)
    for body in ("{", "[]", '{"metaData": {"id": "x"}}', '{"add": {}}', '{"commitInfo": 7}'):
        commit(tmp_path / "torn", 0, protocol(), metadata())
        log(tmp_path / "torn", 1).write_text(body)
        with pytest.raises(SourceError, match="cannot be read"):
            history(str(tmp_path / "torn"), after=0)
    shutil.rmtree(tmp_path / "torn")
    commit(tmp_path / "torn", 1, add("x"))
    with pytest.raises(SourceError, match="commit 0 is missing"):
        history(str(tmp_path / "torn"), after=None)


@pytest.mark.parametrize("asked", ["pathlib.Path.stat", "os.listdir"])
def test_what_the_file_system_refuses_in_a_log_is_told_as_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    table = TableRef(path=str(tmp_path / "t"))
    append(tmp_path / "t")

    def refuse(path: Any, **_: Any) -> Any:
        raise OSError(errno.ESTALE, "Stale file handle", str(path))

    monkeypatch.setattr(asked, refuse)
    for ask in (
        lambda: find_additions(table, str(table.path), None, 0),
        lambda: commit_time(table, str(table.path), 0),
    ):
        with pytest.raises(SourceUnreachable, match=r"cannot be reached: .*Stale file handle"):
            ask()


def test_a_small_feed_whose_commit_vanishes_while_it_is_read_is_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    append(tmp_path / "t")
    append(tmp_path / "t")
    assert read_small_feed(TableRef(path=path), path, 1, 1).rows.num_rows > 0
    monkeypatch.setattr(ListedLog, "dates", lambda *_: {})
    with pytest.raises(NeedsSpark):
        read_small_feed(TableRef(path=path), path, 1, 1)


def test_of_many_tables_each_has_its_own_answer(tmp_path: Path) -> None:
    append(tmp_path / "good")
    commit(tmp_path / "torn", 0, protocol())
    names = ("good", "torn", "gone")
    found = histories({f"b.{name}": (str(tmp_path / name), None, None) for name in names})
    assert list(found) == ["b.good", "b.torn", "b.gone"]
    assert isinstance(found["b.good"], DeltaHistory)
    assert isinstance(found["b.torn"], SourceError)
    assert isinstance(found["b.gone"], TableMissing)
    assert found["b.gone"].message.startswith("b.gone: there is no Delta table at")
    assert histories({}) == {}


def test_a_hundred_and_twenty_tables_with_ten_new_versions_each_take_well_under_two_seconds(
    tmp_path: Path,
) -> None:
    first = tmp_path / "t0"
    append(first, configuration=FED)
    for number in range(14):
        append(first)
        if number == 3:
            DeltaTable(first).create_checkpoint()
    for number in range(1, 120):
        shutil.copytree(first, tmp_path / f"t{number}")
    tables = {path.name: str(path) for path in tmp_path.iterdir()}
    for after, count in ((4, 10), (14, 0)):
        started = time.process_time()
        found = histories({name: (place, after, None) for name, place in tables.items()})
        taken = time.process_time() - started
        print(f"120 tables with {count} new versions each in {taken:.2f} s")
        assert {len(one.versions) for one in found.values() if isinstance(one, DeltaHistory)} == {count}
        assert len(found) == 120
        assert taken < 2


def test_a_moment_is_the_version_that_was_there_then(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(70):
        first = [protocol(), metadata()] if number == 0 else []
        commit(path, number, *first, at=1_700_000_000_000 + number * 60_000)
    place = str(path)
    assert version_at(place, "2023-11-14 22:13:20") == 0
    assert version_at(place, "2023-11-14T22:15:19.999Z") == 1
    assert version_at(place, "2023-11-14 23:15:20+01:00") == 2
    assert version_at(place, datetime(2023, 11, 14, 22, 15, 20)) == 2
    assert version_at(place, "2024-01-01") == 69
    for moment in ("2023-11-14", "2999-01-01"):
        with pytest.raises(SourceError) as caught:
            version_at(place, moment)
        assert "from version 0 (2023-11-14 22:13:20 UTC) to version 69 (2023-11-14 23:22:20 UTC)" in str(
            caught.value
        )
    with pytest.raises(ConfigError, match="'soon' is neither"):
        version_at(place, "soon")
    with pytest.raises(TableMissing):
        version_at(str(tmp_path / "gone"), "2024-01-01")


@pytest.mark.parametrize("name", ["catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"])
def test_b18_a_moment_is_not_looked_up_in_a_log_that_may_lack_commits(tmp_path: Path, name: str) -> None:
    commit(tmp_path / "t", 0, protocol(name), metadata(), at=1_700_000_000_000)
    with pytest.raises(SourceError) as caught:
        version_at(str(tmp_path / "t"), "2024-01-01")
    assert name in caught.value.message
    assert caught.value.hint


def storage(s3: S3, place: str, **changes: Any) -> Lake:
    keys = {"access_key": Secret(s3.access_key), "secret_key": Secret(s3.secret_key)}
    given: dict[str, Any] = {"endpoint": s3.endpoint, "region": s3.region} | keys | changes
    return Lake("lake", place, **given)


def test_tables_on_s3_say_the_same(s3: S3) -> None:
    bucket = s3.create_bucket()
    place = f"s3a://{bucket}/bronze/a b"
    lake = storage(s3, place)
    given = options(lake)
    write_deltalake(address(lake), ROWS, partition_by=["p"], configuration=FED, storage_options=given)
    for _ in range(3):
        write_deltalake(address(lake), ROWS, mode="append", storage_options=given)
    DeltaTable(address(lake), storage_options=given).update({"id": "id + 10"}, predicate="id = 2")
    DeltaTable(address(lake), storage_options=given).create_checkpoint()
    write_deltalake(address(lake), ROWS, mode="append", storage_options=given)
    found = history(place, after=0, storage=lake)
    assert facts(found, "number", "only_adds", "missing") == [
        (1, True, ()), (2, True, ()), (3, True, ()), (4, False, ()), (5, True, ()),
    ]  # fmt: skip
    assert found.readable(4)
    keys = [entry["Key"] for entry in s3.client().list_objects_v2(Bucket=bucket)["Contents"]]
    [change] = [key for key in keys if "_change_data" in key]
    s3.client().delete_object(Bucket=bucket, Key=change)
    again = history(place, after=3, storage=lake)
    assert again.versions[0].missing == (change.removeprefix("bronze/a b/"),)
    assert not again.versions[1].missing
    with pytest.raises(TableMissing):
        history(f"{place}/other", after=None, storage=lake)
    assert history(place, after=LATEST, storage=lake).table_id == found.table_id


def test_s3_that_cannot_be_reached_is_said_without_secrets(s3: S3) -> None:
    wanted = {
        "bucket": ("s3a://no-such-bucket/x", None, storage(s3, "s3a://unused")),
        "dead": ("s3a://bucket/x", None, storage(s3, "s3a://unused", endpoint="http://127.0.0.1:9")),
    }
    for found in histories(wanted).values():
        assert isinstance(found, SourceUnreachable)
        assert s3.secret_key not in f"{found.message} {found.detail}"
