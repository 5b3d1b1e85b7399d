"""The observability example, a run of each day killed somewhere: gold is what all the data gives at once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash import dying
from tests.crash.attached import address_of
from tests.crash.dying import Death
from tests.crash.test_law_kills import PLACES
from tests.integration.observability.house import WORDS, Observability
from tests.support.nursery import Nursery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(3600)


@pytest.mark.long
@pytest.mark.parametrize("days", [2, 30])
def test_b1_days_whose_runs_die_anywhere_end_in_the_same_gold(
    spark: SparkSession, nursery: Nursery, tmp_path: Path, days: int
) -> None:
    dice = random.Random(f"tide-{days}")
    house = Observability(spark, tmp_path / "it")
    deaths = 0
    while house.days < days:
        house.write_day()
        place, side = dice.choice(PLACES)
        at = Death((place,), side, dice.randint(1, 12))
        deaths += dying.run(nursery, at, address_of(spark), *WORDS, "--project", house.file).code != 0
        house.run()
        if house.days % 10 == 0 or house.days == days:
            house.check()
    assert deaths >= days // 2, "most days were to have a run that died"
