"""Runners that are stopped while they load a warehouse, and wake up when another has done it or begun
anew."""

from __future__ import annotations

import signal
import time

import pytest

from tests.crash.houses import Build, House
from tests.crash.pausing import start_pausing
from tests.support.nursery import Nursery
from tests.support.project import end

SYNC = "tables: [t], cursor: version, batch_rows: 4"
LOAD = ("--stage", "load")
WHY = ("--reason", "a table made anew", "--yes")


@pytest.fixture
def house(build: Build, nursery: Nursery) -> House:
    """Three batches in the lake, none of them in PostgreSQL, and a lease as short as it may be."""
    house = build("sqlite", "local", "postgresql").write(SYNC, top="lease: 3s")
    house.change(12, 0)
    assert nursery.command("run", "--stage", "extract", "--project", house.file).code == 0
    return house


PLACES = [
    ("before", "write", 2),  # nothing of the batch is there yet
    ("after", "write", 2),  # its rows are staged, and nobody sees them
    ("before", "publish", 2),  # the last look at the lease is behind it
    ("before", "advance", 2),  # rows and tag are committed
]


@pytest.mark.parametrize(("side", "step", "times"), PLACES)
def test_b8_a_loader_stopped_for_longer_than_its_lease_changes_nothing_when_it_wakes(
    house: House, nursery: Nursery, side: str, step: str, times: int
) -> None:
    zombie = start_pausing(house, side, step, times, *LOAD)
    time.sleep(3.2)
    heir = nursery.run(house.file)
    assert heir.code == 0, heir
    assert house.landed() == house.source()
    commits, marks = house.commits(), house.marks()
    # Newer than what the zombie staged: it must not bring the old rows back.
    house.change(0, 4)
    assert nursery.run(house.file).code == 0

    zombie.send_signal(signal.SIGCONT)
    ended = end(zombie)
    assert ended.code == 1, ended.said
    assert ended.flow(house.load)["error"]["type"] == "LeaseLost", ended.said
    assert house.landed() == house.source()
    assert house.commits()[:3] == commits
    assert (len(house.commits()), house.heads()) == (4, [(0, 4, 0)])
    assert house.marks() == {**marks, house.extract: (0, 4), house.load: (0, 4)}
    assert house.stages() == [], "who wakes up clears away what it staged"


@pytest.mark.parametrize("target", ["postgresql", pytest.param("mysql", marks=pytest.mark.long)])
def test_b8_a_loader_stopped_inside_its_transaction_is_ended_by_the_server(
    build: Build, nursery: Nursery, target: str
) -> None:
    house = build("sqlite", "local", target).write(SYNC, top="lease: 3s")
    house.change(12, 0)
    assert nursery.command("run", "--stage", "extract", "--project", house.file).code == 0
    zombie = start_pausing(house, "within", "publish", 2, *LOAD)
    time.sleep(3.2)
    # It waits for the lock on the head, which a server keeps no longer than for those who wait.
    heir = nursery.run(house.file)
    assert heir.code == 0, heir
    assert house.landed() == house.source()
    commits = house.commits()

    zombie.send_signal(signal.SIGCONT)
    ended = end(zombie)
    assert ended.code == 1, ended.said
    assert house.landed() == house.source()
    assert house.commits() == commits
    assert [one["seq"] for one in commits] == [1, 2, 3]
    assert nursery.run(house.file).flow(house.load)["state"] == "SKIPPED"
    assert house.stages() == []


@pytest.mark.shown_on("reset")
@pytest.mark.parametrize("anew", ["reset", "refresh"])
@pytest.mark.parametrize(("side", "step", "times"), PLACES[1:])
def test_b17_a_loader_that_wakes_in_a_closed_life_lands_nothing(
    house: House, nursery: Nursery, side: str, step: str, times: int, anew: str
) -> None:
    house.write(SYNC, top="lease: 10m")
    zombie = start_pausing(house, side, step, times, *LOAD)
    if anew == "reset":
        done = nursery.command("watermark", "reset", "-t", "t", *LOAD, *WHY, "--project", house.file)
    else:
        # Everything begins again: the batch in the zombie's hands is of a closed epoch of the lake too.
        house.change(0, 5)
        done = nursery.command("sync", "-t", "t", "--full-refresh", *WHY, "--project", house.file, "--json")
    assert done.code == 0, done
    there = house.landed()

    zombie.send_signal(signal.SIGCONT)
    ended = end(zombie)
    assert ended.code == 1, ended.said
    error = ended.flow(house.load)["error"]["type"]
    assert error in ("LeaseLost", "OutputDisagrees"), ended.said
    assert house.landed() == there
    committed = 2 if step == "advance" else 1
    assert [one["seq"] for one in house.commits() if one["epoch"] == 0] == [*range(1, committed + 1)]
    assert house.heads()[0] == (0, committed, 1), "the head of an epoch that is over does not move"

    last = nursery.run(house.file)
    assert last.code == 0, last
    assert house.landed() == house.source()
    assert house.heads()[-1] == (1, house.marks()[house.load][1], 0)
    assert house.stages() == []
