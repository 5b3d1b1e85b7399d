"""Faults that show in a history itself, without its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegauge.model.delta_flow import IS_CURRENT, VALID_FROM, VALID_TO
from tidegauge.model.types import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def faults(history: DataFrame, key: Sequence[str]) -> DataFrame:
    """The keys with an interval that has no start, is empty or overlaps another, or with a row that has ended
    and is current, or has not ended and is not current."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    keys = [F.col(quote(name)) for name in key]
    begin, end, current = F.col(VALID_FROM), F.col(VALID_TO), F.col(IS_CURRENT)
    following = F.lead(begin).over(Window.partitionBy(*keys).orderBy(begin))
    wrong = (
        begin.isNull()
        | ~current.eqNullSafe(end.isNull())
        | F.coalesce(begin >= end, F.lit(False))
        | F.coalesce(following < end, F.lit(False))
        | (end.isNull() & following.isNotNull())
    )
    return history.select(*keys, wrong.alias("__tidegauge_wrong")).where("__tidegauge_wrong").select(*keys)
