"""The source's columns change between runs: both stages agree, nothing is lost, and the history says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.crash.houses import Build, House
from tests.support.nursery import Ended, Kill, Nursery
from tidegauge.run.steps import Step

SYNC = "tables: [t], cursor: version, batch_rows: 5, parallel: 1"
WAYS = [("sqlite", "local", "duckdb"), ("postgresql", "local", "mysql"), ("mysql", "", "postgresql")]


def synced(house: House, nursery: Nursery, *words: str, code: int = 0) -> Ended:
    ended = nursery.command("sync", *words, "--json", "--project", house.file)
    assert ended.code == code, ended
    return ended


def begun(build: Build, nursery: Nursery, way: tuple[str, str, str], options: str = "") -> House:
    house = build(*way).write(f"{SYNC}{options}")
    house.change(6, 0)
    synced(house, nursery)
    return house


def changes(house: House, nursery: Nursery) -> list[dict[str, Any]]:
    """What the history knows of changed columns, the newest first."""
    ended = nursery.command("history", "--json", "--limit", "100", "--project", house.file)
    events: list[dict[str, Any]] = json.loads(ended.out)["events"]
    return [event for event in events if event["event"] == "schema_changed"]


def flows(house: House) -> set[str]:
    return {house.extract, house.load} if house.lake_text else {house.load}


@pytest.mark.shown_on("sqlite-local-duckdb", "mysql--postgresql")
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_an_added_column_is_shown_first_and_reaches_both_stages(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = begun(build, nursery, way)
    house.database.execute("ALTER TABLE t ADD COLUMN discount INT", "UPDATE t SET discount = id * 10")
    house.change(2, 1)
    shown = nursery.command("plan", "--json", "--project", house.file)
    assert "column discount (" in shown.out
    assert "is new" in shown.out
    assert changes(house, nursery) == []
    synced(house, nursery)
    assert {event["flow"] for event in changes(house, nursery)} == flows(house)
    wanted = house.database.rows("SELECT id, discount FROM t WHERE version > 6 ORDER BY id")
    assert house.target.rows("SELECT id, discount FROM t WHERE version > 6 ORDER BY id") == wanted
    assert house.target.rows("SELECT COUNT(*) FROM t WHERE version <= 6 AND discount IS NOT NULL") == [(0,)]
    house.change(1, 0)
    synced(house, nursery)
    assert len(changes(house, nursery)) == len(flows(house)), "it is no news the second time"

    words = ("backfill", "-t", "t", "--column", "discount", "--reason", "it came later", "--yes")
    assert nursery.command(*words, "--project", house.file).code == 0
    everything = "SELECT id, version, discount FROM t ORDER BY id"
    assert house.target.rows(everything) == house.database.rows(everything)


@pytest.mark.shown_on("sqlite-local-duckdb", "mysql--postgresql")
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_d14_a_dropped_column_is_null_in_the_rows_written_from_then_on(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = begun(build, nursery, way)
    house.target.execute("ALTER TABLE t ADD COLUMN remark VARCHAR(20)", "UPDATE t SET remark = 'mine'")
    house.database.execute(
        "ALTER TABLE t DROP COLUMN word",
        "INSERT INTO t (id, version) VALUES (50, 90)",
        "UPDATE t SET version = 91 WHERE id = 1",
    )
    ended = synced(house, nursery)
    said = "the output keeps it, NULL in the rows written from now on and as it was in the others"
    assert any(said in note for note in ended.flow(house.load)["notes"])
    shown = "SELECT id, word, remark FROM t WHERE id IN (0, 1, 50) ORDER BY id"
    assert house.target.rows(shown) == [(0, "version 1 of 0", "mine"), (1, None, "mine"), (50, None, None)]
    assert {event["flow"] for event in changes(house, nursery)} == flows(house)
    assert nursery.command("verify", "-t", "t", "--project", house.file).code == 0
    # It comes back, with what it has by then.
    house.database.execute("ALTER TABLE t ADD COLUMN word VARCHAR(20)", "UPDATE t SET word = 'again'")
    house.database.execute("UPDATE t SET version = 92 WHERE id = 50")
    synced(house, nursery)
    assert house.target.rows(shown) == [(0, "version 1 of 0", "mine"), (1, None, "mine"), (50, "again", None)]


LOADS = [
    WAYS[0],
    pytest.param(WAYS[1], marks=pytest.mark.long),
    pytest.param(("sqlite", "s3", "redshift"), marks=pytest.mark.long),
]


@pytest.mark.parametrize("way", LOADS, ids="-".join)
def test_d14_files_from_before_and_after_a_column_vanished_are_loaded_at_once(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = begun(build, nursery, way)
    house.change(0, 2)
    synced(house, nursery, "--backup-only")
    rename = "ALTER TABLE t RENAME COLUMN word TO text"
    house.database.execute(rename, "UPDATE t SET version = 91, text = 'new' WHERE id = 1")
    synced(house, nursery, "--backup-only")
    house.database.execute("ALTER TABLE t DROP COLUMN text", "UPDATE t SET version = 92 WHERE id = 2")
    synced(house, nursery, "--backup-only")
    synced(house, nursery, "--redshift-only")
    wanted = [(0, "version 7 of 0", None), (1, None, "new"), (2, None, None), (3, "version 4 of 3", None)]
    assert house.target.rows("SELECT id, word, text FROM t WHERE id < 4 ORDER BY id") == wanted
    # Everything once more, over what is there.
    words = ("watermark", "reset", "-t", "t", "--stage", "load", "--reason", "once more", "--yes")
    assert nursery.command(*words, "--project", house.file).code == 0
    synced(house, nursery, "--redshift-only")
    assert house.target.rows("SELECT id, word, text FROM t WHERE id < 4 ORDER BY id") == wanted


@pytest.mark.parametrize(
    ("side", "step"), [("after", Step.WRITE), ("within", Step.PUBLISH), ("after", Step.PUBLISH)]
)
def test_d14_a_run_killed_after_a_column_vanished_is_ended_by_the_next(
    build: Build, nursery: Nursery, side: str, step: Step
) -> None:
    house = begun(build, nursery, WAYS[0])
    house.database.execute("ALTER TABLE t DROP COLUMN word", "UPDATE t SET version = 91 WHERE id = 1")
    assert nursery.run(house.file, Kill(house.load, side, step)).code == -9
    shown = "SELECT id, version, word FROM t WHERE id < 2 ORDER BY id"
    kept, nulled = (1, 2, "version 2 of 1"), (1, 91, None)
    published = (side, step) == ("after", Step.PUBLISH)
    assert house.target.rows(shown) == [(0, 1, "version 1 of 0"), nulled if published else kept]
    synced(house, nursery)
    assert house.target.rows(shown) == [(0, 1, "version 1 of 0"), nulled]


@pytest.mark.parametrize("way", WAYS[1:], ids="-".join)
def test_a_wider_type_reaches_the_target_and_a_narrower_one_takes_nothing(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = begun(build, nursery, way)
    mysql = house.database.engine == "mysql"
    alter = "ALTER TABLE t MODIFY version" if mysql else "ALTER TABLE t ALTER COLUMN version TYPE"
    house.database.execute(f"{alter} BIGINT NOT NULL" if mysql else f"{alter} BIGINT")
    house.database.execute(f"INSERT INTO t VALUES (60, {2**40}, 'wide')")
    synced(house, nursery)
    assert house.landed() == house.source()
    assert (60, 2**40, "wide") in house.landed()
    house.database.execute("ALTER TABLE t ADD COLUMN small BIGINT", f"UPDATE t SET small = {2**40}")
    house.database.execute(f"UPDATE t SET version = {2**40 + 1} WHERE id = 0")
    synced(house, nursery)
    house.database.execute("UPDATE t SET small = 7")
    small = "ALTER TABLE t MODIFY small INT" if mysql else "ALTER TABLE t ALTER COLUMN small TYPE INT"
    house.database.execute(small, f"UPDATE t SET version = {2**40 + 2} WHERE id = 1")
    synced(house, nursery)
    assert house.target.rows("SELECT id, small FROM t WHERE id IN (0, 1) ORDER BY id") == [(0, 2**40), (1, 7)]


def test_a_column_of_another_kind_stops_the_flow_with_both_types(build: Build, nursery: Nursery) -> None:
    house = begun(build, nursery, WAYS[1])
    house.database.execute("ALTER TABLE t ALTER COLUMN word TYPE BIGINT USING 5")
    house.database.execute("INSERT INTO t VALUES (70, 70, 70)")
    before = house.landed()
    flow = synced(house, nursery, code=1).flow(house.extract)
    message = flow["error"]["message"]
    assert "word" in message
    assert "string" in message
    assert "bigint" in message
    assert house.landed() == before


@pytest.mark.parametrize("way", WAYS[:1] + WAYS[2:], ids="-".join)
def test_a_frozen_flow_leaves_new_columns_out_and_says_so_once(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = begun(build, nursery, way, ", drift: freeze")
    house.database.execute("ALTER TABLE t ADD COLUMN discount INT")
    for _ in range(2):
        house.change(2, 1)
        first = synced(house, nursery).flows[0]
        assert any("left out, as `drift: freeze` says: discount" in note for note in first["notes"])
    columns = {name for one in house.in_lake() for name in (field["name"] for field in one["schema"])}
    assert "discount" not in columns
    assert house.target.rows("SELECT id, version, word FROM t ORDER BY id") == house.database.rows(
        "SELECT id, version, word FROM t ORDER BY id"
    )


def test_a_flow_that_shall_fail_stops_with_the_list_and_changes_nothing(
    build: Build, nursery: Nursery
) -> None:
    house = begun(build, nursery, WAYS[0], ", drift: fail")
    before, marks = house.landed(), house.marks()
    house.database.execute("ALTER TABLE t ADD COLUMN discount INT", "ALTER TABLE t ADD COLUMN extra TEXT")
    house.change(2, 1)
    flow = synced(house, nursery, code=1).flow(house.extract)
    assert flow["state"] == "FAILED"
    assert "discount" in flow["error"]["message"]
    assert "extra" in flow["error"]["message"]
    assert (house.landed(), house.marks()) == (before, marks)
    house.write(f"{SYNC}, drift: evolve")
    synced(house, nursery)
    assert house.landed() == house.source()


@pytest.mark.shown_on("publish")
@pytest.mark.parametrize("step", [Step.WRITE, Step.PUBLISH, Step.ADVANCE])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("way", WAYS[1:2], ids="-".join)
def test_a_run_killed_while_a_column_comes_is_ended_by_the_next(
    build: Build, nursery: Nursery, way: tuple[str, str, str], side: str, step: Step
) -> None:
    house = begun(build, nursery, way)
    house.database.execute("ALTER TABLE t ADD COLUMN discount INT", "UPDATE t SET discount = id")
    house.change(2, 4)
    assert nursery.run(house.file, Kill(house.load, side, step)).code == -9
    synced(house, nursery)
    assert house.landed() == house.source()
    both = "SELECT id, discount FROM t WHERE version > 6 ORDER BY id"
    assert house.target.rows(both) == house.database.rows(both)


def test_a_lake_that_is_away_is_said_and_the_warehouse_stays_as_it_is(build: Build, nursery: Nursery) -> None:
    house = begun(build, nursery, WAYS[0])
    house.change(2, 1)
    before = house.landed()
    lake = house.folder / "lake"
    away = lake.rename(house.folder / "away")
    lake.write_text("no folder")
    ended = synced(house, nursery, code=1)
    assert ended.flow(house.extract)["error"]["type"] == "OutputUnreachable"
    assert ended.flow(house.load)["state"] == "SKIPPED"
    assert any(house.extract in note for note in ended.flow(house.load)["notes"])
    assert house.landed() == before
    lake.unlink()
    away.rename(lake)
    synced(house, nursery)
    assert house.landed() == house.source()
