"""Kill what ends in a warehouse before and after every step, run again, and compare row by row.

One project for each pair of ends, and one kill after the other, each with new rows of its own to load. The
steps come from the code: one that is added without a place here fails `test_every_step_…`.
"""

from __future__ import annotations

import pytest

from tests.crash.houses import Build, House
from tests.support.nursery import Kill, Nursery
from tidegauge.outputs.warehouse.staging import PREFIX
from tidegauge.run.steps import Step

# A step that comes once for each batch is hit in the second one, with one batch behind it and one ahead.
TIMES = {
    Step.PLAN: 1,
    Step.CLAIM: 1,
    Step.BEGIN: 2,
    Step.WRITE: 2,
    Step.PUBLISH: 2,
    Step.CONFIRM: 2,
    Step.ADVANCE: 2,
    Step.FINISH: 1,
}
PLACES = [(side, step) for step in Step for side in ("before", "after")] + [("within", Step.PUBLISH)]
LEAVE_A_STAGE = {("after", Step.WRITE), ("before", Step.PUBLISH), ("within", Step.PUBLISH)}
SYNC = "tables: [t], cursor: version, batch_rows: 2"
ENDS = [
    ("sqlite", "local", "duckdb"),
    ("mysql", "local", "postgresql"),
    ("postgresql", "s3", "mysql"),
    ("mysql", "", "postgresql"),
    ("sqlite", "s3", "redshift"),
]


def test_every_step_of_the_protocol_is_killed_here() -> None:
    assert set(TIMES) == set(Step)


@pytest.mark.parametrize(("source", "lake", "target"), ENDS[:1])
def test_b1_b2_a_load_killed_at_any_step_is_ended_by_the_next_run(
    build: Build, nursery: Nursery, source: str, lake: str, target: str
) -> None:
    house = build(source, lake, target).write(SYNC)
    house.change(4, 0)
    assert nursery.run(house.file).code == 0
    check(house)
    for side, step in PLACES:
        house.change(4, 2)
        kill(house, nursery, side, step)
        extracted, counted = house.in_lake(), house.marks()[house.extract]

        again = nursery.run(house.file)
        assert again.code == 0, (side, step, again)
        check(house)
        assert again.flow(house.extract)["state"] == "SKIPPED", (side, step)
        assert (house.in_lake(), house.marks()[house.extract]) == (extracted, counted), (side, step)
    check_stages(house, nursery)


@pytest.mark.parametrize(
    ("source", "lake", "target"),
    [pytest.param(*ends, marks=pytest.mark.long) for ends in ENDS[1:]],
)
def test_b1_b2_runs_that_are_all_killed_lose_and_double_nothing(
    build: Build, nursery: Nursery, source: str, lake: str, target: str
) -> None:
    """Each run has to end what the one before left, and dies at the next place."""
    house = build(source, lake, target).write(SYNC)
    house.change(4, 0)
    for side, step in PLACES:
        kill(house, nursery, side, step)
        if (side, step) != ("before", Step.PLAN):
            assert [one["seq"] for one in house.commits()] == [*range(1, house.heads()[0][1] + 1)]
        house.change(4, 2)
    last = nursery.run(house.file)
    assert last.code == 0, last
    check(house)
    if lake:
        assert sum(one["rows"] for one in house.in_lake()) == sum(house.changes), "extract was repeated"
        assert house.marks()[house.extract] == (0, len(house.in_lake()))
    check_stages(house, nursery)


def kill(house: House, nursery: Nursery, side: str, step: Step) -> None:
    # Plans are kept for all flows at once; the load's come after the extract's.
    flow = "crash" if step is Step.PLAN else house.load
    times = TIMES[step] + (1 if house.lake_text and step is Step.PLAN else 0)
    killed = nursery.run(house.file, Kill(flow, side, step, times))
    assert killed.code == -9, (side, step, killed)


def check(house: House) -> None:
    """Every row once, every batch under one tag, and counts that add up to what was changed at the source."""
    assert house.landed() == house.source()
    commits = house.commits()
    assert [(one["epoch"], one["seq"]) for one in commits] == [(0, n) for n in range(1, len(commits) + 1)]
    assert house.heads() == [(0, len(commits), 0)]
    inserted, updated = house.changes
    rows, *counts = [sum(one[name] for one in commits) for name in ("rows", "inserted", "updated", "deleted")]
    if not house.lake_text:
        # A row that changed again before it was read came only once.
        updated = rows - inserted
    assert (rows, counts) == (inserted + updated, [inserted, updated, 0])
    assert house.marks()[house.load] == (0, len(commits))
    assert house.tally() == (rows, len(commits))


def check_stages(house: House, nursery: Nursery) -> None:
    """What the killed attempts left is there as long as they might still be at work, and no longer."""
    left = house.stages()
    assert len({name[: len(PREFIX) + 16] for name in left}) == len(LEAVE_A_STAGE), left
    nothing_new = nursery.run(house.file)
    assert {one["state"] for one in nothing_new.flows} == {"SKIPPED"}
    assert house.stages() == left
    make_old(house)
    assert nursery.run(house.file).code == 0
    assert house.stages() == []


def make_old(house: House) -> None:
    """As if the attempts had been killed two days ago: the moment stands in the name."""
    for name in house.stages():
        moment = int(name[len(PREFIX) :][:8], 16) - 2 * 86400
        older = f"{PREFIX}{moment:08x}{name[len(PREFIX) + 8 :]}"
        house.target.execute(f"ALTER TABLE {name} RENAME TO {older}")
