"""Evaluates a batch whose input is read by a column: applies the transform to the window's rows.

The target need not equal the transform over the whole inputs here. The window's rows are merged by their key,
or appended unless the target has them already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.model.batch_data import DeltaChange
from tidegauge.model.delta_flow import COMMIT_TIMESTAMP, COMMIT_VERSION, DeltaFlow
from tidegauge.model.protocols.source import ChangedInput
from tidegauge.model.types import quote
from tidegauge.spark.comparable import make_comparable, make_numbers_comparable
from tidegauge.transform.batch import BatchInputs
from tidegauge.transform.evaluate import add_checks, drop_deletes
from tidegauge.transform.faults import explain_analysis
from tidegauge.transform.scd2_events import add_change_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

_HERE, _THERE = "__tidegauge_h", "__tidegauge_t"


def evaluate_window(
    flow: DeltaFlow,
    inputs: Mapping[str, ChangedInput],
    session: SparkSession,
    target: Callable[[], DataFrame] | None,
    *,
    cached: list[DataFrame] | None = None,
    guarded: bool = False,
    small: bool = False,
) -> DeltaChange:
    """Compute what a batch changes in its target, as lazy frames. The session is the flow's own: views are
    created in it. The other arguments are as in `evaluate_change`. Raises TransformFailed."""
    with explain_analysis(flow):
        batch = BatchInputs(flow, inputs, session, cached, guarded=guarded, small=small)
        rows = batch.whole()
        if flow.output.mode.facts.only_adds:
            rows = leave_out_known(drop_deletes(rows), target() if target else None)
            return add_checks(batch, DeltaChange(batch.expectation_filter.filter_and_count(rows)), target)
        rows = add_change_type(batch.expectation_filter.filter_and_count(rows)).drop(
            COMMIT_VERSION, COMMIT_TIMESTAMP
        )
        return add_checks(batch, DeltaChange(rows), target)


def leave_out_known(rows: DataFrame, target: DataFrame | None) -> DataFrame:
    """The rows that the target does not have with the same values, each once."""
    from pyspark.sql import functions as F  # noqa: N812

    fields = rows.schema.fields
    held = {field.name.casefold(): field for field in target.schema.fields} if target is not None else {}
    pairs = [_pair(field, held.get(field.name.casefold())) for field in fields]
    names = [f"{_HERE}{at}" for at in range(len(fields))]
    marked = rows.withColumns({name: pair[0] for name, pair in zip(names, pairs, strict=True)})
    once = marked.dropDuplicates(names)
    if target is not None:
        there = target.select(*(pair[1].alias(f"{_THERE}{at}") for at, pair in enumerate(pairs)))
        same = (F.col(f"{_HERE}{at}").eqNullSafe(F.col(f"{_THERE}{at}")) for at in range(len(fields)))
        once = once.join(there, reduce(lambda one, other: one & other, same), "left_anti")
    return once.drop(*names)


def _pair(field: StructField, held: StructField | None) -> tuple[Column, Column]:
    """A column of the rows and the target's column, both made comparable; the target may lack it, or have it
    with another type."""
    from pyspark.sql import functions as F  # noqa: N812

    one = F.col(quote(field.name))
    if held is None:
        here = make_comparable(one, field.dataType)
        return here, make_comparable(F.lit(None).cast(field.dataType), field.dataType)
    other = F.col(quote(held.name))
    if field.dataType.simpleString() == held.dataType.simpleString():
        return make_comparable(one, field.dataType), make_comparable(other, held.dataType)
    numbers = make_numbers_comparable(one, field.dataType, other, held.dataType)
    return numbers or (_to_json_text(one), _to_json_text(other))


def _to_json_text(column: Column) -> Column:
    """A value as JSON text. NULL fields are left out, so that a struct equals one that lacks these fields."""
    from pyspark.sql import functions as F  # noqa: N812

    forms = {
        "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
        "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    }
    return F.to_json(F.struct(column.alias("v")), forms)
