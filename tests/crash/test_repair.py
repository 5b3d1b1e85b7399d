"""`repair` moves just the rows that differ: in one commit, whatever dies, and the watermark stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.crash.houses import Build, House
from tests.crash.repairing import killed_repair
from tests.support.nursery import Kill, Nursery
from tidegauge.run.steps import Step

SYNC = "tables: [t], cursor: version, batch_rows: 50, parallel: 1"
ONE, TWO = ("sqlite", "", "sqlite"), ("sqlite", "local", "duckdb")
HOUSES = [ONE, TWO, ("mysql", "", "postgresql"), ("postgresql", "", "mysql")]
KILLS = [
    *(("before", step) for step in (Step.PLAN, Step.BEGIN, Step.PUBLISH, Step.ADVANCE)),
    *(("after", step) for step in (Step.PUBLISH, Step.FINISH)),
]
REPAIR = ("repair", "-t", "t", "--reason", "somebody's hand", "--yes")


def done(house: House, nursery: Nursery, *words: str, code: int = 0) -> dict[str, Any]:
    ended = nursery.command(*words, "--json", "--project", house.file)
    assert ended.code == code, ended
    document: dict[str, Any] = json.loads(ended.out)
    return document


def verified(house: House, nursery: Nursery, code: int = 0) -> dict[str, Any]:
    [table] = done(house, nursery, "verify", "-t", "t", code=code)["tables"]
    assert isinstance(table, dict)
    return table


def spoiled(build: Build, nursery: Nursery, way: tuple[str, str, str], options: str = "") -> House:
    """Twenty rows that have landed, and another hand has been in the target."""
    house = build(*way).write(SYNC + (f", {options}" if options else ""))
    house.change(20, 0)
    done(house, nursery, "sync")
    house.target.execute(
        "DELETE FROM t WHERE id IN (3, 4)",
        "UPDATE t SET word = 'changed by hand' WHERE id IN (7, 11)",
    )
    extra = "INSERT INTO t (id, version, word) VALUES (900, 5, 'never there')"
    house.target.execute(extra)
    return house


@pytest.mark.shown_on("sqlite--sqlite", "mysql--postgresql")
@pytest.mark.parametrize("way", HOUSES, ids="-".join)
def test_only_the_rows_that_differ_are_moved(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = spoiled(build, nursery, way)
    found = verified(house, nursery, code=1)
    assert [found[what] for what in ("missing", "extra", "different", "method")] == [2, 1, 2, "blocks"]
    marks, in_lake = house.marks(), house.in_lake()
    [shown] = done(house, nursery, "repair", "-t", "t", "--dry-run")["repairs"]
    assert (shown["rows_to_move"], shown["rows_to_delete"]) == (4, 0)
    assert len(house.landed()) == 19
    document = done(house, nursery, *REPAIR)
    [flow] = document["flows"]
    assert flow["state"] == "SUCCESS"
    assert [flow[f"rows_{what}"] for what in ("inserted", "updated", "deleted")] == [2, 2, 0]
    assert house.landed() == [*house.source(), (900, 5, "never there")]
    document = done(house, nursery, *REPAIR, "--deletes")
    assert [one["rows_deleted"] for one in document["flows"]] == [1]
    assert house.landed() == house.source()
    assert verified(house, nursery)["equal"]
    # Two batches more, at the position where the flow stood.
    epoch, seq = marks[house.load]
    assert house.marks()[house.load] == (epoch, seq + 2)
    assert house.in_lake() == in_lake
    assert done(house, nursery, *REPAIR)["state"] == "SKIPPED"
    events = done(house, nursery, "history")["events"]
    said = [event["reason"] for event in events if event["event"] == "repair"]
    assert sorted(said) == [
        "somebody's hand (0 missing, 0 different, 1 extra deleted)",
        "somebody's hand (2 missing, 2 different, 1 extra left)",
    ]
    # And what comes after it goes on from the watermark.
    house.change(3, 2)
    done(house, nursery, "sync")
    assert house.landed() == house.source()


@pytest.mark.parametrize(("side", "step"), KILLS, ids=lambda one: str(one))
@pytest.mark.parametrize("way", [ONE, pytest.param(TWO, marks=pytest.mark.long)], ids="-".join)
def test_a_repair_that_was_killed_is_ended_by_the_next(
    build: Build, nursery: Nursery, way: tuple[str, str, str], side: str, step: Step
) -> None:
    house = spoiled(build, nursery, way)
    flow = "crash" if step is Step.PLAN else house.load
    assert killed_repair(nursery, house.file, Kill(flow, side, step), deletes=True).code < 0
    # A run that comes first ends it too.
    again = (*REPAIR, "--deletes") if side == "before" else ("run", "-t", "t")
    if step is not Step.FINISH:
        done(house, nursery, *again)
    assert house.landed() == house.source()
    assert verified(house, nursery)["equal"]
    assert done(house, nursery, *REPAIR, "--deletes")["state"] == "SKIPPED"


def test_a_row_that_changed_since_the_comparison_is_the_next_runs_or_comes_as_it_is_now(
    build: Build, nursery: Nursery
) -> None:
    house = spoiled(build, nursery, ONE)
    assert killed_repair(nursery, house.file, Kill(house.load, "before", Step.BEGIN)).code < 0
    house.database.execute(
        "UPDATE t SET word = 'corrected, without its cursor' WHERE id = 7",
        "UPDATE t SET word = 'newer', version = 500 WHERE id = 11",
        "DELETE FROM t WHERE id = 3",
    )
    done(house, nursery, "retry")
    landed = {key: word for key, _, word in house.landed()}
    assert landed[7] == "corrected, without its cursor"
    assert landed[11] == "changed by hand", "past the watermark: the next run's"
    assert 3 not in landed
    done(house, nursery, "sync")
    assert {key: word for key, _, word in house.landed()}[11] == "newer"


def test_the_history_of_a_row_is_mended_and_a_log_gets_what_it_lacks(build: Build, nursery: Nursery) -> None:
    house = build(*ONE).write(f"{SYNC}, mode: scd2")
    house.change(6, 0)
    done(house, nursery, "sync")
    house.target.execute("DELETE FROM t WHERE id = 2", "UPDATE t SET word = 'wrong' WHERE id = 4")
    done(house, nursery, *REPAIR)
    assert house.landed() == house.source()
    assert verified(house, nursery)["equal"]


def test_a_log_of_versions_gets_the_keys_that_it_lacks_once(build: Build, nursery: Nursery) -> None:
    house = build(*ONE).write(f"{SYNC}, mode: append")
    house.change(6, 0)
    done(house, nursery, "sync")
    house.target.execute("DELETE FROM t WHERE id = 2", "UPDATE t SET word = 'an older one' WHERE id = 4")
    done(house, nursery, *REPAIR)
    assert sorted(key for key, *_ in house.landed()) == [0, 1, 2, 3, 4, 5]


def test_more_than_was_shown_is_not_deleted_unasked(build: Build, nursery: Nursery) -> None:
    house = spoiled(build, nursery, ONE)
    kill = Kill(house.load, "after", Step.ADVANCE)
    assert killed_repair(nursery, house.file, kill, deletes=True).code < 0
    house.database.execute("DELETE FROM t WHERE id < 15")
    ended = nursery.command("retry", "--json", "--project", house.file)
    assert ended.code == 1
    assert ended.flow(house.load)["error"]["type"] == "MassDelete"
    assert len(house.landed()) == 21


def test_what_cannot_be_repaired_is_refused_with_a_way_out(build: Build, nursery: Nursery) -> None:
    house = build(*ONE).write(f"{SYNC}, mode: overwrite")
    house.change(3, 0)
    done(house, nursery, "sync")
    refused = nursery.command(*REPAIR, "--json", "--project", house.file)
    assert refused.code == 2
    assert "looks at the whole table" in refused.out
    house.write(SYNC)
    assert nursery.command("repair", "--yes", "--reason", "x", "--project", house.file).code == 2
    assert nursery.command("repair", "-t", "t", "--yes", "--project", house.file).code == 2
