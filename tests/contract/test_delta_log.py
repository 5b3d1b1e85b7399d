"""What Delta tables say of themselves: real tables, on a local folder and on S3, whole and broken."""

from __future__ import annotations

import json
import shutil
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.servers import S3
from tidegauge.delta_log.commit import schema_digest
from tidegauge.delta_log.delta_rs import address, options
from tidegauge.delta_log.table import NewestVersion, read_newest, read_newest_of_many
from tidegauge.errors import (
    RuntimeMissing,
    SourceError,
    SourceUnreachable,
    TableMissing,
    TidegaugeError,
)
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake

ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})


def made(path: Path, commits: int = 1) -> DeltaTable:
    for _ in range(commits):
        write_deltalake(path, ROWS, mode="append")
    return DeltaTable(path)


def log(path: Path, version: int = 0) -> Path:
    return path / "_delta_log" / f"{version:020}.json"


def edit(path: Path, kind: str, **changes: Any) -> None:
    actions = [json.loads(line) for line in log(path).read_text().splitlines()]
    for action in actions:
        if kind in action:
            action[kind] |= changes
    log(path).write_text("\n".join(map(json.dumps, actions)))


def commits_elsewhere(feature: str) -> dict[str, Any]:
    named = {"readerFeatures": [feature], "writerFeatures": [feature]}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **named}}


def test_a_table_tells_version_id_schema_and_time(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 3)
    found = read_newest(str(tmp_path / "t"))
    assert (found.version, found.table_id) == (2, str(table.metadata().id))
    assert abs(datetime.now(UTC) - found.commit_timestamp) < timedelta(minutes=1)
    assert found == NewestVersion(
        str(tmp_path / "t"),
        2,
        found.table_id,
        schema_digest(table.schema().to_json()),
        found.commit_timestamp,
    )
    assert read_newest(f"file:{tmp_path}/t").version == read_newest(f"file://{tmp_path}/t/").version == 2


def test_the_time_is_the_commits_own_and_survives_a_copy(tmp_path: Path) -> None:
    made(tmp_path / "t")
    edit(tmp_path / "t", "commitInfo", timestamp=1_700_000_000_123)
    assert read_newest(str(tmp_path / "t")).commit_timestamp == datetime(
        2023, 11, 14, 22, 13, 20, 123000, UTC
    )


def test_the_schema_version_changes_with_names_types_and_nullability_only(tmp_path: Path) -> None:
    made(tmp_path / "t")
    first = read_newest(str(tmp_path / "t")).schema_version
    made(tmp_path / "t")
    made(tmp_path / "again")
    assert (
        read_newest(str(tmp_path / "t")).schema_version
        == first
        == read_newest(str(tmp_path / "again")).schema_version
    )

    def field(name: str, kind: Any, nullable: bool = True, **metadata: str) -> dict[str, Any]:
        return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}

    def digest(*fields: dict[str, Any]) -> str:
        return schema_digest(json.dumps({"type": "struct", "fields": fields}))

    names = {"type": "array", "elementType": "string", "containsNull": True}
    assert digest(field("id", "long"), field("name", "string")) == first
    assert digest(field("id", "long", comment="x"), field("name", "string")) == first
    different = [
        digest(field("id", "integer"), field("name", "string")),
        digest(field("id", "long", False), field("name", "string")),
        digest(field("ID", "long"), field("name", "string")),
        digest(field("name", "string"), field("id", "long")),
        digest(field("id", "long"), field("name", names)),
        digest(field("id", "long"), field("name", names | {"containsNull": False})),
    ]
    assert len({first, *different}) == 7


@pytest.mark.parametrize("name", ["a b", "ünï😀", "x%20y", "q?x#y", 'it\'s "q"', "back\\slash", "100%"])
def test_odd_paths_are_found(tmp_path: Path, name: str) -> None:
    made(tmp_path / "t", 2)
    shutil.copytree(tmp_path / "t", tmp_path / name)
    assert read_newest(str(tmp_path / name)).version == 1
    assert (
        read_newest(f"file:{tmp_path / name}").schema_version
        == read_newest(str(tmp_path / "t")).schema_version
    )


def test_what_is_no_table_is_said(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "x.parquet").write_text("x")
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    (tmp_path / "file").write_text("x")
    for name, words in {
        "gone": "there is no Delta table at",
        "plain": "is not a Delta table",
        "empty": "is not a Delta table",
        "file": "is not a Delta table",
    }.items():
        with pytest.raises(TableMissing) as caught:
            read_newest(str(tmp_path / name))
        assert words in caught.value.message
        assert str(tmp_path / name) in caught.value.message


def test_a_damaged_log_is_a_source_error_in_one_line(tmp_path: Path) -> None:
    made(tmp_path / "torn")
    log(tmp_path / "torn").write_text('{"commitInfo')
    made(tmp_path / "gap", 3)
    log(tmp_path / "gap").unlink()
    for name in ("torn", "gap"):
        with pytest.raises(SourceError) as caught:
            read_newest(str(tmp_path / name))
        assert name in caught.value.message
        assert "\n" not in caught.value.message
        assert "unknown>" not in caught.value.message


def test_a_newer_reader_protocol_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "t")
    edit(tmp_path / "t", "protocol", minReaderVersion=9, minWriterVersion=9)
    with pytest.raises(SourceError, match="reader protocol 9"):
        read_newest(str(tmp_path / "t"))


