"""A full refresh that is killed between its steps: the next run ends it, no row is appended twice, and at no
moment is there nothing to be read."""

from __future__ import annotations

import pytest

from tests.crash.houses import Build
from tests.support.nursery import Kill, Nursery
from tests.support.project import end
from tidegauge.config.load import load_project
from tidegauge.operations import refresh
from tidegauge.run.steps import Step

SYNC = "tables: [t], cursor: version, batch_rows: 3, parallel: 1, mode: append"
PLAIN = "tables: [t], cursor: version, batch_rows: 3, parallel: 1"
AFTER = (Step.CONFIRM, Step.ADVANCE, Step.FINISH)
"""What comes when the first batch is there."""


@pytest.mark.parametrize("step", ["begin_override", "open_epoch", "end_override"])
@pytest.mark.parametrize("side", ["before", "after"])
def test_b15_a_refresh_killed_at_any_step_empties_the_target_once(
    build: Build, nursery: Nursery, side: str, step: str
) -> None:
    house = build("sqlite", "local", "duckdb").write(SYNC)
    house.change(7, 0)
    assert nursery.run(house.file).code == 0
    dying = end(nursery.main(house.file, "refresh", side, step, module="tests.crash.overriding"))
    assert dying.code == -9, dying.said
    house.change(2, 0)
    last = nursery.run(house.file)
    assert last.code == 0, last
    assert house.landed() == house.source(), "a row is there twice, or not at all"
    begun = (side, step) != ("before", "begin_override")
    assert house.marks()[house.load][0] == (1 if begun else 0)


PLACES = [(side, step) for step in Step for side in ("before", "after")] + [("within", Step.PUBLISH)]
COMMITTED = {("after", Step.PUBLISH), *((side, step) for step in AFTER for side in ("before", "after"))}


@pytest.mark.shown_on("local")
@pytest.mark.parametrize(
    ("lake", "target", "modes"),
    [
        ("local", "sqlite", ["merge"]),
        ("", "sqlite", ["merge", "scd2"]),
        pytest.param("local", "duckdb", ["merge"], marks=pytest.mark.long),
        pytest.param("", "postgresql", ["merge", "scd2", "append"], marks=pytest.mark.long),
        pytest.param("", "mysql", ["append"], marks=pytest.mark.long),
        pytest.param("s3", "redshift", ["scd2", "merge"], marks=pytest.mark.long),
    ],
)
def test_d11_readers_see_the_old_rows_or_new_ones_wherever_a_refresh_is_killed(
    build: Build, nursery: Nursery, lake: str, target: str, modes: list[str]
) -> None:
    """One refresh after the other, each killed at another place of its first batch; and each in another mode
    than the one before, where there is more than one: the table is made anew then."""
    house = build("sqlite", lake, target).write(f"{PLAIN}, mode: {modes[-1]}")
    house.change(7, 0)
    assert nursery.run(house.file).code == 0
    for place, (side, step) in enumerate(PLACES):
        old = house.landed()
        house.change(1, 3)
        new = house.source()
        house.write(f"{PLAIN}, mode: {modes[place % len(modes)]}")
        project = load_project(house.file)
        [*begun] = refresh.refresh(project, refresh.preview(project, ("t",)), reason="a test")
        assert [one.error for one in begun] == [None] * len(begun)
        assert house.landed() == old, "before any batch of the new epoch"
        times = 2 if lake and step is Step.PLAN else 1
        kill = Kill("crash" if step is Step.PLAN else house.load, side, step, times)
        assert nursery.run(house.file, kill).code == -9, (side, step)
        seen = house.landed()
        if (side, step) in COMMITTED:
            assert set(seen) <= set(new), (side, step)
            assert len(seen) == (len(new) if step is Step.FINISH else 3), (side, step)
        else:
            assert seen == old, (side, step)
        last = nursery.run(house.file)
        assert last.code == 0, (side, step, last)
        assert house.landed() == new, (side, step)
