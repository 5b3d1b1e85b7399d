"""A12: rows that vanish at the source vanish in the warehouse, or are marked; a mass delete is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash.houses import Build, House
from tests.crash.nursery import Kill, Nursery
from tidegauge.engine.steps import Step

pytestmark = pytest.mark.crash

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


@pytest.mark.parametrize("step", [Step.BEGIN, Step.WRITE, Step.PUBLISH, Step.SETTLE, Step.ADVANCE])
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
