"""What an output makes of columns that have changed: the policy, and what the output says of itself."""

from __future__ import annotations

from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import TableFlow
from tidegauge.model.table import Field, Layout
from tidegauge.plan.drift import Decision, decide


def decide_drift(
    flow: TableFlow, output: Output, held: tuple[Field, ...], layout: Layout, *, known: bool = False
) -> Decision:
    """See `plan.drift.decide`. A lake's types are Spark's own; a warehouse says what its columns hold."""
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
            known=known,
            named=table.named,
            fit=table.fit,
        )
    return decide(flow.options.drift, held, layout, place=output.place, known=known, lands=str)
