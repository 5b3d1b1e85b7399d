"""Somebody drops a column of the target: no run fills it again for a few rows and calls that done."""

from __future__ import annotations

import pytest

from tests.crash.dying import Death, start
from tests.crash.houses import Build, House
from tests.support.nursery import Ended, Kill, Nursery
from tidegauge.run.steps import Step

SYNC = "tables: [t], cursor: version, batch_rows: 5, parallel: 1"
WAYS = [("sqlite", "local", "duckdb"), ("postgresql", "local", "mysql"), ("mysql", "", "postgresql")]
shown_first = pytest.mark.shown_on("sqlite-local-duckdb", "mysql--postgresql")


def command(house: House, nursery: Nursery, *words: str) -> Ended:
    return nursery.command(*words, "--json", "--project", house.file)


def done(house: House, nursery: Nursery, *words: str) -> Ended:
    ended = command(house, nursery, *words)
    assert ended.code == 0, ended
    return ended


def without_word(build: Build, nursery: Nursery, way: tuple[str, str, str]) -> House:
    """Six rows were brought, the target's column `word` was dropped, and two rows have changed since."""
    house = build(*way).write(SYNC)
    house.change(6, 0)
    done(house, nursery, "run")
    house.target.execute("ALTER TABLE t DROP COLUMN word")
    house.change(0, 2)
    return house


def columns(house: House) -> set[str]:
    here = " AND table_schema = DATABASE()" if house.target.engine == "mysql" else ""
    query = f"SELECT column_name FROM information_schema.columns WHERE table_name = 't'{here}"
    return {name for (name,) in house.target.rows(query)}


def assert_alike(house: House) -> None:
    wanted = house.database.rows("SELECT id, word FROM t ORDER BY id")
    assert house.target.rows("SELECT id, word FROM t ORDER BY id") == wanted


@shown_first
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_d9_a_run_stops_at_a_column_that_was_dropped_and_a_backfill_brings_it_back(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = without_word(build, nursery, way)
    for _ in range(2):
        ran = command(house, nursery, "run")
        flow = ran.flow(house.load)
        assert (ran.code, flow["state"], flow["error"]["type"]) == (1, "FAILED", "OutputDisagrees"), ran
        assert "has lost the column word, which earlier batches filled" in flow["error"]["message"]
        assert "--column word" in flow["error"]["hint"]
        assert "word" not in columns(house)
    # A window of its own brings back a part of the values at best.
    part = command(house, nursery, "backfill", "-t", "t", "--from", "5", "--reason", "part", "--yes")
    assert part.code == 1, part
    assert "word" not in columns(house)
    done(house, nursery, "backfill", "-t", "t", "--column", "word", "--reason", "dropped", "--yes")
    done(house, nursery, "run")
    assert_alike(house)
    done(house, nursery, "verify")


@shown_first
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_d9_what_is_left_out_or_written_anew_is_not_lost(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = without_word(build, nursery, way)
    house.write(f"{SYNC}, columns: {{exclude: [word]}}")
    done(house, nursery, "run")
    assert "word" not in columns(house)
    house.write(SYNC)
    done(house, nursery, "run", "--full-refresh", "--reason", "dropped", "--yes")
    assert_alike(house)


@shown_first
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_d9_a_column_dropped_under_a_plan_stops_who_takes_it_over(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    """The run dies before it writes, the column goes, and the next run has the same plan."""
    house = build(*way).write(SYNC)
    house.change(6, 0)
    done(house, nursery, "run")
    house.change(0, 2)
    killed = nursery.run(house.file, Kill(house.load, "before", Step.WRITE))
    assert killed.code == -9, killed
    house.target.execute("ALTER TABLE t DROP COLUMN word")
    ran = command(house, nursery, "run")
    assert ran.code == 1, ran
    assert "has lost the column word" in ran.flow(house.load)["error"]["message"]
    done(house, nursery, "backfill", "-t", "t", "--column", "word", "--reason", "dropped", "--yes")
    done(house, nursery, "run")
    assert_alike(house)


@shown_first
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_d9_a_backfill_of_the_column_that_dies_is_repeated(
    build: Build, nursery: Nursery, way: tuple[str, str, str]
) -> None:
    house = without_word(build, nursery, way)
    words = ["backfill", "-t", "t", "--column", "word", "--reason", "dropped", "--yes"]
    dies = Death(("tidegauge.outputs.warehouse.output:WarehouseOutput.stage",), side="before")
    start(nursery, dies, None, *words, "--project", house.file)
    killed = nursery.end()
    assert killed.code == -9, killed
    assert command(house, nursery, "run").code == 1
    done(house, nursery, *words)
    done(house, nursery, "run")
    assert_alike(house)
    done(house, nursery, "verify")
