"""A table without a row gets its target, whatever dies on the way, and gets it once."""

from __future__ import annotations

import pytest

from tests.crash.houses import Build, House
from tests.support.nursery import Kill, Nursery
from tidegauge.run.steps import Step

pytestmark = pytest.mark.timeout(900)

SYNC = "tables: [t], cursor: version, batch_rows: 2"
STEPS = [("before", Step.WRITE), ("after", Step.WRITE), ("after", Step.PUBLISH), ("after", Step.ADVANCE)]
PLACES = [(stage, *place) for stage in ("extract", "load") for place in STEPS]


@pytest.mark.parametrize(
    ("source", "lake", "target"),
    [
        ("sqlite", "local", "duckdb"),
        pytest.param("mysql", "local", "postgresql", marks=pytest.mark.long),
        pytest.param("postgresql", "", "mysql", marks=pytest.mark.long),
    ],
)
def test_f2_an_empty_target_is_made_once_whatever_dies(
    build: Build, nursery: Nursery, source: str, lake: str, target: str
) -> None:
    """Each run has to end what the one before left, and dies at the next place."""
    house = build(source, lake, target).write(SYNC)
    places = [one for one in PLACES if lake or one[0] == "load"]
    for stage, side, step in places:
        flow = house.extract if stage == "extract" else house.load
        killed = nursery.run(house.file, Kill(flow, side, step))
        assert killed.code == -9, (stage, side, step, killed)
    assert nursery.run(house.file).code == 0
    assert house.landed() == []
    assert [(one["seq"], one["rows"]) for one in house.commits()] == [(1, 0)]
    assert house.heads() == [(0, 1, 0)]
    assert house.marks() == dict.fromkeys([house.extract, house.load] if lake else [house.load], (0, 1))
    check(house, nursery, 0)

    # What comes then is read from the beginning on, killed as it may be.
    house.change(3, 0)
    assert nursery.run(house.file, Kill(house.load, "after", Step.PUBLISH)).code == -9
    check(house, nursery, 3)


def check(house: House, nursery: Nursery, rows: int) -> None:
    assert nursery.run(house.file).code == 0
    assert len(house.landed()) == rows
    assert house.landed() == house.source()
    proven = nursery.command("verify", "--json", "--project", house.file)
    assert proven.code == 0, proven.out
