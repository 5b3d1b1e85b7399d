"""A12: rows that vanish at the source vanish in the warehouse, or are marked; a mass delete is asked for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.crash.houses import Build, House
from tests.support.nursery import Kill, Nursery
from tests.support.project import until
from tidegauge.run.steps import Step

SYNC = "tables: [t], cursor: version, batch_rows: 5, parallel: 1"
HOUSES = [
    ("sqlite", "local", "duckdb"),
    ("postgresql", "", "mysql"),
    ("mysql", "", "postgresql"),
    ("sqlite", "", "sqlite"),
    ("sqlite", "s3", "redshift"),
]


def synced(house: House, nursery: Nursery, *words: str, code: int = 0) -> dict[str, Any]:
    """What the flow that ends in the warehouse says of itself."""
    ended = nursery.command("sync", *words, "--json", "--project", house.file)
    assert ended.code == code, ended
    flows: list[dict[str, Any]] = ended.flows
    return next(flow for flow in flows if flow["flow"] == house.load)


def begun(build: Build, nursery: Nursery, way: tuple[str, str, str], options: str) -> House:
    """Ten rows that have landed."""
    house = build(*way).write(f"{SYNC}, {options}")
    house.change(10, 0)
    synced(house, nursery)
    assert house.landed() == house.source()
    return house


@pytest.mark.shown_on("sqlite-local-duckdb", "mysql--postgresql")
@pytest.mark.parametrize("way", HOUSES, ids="-".join)
def test_a12_rows_deleted_at_the_source_are_deleted_and_counted(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = begun(build, nursery, way, "deletes: hard")
    house.change(2, 1)
    house.database.execute("DELETE FROM t WHERE id IN (4, 7)")
    flow = synced(house, nursery)
    assert [flow[f"rows_{what}"] for what in ("inserted", "updated", "deleted")] == [2, 1, 2]
    assert house.landed() == house.source()
    assert synced(house, nursery)["state"] == "SKIPPED"
    assert house.stages() == []


@pytest.mark.shown_on("sqlite-local-duckdb", "mysql--postgresql")
@pytest.mark.parametrize("way", HOUSES[:3], ids="-".join)
def test_a12_rows_are_marked_and_come_back_when_their_key_does(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = begun(build, nursery, way, "deletes: soft")
    house.database.execute("DELETE FROM t WHERE id = 3")
    assert synced(house, nursery)["rows_deleted"] == 1
    marked = "SELECT id FROM t WHERE _tidegauge_deleted_at IS NOT NULL"
    assert house.target.rows(marked) == [(3,)]
    assert len(house.landed()) == 10
    assert synced(house, nursery)["state"] == "SKIPPED", "it is marked already"
    house.database.execute("INSERT INTO t VALUES (3, 99, 'again')")
    synced(house, nursery)
    assert house.target.rows(marked) == []
    assert house.landed() == house.source()


def versions(house: House, key: int) -> list[tuple[Any, ...]]:
    columns = "valid_from, valid_to, is_current, word"
    found = house.target.rows(f"SELECT {columns} FROM t WHERE id = {key} ORDER BY valid_from")
    return [(start, end, bool(current), word) for start, end, current, word in found]


@pytest.mark.shown_on("mysql")
@pytest.mark.parametrize(
    "way", [*HOUSES[:3], *(pytest.param(way, marks=pytest.mark.long) for way in HOUSES[3:])], ids="-".join
)
def test_d13_a_deleted_row_ends_its_version_and_comes_back_as_a_new_one(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = begun(build, nursery, way, "mode: scd2, deletes: soft")
    house.change(0, 4)
    synced(house, nursery)
    untouched = [key for key in range(10) if key not in (3, 4)]
    before, others = versions(house, 3), [versions(house, key) for key in untouched]
    assert [(one[0], one[1], one[2]) for one in before] == [(4, 14, False), (14, None, True)]
    house.change(0, 1)  # a later value of the cursor
    house.database.execute("DELETE FROM t WHERE id = 3")
    flow = synced(house, nursery)
    assert flow["rows_deleted"] == 1
    assert any("the versions that were current are closed" in note for note in flow["notes"])
    ended = [before[0], (14, 15, False, before[1][3])]
    assert versions(house, 3) == ended
    assert synced(house, nursery)["state"] == "SKIPPED", "it is closed already"
    assert nursery.command("verify", "-t", "t", "--project", house.file).code == 0
    # As it was: the row is there again all the same, and the gap stays.
    house.database.execute(f"INSERT INTO t VALUES (3, 99, '{before[1][3]}')")
    synced(house, nursery)
    assert versions(house, 3) == [*ended, (99, None, True, before[1][3])]
    assert [versions(house, key) for key in untouched] == others
    assert nursery.command("verify", "-t", "t", "--project", house.file).code == 0
    # What was loaded comes again, from the first row on, under other tags.
    stages = ("--stage", "load") if house.lake_text else ()
    words = ("watermark", "reset", "-t", "t", *stages, "--reason", "once more", "--yes")
    assert nursery.command(*words, "--project", house.file).code == 0
    synced(house, nursery)
    assert versions(house, 3) == [*ended, (99, None, True, before[1][3])]
    assert house.stages() == []


MOMENTS = {
    "sqlite": ("TEXT", "strftime('%Y-%m-%d %H:%M:%f', 'now')"),
    "mysql": ("DATETIME(6)", "UTC_TIMESTAMP(6)"),
    "postgresql": ("TIMESTAMP", "now() AT TIME ZONE 'utc'"),
}
CLOCKS = [("postgresql", "", "duckdb"), ("mysql", "local", "sqlite"), ("sqlite", "", "sqlite")]


@pytest.mark.parametrize("way", CLOCKS, ids="-".join)
def test_d13_a_version_ends_by_the_clock_of_the_source(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = build(*way).write(
        "tables: [t], cursor: at, settle: 1s, mode: scd2, deletes: soft, deletes_limit: 60%"
    )
    kind, now = MOMENTS[house.database.engine]
    house.database.execute(
        "DROP TABLE t",
        f"CREATE TABLE t (id INT PRIMARY KEY, word VARCHAR(20), at {kind})",
        "INSERT INTO t VALUES (1, 'a', '2025-01-01 10:00:00.000'), (2, 'b', '2025-01-01 10:00:00.000')",
    )
    synced(house, nursery)
    [(earliest,)] = house.database.rows(f"SELECT {now}")
    house.database.execute("DELETE FROM t WHERE id = 1")
    assert synced(house, nursery)["rows_deleted"] == 1
    [(latest,)] = house.database.rows(f"SELECT {now}")
    [(_, ended, current, _)] = versions(house, 1)
    assert not current
    assert _moment(earliest) - timedelta(seconds=3) <= _moment(ended) <= _moment(latest)
    house.database.execute(f"INSERT INTO t VALUES (1, 'a', {now})")
    until(lambda: synced(house, nursery) and len(versions(house, 1)) == 2)
    first, second = versions(house, 1)
    assert first[1] == ended
    assert _moment(ended) < _moment(second[0])
    assert second[1:] == (None, True, "a")


@pytest.mark.parametrize("way", [HOUSES[0], HOUSES[3]], ids="-".join)
def test_d13_a_row_that_comes_back_dated_in_the_past_is_current(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    """An import with its own timestamps: past the newest row, and long before the deletion was seen."""
    house = build(*way).write("tables: [t], cursor: at, mode: scd2, deletes: soft, deletes_limit: 60%")
    house.database.execute(
        "DROP TABLE t",
        "CREATE TABLE t (id INT PRIMARY KEY, word TEXT, at TEXT)",
        "INSERT INTO t VALUES (1, 'a', '2025-01-01 10:00:00'), (2, 'b', '2025-01-01 10:00:00')",
    )
    synced(house, nursery)
    house.database.execute("DELETE FROM t WHERE id = 1")
    assert synced(house, nursery)["rows_deleted"] == 1
    house.database.execute("INSERT INTO t VALUES (1, 'c', '2025-02-01 10:00:00')")
    synced(house, nursery)
    january, february = "2025-01-01 10:00:00", "2025-02-01 10:00:00"
    assert versions(house, 1) == [(january, february, False, "a"), (february, None, True, "c")]
    assert nursery.command("verify", "-t", "t", "--project", house.file).code == 0


def _moment(value: object) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return moment.replace(tzinfo=None)


def test_a12_marking_can_be_asked_for_later(build: Build, nursery: Nursery) -> None:
    house = begun(build, nursery, HOUSES[0], "deletes: none")
    house.database.execute("DELETE FROM t WHERE id = 3")
    house.write(f"{SYNC}, deletes: soft")
    assert synced(house, nursery)["rows_deleted"] == 1
    assert house.target.rows("SELECT id FROM t WHERE _tidegauge_deleted_at IS NOT NULL") == [(3,)]


def test_a12_a_mass_delete_waits_until_somebody_confirms_it(build: Build, nursery: Nursery) -> None:
    house = begun(build, nursery, HOUSES[0], "deletes: hard")
    house.database.execute("DELETE FROM t WHERE id < 6")
    refused = synced(house, nursery, code=1)
    assert refused["error"]["type"] == "MassDelete"
    assert "6 of 10 rows (60%)" in refused["error"]["message"]
    assert "--confirm-deletes" in refused["error"]["hint"]
    assert len(house.landed()) == 10
    assert synced(house, nursery, "--confirm-deletes")["rows_deleted"] == 6
    assert house.landed() == house.source()


def test_a12_without_the_source_a_load_goes_on_and_deletes_wait(build: Build, nursery: Nursery) -> None:
    house = begun(build, nursery, HOUSES[0], "deletes: hard")
    house.change(3, 0)
    house.database.execute("DELETE FROM t WHERE id = 0")
    assert nursery.command("sync", "--backup-only", "--project", house.file).code == 0
    source = house.folder / "source.db"
    away = source.rename(house.folder / "away.db")
    flow = synced(house, nursery, "--redshift-only")
    assert (flow["rows_inserted"], flow["rows_deleted"]) == (3, 0)
    assert any("cannot be asked which rows were deleted" in note for note in flow["notes"])
    away.rename(source)
    assert synced(house, nursery)["rows_deleted"] == 1
    assert house.landed() == house.source()


@pytest.mark.parametrize(
    ("side", "step"),
    [
        ("after", Step.WRITE),
        ("within", Step.PUBLISH),
        ("after", Step.PUBLISH),
        pytest.param("before", Step.WRITE, marks=pytest.mark.long),
        pytest.param("before", Step.ADVANCE, marks=pytest.mark.long),
        pytest.param("after", Step.ADVANCE, marks=pytest.mark.long),
    ],
)
def test_d13_a_run_killed_while_it_closes_versions_is_ended_by_the_next(
    build: Build, nursery: Nursery, step: Step, side: str
) -> None:
    house = begun(build, nursery, HOUSES[0], "mode: scd2, deletes: soft")
    house.database.execute("DELETE FROM t WHERE id IN (4, 7)")
    assert nursery.run(house.file, kill=Kill(house.load, side, step)).code == -9
    closed = house.target.rows("SELECT id FROM t WHERE NOT is_current ORDER BY id")
    assert closed in ([], [(4,), (7,)])
    synced(house, nursery)
    assert house.target.rows("SELECT id FROM t WHERE NOT is_current ORDER BY id") == [(4,), (7,)]
    assert house.target.rows("SELECT COUNT(*) FROM t") == [(10,)]
    assert sum(one["deleted"] or 0 for one in house.commits()) == 2
    assert synced(house, nursery)["state"] == "SKIPPED"


@pytest.mark.shown_on("write", "publish", "advance")
@pytest.mark.parametrize("step", [Step.BEGIN, Step.WRITE, Step.PUBLISH, Step.CONFIRM, Step.ADVANCE])
@pytest.mark.parametrize("side", ["before", "after"])
def test_a12_a_run_killed_while_it_deletes_is_ended_by_the_next(
    build: Build, nursery: Nursery, step: Step, side: str
) -> None:
    house = begun(build, nursery, HOUSES[0], "deletes: hard")
    house.database.execute("DELETE FROM t WHERE id IN (4, 7)")
    nursery.run(house.file, kill=Kill(house.load, side, step))
    synced(house, nursery)
    assert house.landed() == house.source()
    assert sum(one["deleted"] or 0 for one in house.commits()) == 2
    assert synced(house, nursery)["state"] == "SKIPPED"
