"""The law with expectations: the target equals the transform over the whole, less what is set aside."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.lawful import FAMILIES
from tests.spark.moving import quick
from tests.spark.test_law import SEED, Case
from tidegauge.model.batch_data import GUARD
from tidegauge.model.delta_flow import DeltaFlow, Evaluate
from tidegauge.model.expectation import Action, Expectation, Predicate
from tidegauge.model.spark_causes import with_causes
from tidegauge.transform.evaluate import evaluate_change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.moving import Window
    from tests.spark.test_law import Rows, Told
    from tidegauge.model.batch_data import DeltaChange


class ExpectingCase(Case):
    """Of every second row, by a hash of all its columns, nothing is kept."""

    expected = "pmod(xxhash64({columns}), 2) = 0"

    def _delta_flow(self, evaluate: Evaluate) -> DeltaFlow:
        expected = Expectation("even", Predicate(self._predicate()), Action.QUARANTINE)
        return replace(super()._delta_flow(evaluate), expect=(expected,))

    def _whole(self, windows: dict[str, Window]) -> DataFrame:
        return super()._whole(windows).where(self._predicate())

    def _predicate(self) -> str:
        names = (*self.wanted.moving, *self.wanted.pinned)
        whole = super()._whole({name: self.world.tables[name].pinned(0) for name in names})
        columns = ", ".join(f"string(`{name}`)" for name in whole.columns)
        return self.expected.format(columns=columns)


class GuardedCase(ExpectingCase):
    """Under the guard a batch does the same as after a look at its rows, or ends because one is set aside."""

    expected = "pmod(xxhash64({columns}), 20) <> 0"

    def _collected(
        self, change: DeltaChange, windows: dict[str, Window]
    ) -> tuple[list[Told], Rows, set[Any]]:
        found = super()._collected(change, windows)
        verdict = change.judge() if change.judge else None
        aside = verdict is not None and verdict.checks.quarantined > 0
        try:
            guarded = evaluate_change(
                self.delta_flow, windows, self.session, self._target(), self.choice, guarded=True
            )
            again = super()._collected(guarded, windows)
        except Exception as error:
            if not aside or GUARD not in with_causes(error):
                raise AssertionError(self._story()) from error
        else:
            assert not aside, self._story()
            assert Counter(map(str, again[0])) == Counter(map(str, found[0])), self._story()
            assert again[1:] == found[1:], self._story()
        return found


FAMILIES_THAT_DIFFER = ["filters", "aggregate", "snapshot", "partitions", "history", "functions"]


@pytest.mark.shown_on("aggregate", "history")
@pytest.mark.parametrize("cases", [1, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.parametrize("family", FAMILIES_THAT_DIFFER)
def test_the_target_equals_the_whole_less_what_is_set_aside(
    spark: SparkSession, family: str, cases: int
) -> None:
    session = quick(spark)
    for number in range(cases):
        dice = random.Random(f"{SEED}-expect-{family}-{number}")
        ExpectingCase(session, dice, FAMILIES[family](dice)).live()


@pytest.mark.shown_on("snapshot")
@pytest.mark.parametrize("family", FAMILIES_THAT_DIFFER)
def test_the_guard_lets_through_what_a_look_at_the_rows_would(spark: SparkSession, family: str) -> None:
    dice = random.Random(f"{SEED}-guard-{family}")
    GuardedCase(quick(spark), dice, FAMILIES[family](dice)).live()
