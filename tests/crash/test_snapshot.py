"""A table without a cursor, whose run is killed anywhere: the next ends it, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.crash.houses import Build, House
from tests.support.nursery import Kill, Nursery
from tidegauge.run.steps import Step

SYNC = "tables: [t], without_cursor: snapshot, deletes: hard, batch_rows: 4, parallel: 1"
STEPS = [Step.PLAN, Step.BEGIN, Step.WRITE, Step.PUBLISH, Step.CONFIRM, Step.ADVANCE]


def begun(build: Build, nursery: Nursery, *way: str) -> House:
    house = build(*way).write(SYNC)
    house.change(10, 0)
    return house


def ended(house: House, nursery: Nursery) -> None:
    """By the next run, and then there is nothing left to do."""
    assert nursery.command("sync", "--json", "--project", house.file).code == 0
    assert house.landed() == house.source()
    last = nursery.command("sync", "--json", "--project", house.file)
    assert {one["state"] for one in last.flows} == {"SKIPPED"}, last


@pytest.mark.shown_on("before-write", "after-publish", "after-plan")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_difference_is_committed_once_however_its_run_dies(
    build: Build, nursery: Nursery, side: str, step: Step
) -> None:
    house = begun(build, nursery, "sqlite", "", "sqlite")
    ended(house, nursery)
    house.change(2, 1)
    house.database.execute("DELETE FROM t WHERE id IN (4, 7)")
    killed = nursery.run(house.file, kill=Kill(house.load if step is not Step.PLAN else "crash", side, step))
    assert killed.code == -9
    # What was different when the plan was made is not all that is by now.
    house.database.execute("UPDATE t SET word = 'later' WHERE id = 2", "DELETE FROM t WHERE id = 5")
    nursery.command("sync", "--json", "--project", house.file)
    ended(house, nursery)
    counts = [[one[what] or 0 for one in house.commits()] for what in ("inserted", "updated", "deleted")]
    assert [sum(one) for one in counts] == [12, 2, 3]


@pytest.mark.parametrize("times", [2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("side", ["before", pytest.param("after", marks=pytest.mark.long)])
def test_a_first_load_in_many_batches_goes_on_where_it_was_killed(
    build: Build, nursery: Nursery, side: str, times: int
) -> None:
    house = begun(build, nursery, "sqlite", "", "sqlite")
    assert nursery.run(house.file, kill=Kill(house.load, side, Step.PUBLISH, times)).code == -9
    house.database.execute("UPDATE t SET word = 'later' WHERE id = 0", "DELETE FROM t WHERE id = 9")
    nursery.command("sync", "--json", "--project", house.file)
    ended(house, nursery)


@pytest.mark.parametrize("side", ["before", pytest.param("after", marks=pytest.mark.long)])
@pytest.mark.parametrize("step", [Step.PUBLISH, pytest.param(Step.ADVANCE, marks=pytest.mark.long)])
@pytest.mark.parametrize("flow", ["extract", "load"])
def test_a_copy_in_the_lake_is_there_whole_or_not_at_all(
    build: Build, nursery: Nursery, flow: str, step: Step, side: str
) -> None:
    house = begun(build, nursery, "sqlite", "local", "duckdb")
    ended(house, nursery)
    house.change(2, 1)
    house.database.execute("DELETE FROM t WHERE id IN (4, 7)")
    name = house.extract if flow == "extract" else house.load
    assert nursery.run(house.file, kill=Kill(name, side, step)).code == -9
    ended(house, nursery)
