"""Decide what to do about changed columns, from the flow's `drift` policy and the output's own columns."""

from __future__ import annotations

from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import TableFlow
from tidegauge.model.table import Field, Layout
from tidegauge.plan.drift import DriftDecision, decide


def decide_drift(
    flow: TableFlow,
    output: Output,
    held: tuple[Field, ...],
    layout: Layout,
    *,
    columns_unchanged: bool = False,
) -> DriftDecision:
    """Call `plan.drift.decide` for this output. A table of a database also says what its columns can hold.

    `held`: the columns of the output. `columns_unchanged`: those of the source are as in the last batch.
    """
    if (table := output.capabilities.table) is not None:
        come = {table.named(field.name) for field in layout.fields}
        rest = [field.name for field in held if table.named(field.name) not in come]
        written = {table.named(name) for name in table.written()} if rest else set()
        return decide(
            flow.options.drift,
            held,
            layout,
            place=output.place,
            foreign=[name for name in rest if table.named(name) not in written],
            columns_unchanged=columns_unchanged,
            named=table.named,
            fit=table.fit,
        )
    return decide(
        flow.options.drift, held, layout, place=output.place, columns_unchanged=columns_unchanged, lands=str
    )
