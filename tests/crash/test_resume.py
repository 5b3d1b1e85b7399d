"""How much of the work is done again after a run was killed: the batch in hand, and nothing else."""

from __future__ import annotations

import pytest

from tests.crash.houses import Build
from tests.support.lake import manifests
from tests.support.nursery import Kill, Nursery
from tidegauge.outputs.warehouse.staging import PREFIX
from tidegauge.run.steps import Step

BATCHES, IN_HAND, ROWS = 12, 8, 6


@pytest.mark.parametrize("readers", [1, 2])
def test_an_extract_killed_in_a_batch_writes_only_that_batch_again(
    build: Build, nursery: Nursery, readers: int
) -> None:
    house = build("mysql", "local", "postgresql")
    house.write(f"tables: [t], cursor: version, batch_rows: {ROWS}, parallel: {readers}")
    house.change(BATCHES * ROWS, 0)
    assert nursery.run(house.file, Kill(house.extract, "after", Step.WRITE, IN_HAND)).code == -9
    first = manifests(house.lake, house.name("t"))
    assert len(first) == IN_HAND - 1

    again = nursery.run(house.file, stage="extract")
    assert again.code == 0, again
    resumed = next(one for one in again.flows if one["flow"] == house.extract and one["resumed"])
    assert resumed["batches"] == BATCHES - (IN_HAND - 1)
    found = manifests(house.lake, house.name("t"))
    assert found[: len(first)] == first, "a batch that was committed was written again"
    committed = {file["path"] for one in found for file in one["files"]}
    written = {name for name in house.lake.names(house.name("t")) if name.endswith(".parquet")}
    assert committed <= written
    assert 1 <= len(written - committed) <= readers, "files that were written and thrown away"
    assert [one["rows"] for one in found] == [ROWS] * BATCHES


def test_a_load_killed_in_a_batch_stages_only_that_batch_again(build: Build, nursery: Nursery) -> None:
    house = build("mysql", "local", "postgresql")
    house.write(f"tables: [t], cursor: version, batch_rows: {ROWS}")
    house.change(BATCHES * ROWS, 0)
    assert nursery.run(house.file, Kill(house.load, "after", Step.WRITE, IN_HAND)).code == -9
    first = house.commits()
    assert len(first) == IN_HAND - 1
    in_lake = house.in_lake()

    again = nursery.run(house.file)
    assert again.code == 0, again
    resumed = next(one for one in again.flows if one["flow"] == house.load and one["resumed"])
    assert (resumed["batches"], resumed["rows_inserted"]) == (BATCHES - (IN_HAND - 1), 30)
    assert house.in_lake() == in_lake
    assert house.commits()[: len(first)] == first
    assert [one["rows"] for one in house.commits()] == [ROWS] * BATCHES
    assert len({name[: len(PREFIX) + 16] for name in house.stages()}) == 1, "staged and thrown away"
    assert house.landed() == house.source()
