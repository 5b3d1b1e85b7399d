"""Computes from the inputs alone what a target has to hold, for `verify` to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegauge.errors import NotCompared
from tidegauge.model.delta_flow import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    DeltaFlow,
    Evaluate,
)
from tidegauge.model.protocols.source import ChangedInput
from tidegauge.transform.batch import BatchInputs
from tidegauge.transform.evaluate import drop_deletes, find_appended
from tidegauge.transform.faults import explain_analysis
from tidegauge.transform.spark_plan import find_clock, has_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def compute_whole(
    flow: DeltaFlow, inputs: Mapping[str, ChangedInput], session: SparkSession
) -> tuple[DataFrame, DataFrame | None]:
    """The rows that the transform gives over the inputs at the ends of their windows, and the rows that it
    marks as deleted; None where it has no `_change_type`. Raises NotCompared for a transform that reads the
    clock."""
    from pyspark.sql import functions as F  # noqa: N812

    with explain_analysis(flow):
        batch = BatchInputs(flow, inputs, session, None)
        rows = batch.whole()
        if flow.transform is not None and has_plan(rows) and (moment := find_clock(rows)) is not None:
            raise NotCompared(
                f"the transform of {flow.name} reads the clock ({moment}), and gives something else by now",
                hint="compare it with a query of your own, or read the time from a column of an input",
                excused=True,
            )
        rows = batch.expectation_filter.filter(rows)
        if CHANGE_TYPE not in rows.columns:
            return rows, None
        gone = rows.where(F.col(CHANGE_TYPE).eqNullSafe(DELETE))
        return drop_deletes(rows), gone.drop(CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)


def compute_appended(flow: DeltaFlow, inputs: Mapping[str, ChangedInput], session: SparkSession) -> DataFrame:
    """The rows that an `append` flow adds for these windows."""
    with explain_analysis(flow):
        batch = BatchInputs(flow, inputs, session, None)
        return batch.expectation_filter.filter(find_appended(batch, Evaluate.ROWS)[0])
