"""`verify` changes nothing but its own event, wherever it dies, and claims none that is not kept."""

from __future__ import annotations

import pytest

from tests.crash.houses import Build
from tests.crash.proving import killed_verify
from tests.crash.test_repair import ONE, SYNC, done, verified
from tests.support.nursery import Nursery


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_comparison_that_is_killed_leaves_its_event_or_nothing(
    build: Build, nursery: Nursery, side: str
) -> None:
    house = build(*ONE).write(SYNC)
    house.change(20, 0)
    done(house, nursery, "sync")

    def events() -> list[str]:
        found = done(house, nursery, "history", "--event", "verified", "--event", "differs")["events"]
        return [one["event"] for one in found]

    marks, rows = house.marks(), house.target.rows("SELECT * FROM t ORDER BY id")
    ended = killed_verify(nursery, house.file, side)
    assert (ended.code, ended.out) == (-9, ""), "it says nothing of what it found"
    assert events() == ["verified"] * (side == "after")
    assert (house.marks(), house.target.rows("SELECT * FROM t ORDER BY id")) == (marks, rows)
    assert done(house, nursery, "health")["healthy"]

    house.target.execute("DELETE FROM t WHERE id = 3")
    assert verified(house, nursery, code=1)["missing"] == 1
    assert events()[0] == "differs"
    house.change(5, 0)
    done(house, nursery, "sync")
