"""Joins rows with the version of a history that was valid at their time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegauge.errors import TransformFailed
from tidegauge.model.delta_flow import IS_CURRENT, VALID_FROM, VALID_TO
from tidegauge.model.types import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def as_of(fact: DataFrame, dimension: DataFrame, *, on: str | Sequence[str], at: str) -> DataFrame:
    """Every row of `fact` once, with the row of `dimension` of the same `on` that was valid at its time `at`.

    `dimension` is the target of an `scd2` flow: a row is valid from `valid_from` on, and until just before
    `valid_to` if it has one. Where none was valid, its columns are NULL. `valid_from`, `valid_to` and
    `is_current` are left out. Raises TransformFailed for a column that is missing, or that both have.
    """
    from pyspark.sql import functions as F  # noqa: N812

    keys = [on] if isinstance(on, str) else list(on)
    _refuse_missing("fact", fact.columns, [*keys, at])
    _refuse_missing("dimension", dimension.columns, [*keys, VALID_FROM, VALID_TO])
    brought = [name for name in dimension.columns if name not in (*keys, VALID_FROM, VALID_TO, IS_CURRENT)]
    if both := [name for name in brought if name in fact.columns]:
        raise TransformFailed(
            f"as_of: the fact and the dimension both have a column {both[0]}",
            hint="rename it in one of them, or leave it out with select",
        )
    moment = F.col(f"own.{quote(at)}")
    ends = F.col(f"held.{VALID_TO}")
    holds = (moment >= F.col(f"held.{VALID_FROM}")) & (ends.isNull() | (moment < ends))
    for key in keys:
        holds &= F.col(f"own.{quote(key)}") == F.col(f"held.{quote(key)}")
    chosen = [f"own.{quote(name)}" for name in fact.columns] + [f"held.{quote(name)}" for name in brought]
    return fact.alias("own").join(dimension.alias("held"), holds, "left").select(*chosen)


def _refuse_missing(name: str, there: Sequence[str], needed: Sequence[str]) -> None:
    for column in needed:
        if column not in there:
            raise TransformFailed(
                f"as_of: the {name} has no column {column}", hint=f"it has {', '.join(there)}"
            )
