"""The law with expectations: the target equals the transform over the whole, less what is set aside."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.spark.lawful import FAMILIES
from tests.spark.moving import quick
from tests.spark.test_law import SEED, Case
from tidegauge.model.delta_flow import DeltaFlow, Evaluate
from tidegauge.model.expectation import Action, Expectation, Predicate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.moving import Window


class ExpectingCase(Case):
    """Of every second row, by a hash of all its columns, nothing is kept."""

    def _delta_flow(self, evaluate: Evaluate) -> DeltaFlow:
        expected = Expectation("even", Predicate(self._predicate()), Action.QUARANTINE)
        return replace(super()._delta_flow(evaluate), expect=(expected,))

    def _whole(self, windows: dict[str, Window]) -> DataFrame:
        return super()._whole(windows).where(self._predicate())

    def _predicate(self) -> str:
        names = (*self.wanted.moving, *self.wanted.pinned)
        whole = super()._whole({name: self.world.tables[name].pinned(0) for name in names})
        columns = ", ".join(f"string(`{name}`)" for name in whole.columns)
        return f"pmod(xxhash64({columns}), 2) = 0"


@pytest.mark.parametrize("cases", [1, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.parametrize("family", ["filters", "aggregate", "snapshot", "partitions", "history", "functions"])
def test_the_target_equals_the_whole_less_what_is_set_aside(
    spark: SparkSession, family: str, cases: int
) -> None:
    session = quick(spark)
    for number in range(cases):
        dice = random.Random(f"{SEED}-expect-{family}-{number}")
        ExpectingCase(session, dice, FAMILIES[family](dice)).live()
