"""The law under kills: generated transforms over tables that live on, by runs that die anywhere."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash import dying
from tests.crash.attached import address_of
from tests.crash.dying import Death
from tests.spark import lawful
from tests.spark.lawful import NAMES, Wanted
from tests.support.nursery import Nursery
from tests.support.project import here
from tidegauge.model.mode import Mode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1800)

FAMILIES = [
    lawful.filters,
    lawful.simple_join,
    lawful.any_join,
    lawful.full_by_key,
    lawful.aggregate,
    lawful.of_aggregate,
    lawful.union,
    lawful.others,
    lawful.partitions,
]
SEED = os.environ.get("TIDEGAUGE_LAW_SEED", "tide")
PLACES = [
    ("tidegauge.ledger.base:BaseLedger.claim", "after"),  # which begins the first batch
    ("tidegauge.outputs.delta.output:DeltaOutput.stage", "after"),
    # Whether Spark commits the batch or not.
    ("tidegauge.outputs.delta.output:DeltaOutput.commit", "before"),
    ("tidegauge.outputs.delta.output:DeltaOutput._commit", "before"),
    ("tidegauge.outputs.delta.output:DeltaOutput._commit", "after"),
    ("tidegauge.ledger.base:BaseLedger.advance", "before"),
    ("tidegauge.ledger.base:BaseLedger.advance", "after"),
]


class World:
    """Three Delta tables, and a flow for each of some generated transforms."""

    def __init__(self, spark: SparkSession, folder: Path, dice: random.Random) -> None:
        self.spark, self.folder, self.dice = spark, folder, dice
        self.file = folder / "tidegauge.yml"
        self.held: dict[str, dict[int, tuple[Any, ...]]] = {name: {} for name in NAMES}
        self.flows: dict[str, Wanted] = {}
        for name in NAMES:
            spark.sql(
                f"CREATE TABLE {self._table(name)} (id BIGINT, g STRING, n BIGINT, r BIGINT) USING delta"
                " TBLPROPERTIES (delta.enableChangeDataFeed = true)"
            )

    def declare(self, wanted: list[Wanted]) -> None:
        lines = ["pipeline: law", "ledger: sqlite:///ledger.db", "flows:"]
        for number, one in enumerate(wanted):
            name = f"f{number}"
            self.flows[name] = one
            (self.folder / f"{name}.sql").write_text(self._text(one))
            steps = self.dice.choice(["", ", max_versions: 1"])
            inputs = ", ".join(f"{table}: {{path: {table}{steps}}}" for table in one.moving)
            output = f"path: {name}, mode: {one.mode.value}"
            output += f", key: [{', '.join(one.key)}]" if one.mode is Mode.MERGE else ""
            output += f", partition_by: [{', '.join(one.partition_by)}]" if one.partition_by else ""
            lines.append(f"  {name}: {{inputs: {{{inputs}}}, transform: {name}.sql, output: {{{output}}}}}")
        self.file.write_text("\n".join(lines) + "\n")

    def live(self, name: str) -> None:
        """One version more: rows that are all new, or new and changed, or some go."""
        dice, held = self.dice, self.held[name]
        rows = {id_: self._row(id_) for id_ in dice.sample(range(1, 9), dice.choice([1, 2, 3]))}
        values = ", ".join(
            f"({', '.join('NULL' if v is None else repr(v) for v in row)})" for row in rows.values()
        )
        if not rows.keys() & held.keys():
            self.spark.sql(f"INSERT INTO {self._table(name)} VALUES {values}")
            held.update(rows)
        elif dice.random() < 0.3:
            self.spark.sql(f"DELETE FROM {self._table(name)} WHERE id IN ({', '.join(map(str, rows))})")
            self.held[name] = {id_: row for id_, row in held.items() if id_ not in rows}
        else:
            self.spark.sql(
                f"MERGE INTO {self._table(name)} t USING (SELECT * FROM VALUES {values} AS v(id, g, n, r)) s"
                " ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
            held.update(rows)

    def check(self) -> None:
        """Every target holds what its transform gives over the whole."""
        for table in NAMES:
            self.spark.sql(f"SELECT * FROM {self._table(table)}").createOrReplaceTempView(table)
        for name, one in self.flows.items():
            wanted = self.spark.sql(self._text(one))
            found = self.spark.sql(f"SELECT * FROM {self._table(name)}").select(wanted.columns)
            there, right = (Counter(map(tuple, frame.collect())) for frame in (found, wanted))
            assert there == right, (name, self._text(one), there - right, right - there)

    def _row(self, id_: int) -> tuple[Any, ...]:
        dice = self.dice
        return (
            id_,
            dice.choice(["x", "x", "y"]),
            dice.choice([None, 0, 1, 2, 3]),
            dice.choice([None, 1, 2, 3, 4]),
        )

    def _text(self, one: Wanted) -> str:
        """Without rows that no target takes: those with NULL in their key."""
        assert isinstance(one.transform, str)
        known = " AND ".join(f"{name} IS NOT NULL" for name in one.key)
        return f"SELECT * FROM ({one.transform}) WHERE {known}" if known else one.transform

    def _table(self, name: str) -> str:
        return f"delta.`{self.folder}/{name}`"


@pytest.mark.long
@pytest.mark.parametrize("number", range(12))
def test_b1_the_law_holds_for_generated_transforms_whose_runs_die_anywhere(
    spark: SparkSession, nursery: Nursery, tmp_path: Path, number: int
) -> None:
    dice = random.Random(f"{SEED}-{number}")
    world = World(spark, tmp_path, dice)
    for name in NAMES:
        world.live(name)
    # All of them die and are taken up in the same way; the further numbers have more at once.
    world.declare([family(dice) for family in dice.sample(FAMILIES, 6 if number else 3)])
    deaths, tried = 0, list[Death]()
    for turn in range(2):
        place, side = dice.choice(PLACES)
        at = Death((place,), side, dice.randint(1, 6 if number else 3))
        tried.append(at)
        words = ("run", "--parallel", "2", "--project", world.file)
        deaths += dying.run(nursery, at, address_of(spark), *words).code != 0
        if turn == 1:
            # What has come since is for the plan after the one that is taken up.
            world.live(dice.choice(NAMES))
        ran = here(*words)
        assert ran.code == 0, ran.said
        world.check()
        for name in NAMES:
            for _ in range(dice.choice([0, 1, 2])):
                world.live(name)
    assert deaths, f"a run was to die: {tried}"
