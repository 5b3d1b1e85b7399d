"""Two stages whose watermarks are moved by hand between runs: the warehouse follows the chain of the lake."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.crash.houses import Build, House, Row
from tests.support.lake import rows
from tests.support.nursery import Ended, Kill, Nursery
from tidegauge.run.steps import Step

SYNC = "tables: [t], cursor: version, batch_rows: 3, parallel: 1"
WHY = ("--reason", "a test", "--yes")
EXTRACT, LOAD = ("--stage", "extract"), ("--stage", "load")
BENDS: dict[str, list[tuple[str, ...]]] = {
    "reset": [("reset", *EXTRACT)],
    "set back": [("set", *EXTRACT, "--position", "4", "--force")],
    "undone": [("reset", *EXTRACT), ("undo", *EXTRACT)],
    "both reset": [("reset", *EXTRACT), ("reset", *LOAD)],
    "load reset": [("reset", *LOAD)],
    "load set back": [("set", *LOAD, "--position", "1", "--force")],
}


def version(row: Row) -> int:
    return row[1]


class Hand:
    """A person at the command line."""

    def __init__(self, house: House, nursery: Nursery) -> None:
        self._house, self._nursery = house, nursery

    def watermark(self, kind: str, *words: str, code: int = 0) -> Ended:
        given = ("watermark", kind, "-t", "t", *words, *WHY, "--json", "--project", self._house.file)
        return self._ended(given, code)

    def sync(self, *words: str, code: int = 0) -> Ended:
        return self._ended(("sync", "-t", "t", *words, "--json", "--project", self._house.file), code)

    def _ended(self, words: Sequence[object], code: int) -> Ended:
        ended = self._nursery.command(*words)
        assert ended.code == code, (words, ended)
        return ended


def begin(build: Build, nursery: Nursery, target: str, sync: str = SYNC) -> tuple[House, Hand]:
    """Three batches that went through both stages."""
    house = build("sqlite", "local", target).write(sync)
    hand = Hand(house, nursery)
    house.change(9, 0)
    hand.sync()
    assert house.landed() == house.source()
    return house, hand


@pytest.mark.parametrize("bend", BENDS)
def test_a_merge_is_right_whatever_is_done_to_the_watermarks_between_two_loads(
    build: Build, nursery: Nursery, bend: str
) -> None:
    house, hand = begin(build, nursery, "postgresql")
    house.change(2, 5)
    hand.sync(*EXTRACT)
    for words in BENDS[bend]:
        hand.watermark(*words)
    house.change(1, 3)
    hand.sync()
    assert house.landed() == house.source()
    tags = [(one["epoch"], one["seq"]) for one in house.commits()]
    assert len(tags) == len(set(tags))
    assert {one["state"] for one in hand.sync().flows} == {"SKIPPED"}
    if bend != "undone":
        # The other way round: what was loaded of the bent chain is left behind again.
        hand.watermark("undo", *(EXTRACT if bend in ("reset", "set back") else LOAD))
        house.change(0, 2)
        hand.sync()
        assert house.landed() == house.source()


@pytest.mark.parametrize("undone", [False, True])
def test_an_append_stops_where_rows_would_come_twice_and_says_the_way_out(
    build: Build, nursery: Nursery, undone: bool
) -> None:
    house, hand = begin(build, nursery, "duckdb", f"{SYNC}, mode: append")
    if undone:
        # Read once more by wish: the lake holds those rows twice, and appending brings what the lake holds.
        hand.watermark("set", *EXTRACT, "--position", "6", "--force")
        hand.sync()
        assert len(house.landed()) == 12
        hand.watermark("undo", *EXTRACT)
    else:
        hand.watermark("reset", *EXTRACT)
    house.change(0, 2)
    before, commits = house.landed(), house.commits()
    refused = hand.sync(code=1).flow(house.load)["error"]
    assert refused["type"] == "OutputDisagrees", refused
    assert "would double their rows" in refused["message"]
    assert "--full-refresh" in refused["hint"]
    assert (house.landed(), house.commits()) == (before, commits)

    hand.sync("--full-refresh", *WHY)
    lake = Counter((row["id"], row["version"], row["word"]) for row in rows(house.lake, "t"))
    assert Counter(house.landed()) == lake
    assert house.landed() == house.source()


@pytest.mark.parametrize("bend", ["set", "reset"])
def test_a_batch_that_the_ledger_never_counted_is_never_loaded(
    build: Build, nursery: Nursery, bend: str
) -> None:
    house, hand = begin(build, nursery, "postgresql")
    house.change(0, 6)
    killed = nursery.run(house.file, Kill(house.extract, "after", Step.PUBLISH, 2))
    assert killed.code == -9, killed
    assert len(house.in_lake()) == 5, "it was to die after its second batch was published"
    assert house.marks()[house.extract] == (0, 4)

    hand.sync(*LOAD)
    assert house.marks()[house.load] == (0, 4), "it loaded what the ledger had not counted"
    counted = house.landed()
    stale = sorted(set(house.source()) - set(counted))
    assert len(stale) == 3

    hand.watermark(
        *(("set", *EXTRACT, "--position", "12", "--force") if bend == "set" else ("reset", *EXTRACT))
    )
    # What the batch in the lake says of these rows is not true any more.
    house.database.execute(f"UPDATE t SET word = 'mended' WHERE version > {max(counted, key=version)[1]}")
    seen: set[Row] = set()
    for words in (LOAD, EXTRACT, LOAD, ()):
        hand.sync(*words)
        seen |= set(house.landed())
    assert house.landed() == house.source()
    assert not seen & set(stale), "a batch that no epoch of the lake has was loaded"


def test_a_load_that_goes_back_lands_every_batch_under_a_tag_of_its_new_life(
    build: Build, nursery: Nursery
) -> None:
    house, hand = begin(build, nursery, "postgresql")
    hand.watermark("reset", *LOAD)
    assert house.landed() == house.source(), "a reset empties nothing"
    again = hand.sync().flow(house.load)
    assert (again["rows_read"], again["rows_inserted"], again["rows_updated"]) == (9, 0, 0)
    assert house.heads() == [(0, 3, 1), (1, 3, 0)]
    assert house.marks()[house.extract] == (0, 3)


def test_any_mix_of_runs_kills_and_changes_by_hand_ends_with_the_source_in_the_warehouse(
    build: Build, nursery: Nursery
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    house, hand = begin(build, nursery, "postgresql")
    done: list[object] = []
    for _ in range(14):
        match chance.choice(
            ["run", "run", "kill", "kill", "kill", "extract", "load", "bend", "bend", "undo"]
        ):
            case "run":
                done.append("run")
                hand.sync()
            case "kill":
                step = chance.choice([step for step in Step if step is not Step.PLAN])
                flow, side = chance.choice([house.extract, house.load]), chance.choice(["before", "after"])
                kill = Kill(flow, side, step, chance.choice([1, 1, 2]))
                done.append(kill)
                house.change(1, 3)
                nursery.run(house.file, kill)
            case "extract" | "load" as stage:
                done.append(stage)
                hand.sync("--stage", stage)
            case "bend":
                bend = chance.choice([*BENDS])
                done.append(bend)
                for words in BENDS[bend]:
                    hand.watermark(*words)
            case _:
                # Where there is nothing to undo any more, that is said and nothing else.
                stage = chance.choice(["extract", "load"])
                ended = nursery.command(
                    "watermark", "undo", "-t", "t", "--stage", stage, *WHY, "--json", "--project", house.file
                )
                done.append(("undo", stage, ended.code))
        house.change(chance.randint(0, 2), chance.randint(0, 3))
    hand.sync()
    assert house.landed() == house.source(), done
    tags = [(one["epoch"], one["seq"]) for one in house.commits()]
    assert len(tags) == len(set(tags)), done
    assert {one["state"] for one in hand.sync().flows} == {"SKIPPED"}, done