def test_a_feature_that_delta_rs_does_not_know_hides_nothing_that_we_ask(tmp_path: Path) -> None:
    made(tmp_path / "t", 12)
    DeltaTable(tmp_path / "t").create_checkpoint()
    made(tmp_path / "t")
    known = read_newest(str(tmp_path / "t"))
    for version in range(11):
        log(tmp_path / "t", version).unlink()
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["fancy"], "writerFeatures": ["fancy"]}
    log(tmp_path / "t", 13).write_text(
        json.dumps({"commitInfo": {"timestamp": 1_700_000_000_000}})
        + "\n"
        + json.dumps({"protocol": protocol | features})
    )
    found = read_newest(str(tmp_path / "t"))
    assert found.version == 13
    assert (found.table_id, found.schema_version) == (known.table_id, known.schema_version)
    assert found.commit_timestamp == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    features = {"readerFeatures": ["fancy"], "writerFeatures": ["fancy", "catalogManaged"]}
    log(tmp_path / "t", 14).write_text(json.dumps({"protocol": protocol | features}))
    with pytest.raises(SourceError, match="through a catalogue"):
        read_newest(str(tmp_path / "t"))


@pytest.mark.parametrize(
    "feature",
    ["catalogManaged", "catalogManaged-preview", "catalogOwned-preview", "coordinatedCommits-preview"],
)
def test_b18_a_table_that_a_catalogue_commits_to_does_not_tell_its_version(
    tmp_path: Path, feature: str
) -> None:
    made(tmp_path / "t")
    log(tmp_path / "t", 1).write_text(json.dumps(commits_elsewhere(feature)))
    with pytest.raises(SourceError, match="through a catalogue") as caught:
        read_newest(str(tmp_path / "t"))
    assert feature in caught.value.message


def test_a_store_of_another_kind_is_refused() -> None:
    with pytest.raises(
        SourceError, match="hdfs://nowhere/x cannot be reached: paths of kind `hdfs:` are not supported"
    ):
        read_newest("hdfs://nowhere/x")


def test_without_the_library_the_hint_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(RuntimeMissing) as caught:
        read_newest(str(tmp_path))
    assert "tidegauge[delta]" in str(caught.value.hint)
    with pytest.raises(RuntimeMissing):
        read_newest_of_many({"t": str(tmp_path)})


def test_a_hundred_and_twenty_tables_are_looked_at_in_well_under_two_seconds(tmp_path: Path) -> None:
    made(tmp_path / "t0", 4)
    for number in range(1, 120):
        shutil.copytree(tmp_path / "t0", tmp_path / f"t{number}")
    started = time.process_time()
    found = read_newest_of_many({path.name: str(path) for path in tmp_path.iterdir()})
    taken = time.process_time() - started
    print(f"120 tables in {taken:.2f} s")
    assert {one.version for one in found.values() if isinstance(one, NewestVersion)} == {3}
    assert len(found) == 120
    assert taken < 1.5


def test_of_many_tables_each_has_its_own_answer(tmp_path: Path) -> None:
    made(tmp_path / "good")
    made(tmp_path / "torn")
    log(tmp_path / "torn").write_text("{")
    names = {"b.good": "good", "b.torn": "torn", "b.gone": "gone"}
    found = read_newest_of_many({name: str(tmp_path / folder) for name, folder in names.items()})
    assert list(found) == list(names)
    assert isinstance(found["b.good"], NewestVersion)
    assert isinstance(found["b.torn"], SourceError)
    assert isinstance(found["b.gone"], TableMissing)
    assert found["b.gone"].message.startswith("b.gone: there is no Delta table at")
    assert read_newest_of_many({}) == {}


def test_a_table_that_vanishes_in_between_is_missing_and_stops_no_other(tmp_path: Path) -> None:
    for number in range(20):
        made(tmp_path / f"t{number}")
    tables = {path.name: str(path) for path in tmp_path.iterdir()}
    shutil.rmtree(tmp_path / "t7")
    found = read_newest_of_many(tables, parallel=4)
    assert [name for name, one in found.items() if isinstance(one, TidegaugeError)] == ["t7"]


def storage(s3: S3, **changes: Any) -> Lake:
    keys = {"access_key": Secret(s3.access_key), "secret_key": Secret(s3.secret_key)}
    given: dict[str, Any] = {"endpoint": s3.endpoint, "region": s3.region} | keys | changes
    return Lake("lake", "s3a://unused", **given)


def test_tables_on_s3_are_reached_by_endpoint_region_and_keys(s3: S3) -> None:
    place = f"s3a://{s3.create_bucket()}/bronze/a b/ünï"
    lake = storage(s3)
    target = Lake("", place, lake.endpoint, lake.region, lake.access_key, lake.secret_key)
    for _ in range(2):
        write_deltalake(address(target), ROWS, mode="append", storage_options=options(target))
    assert read_newest(place, storage=lake).version == 1
    assert read_newest(place.replace("s3a:", "s3:"), storage=lake).version == 1
    with pytest.raises(TableMissing, match="there is no Delta table at"):
        read_newest(f"{place}/other", storage=lake)


def test_s3_that_cannot_be_reached_is_said_without_secrets(s3: S3) -> None:
    dead = storage(s3, endpoint="http://127.0.0.1:9")
    for place, lake in {"s3a://no-such-bucket/x": storage(s3), "s3a://bucket/x": dead}.items():
        with pytest.raises(SourceUnreachable) as caught:
            read_newest(place, storage=lake)
        assert place in caught.value.message
        assert "\n" not in caught.value.message
        assert s3.secret_key not in f"{caught.value.message} {caught.value.detail}"
