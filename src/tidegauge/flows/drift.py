"""What an output makes of columns that have changed: the policy, and what the output says of itself."""

from __future__ import annotations

from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import TableFlow
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse.output import WarehouseOutput
from tidegauge.plan.drift import Decision, decide


def decide_drift(
    flow: TableFlow, output: Output, held: tuple[Field, ...], layout: Layout, *, known: bool = False
) -> Decision:
    """See `plan.drift.decide`. A lake's types are Spark's own; a warehouse knows best what its hold."""
    if isinstance(output, WarehouseOutput):
        come = {output.named(field.name) for field in layout.fields}
        rest = [field.name for field in held if output.named(field.name) not in come]
        written = {output.named(name) for name in output.written()} if rest else set()
        return decide(
            flow.options.drift,
            held,
            layout,
            place=output.place,
            foreign=[name for name in rest if output.named(name) not in written],
            known=known,
            named=output.named,
            fit=output.fit,
        )
    return decide(flow.options.drift, held, layout, place=output.place, known=known, lands=str)
