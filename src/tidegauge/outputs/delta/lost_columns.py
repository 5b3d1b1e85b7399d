"""Columns that a flow has written to its Delta target and that somebody has dropped there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.delta_log.snapshot import Snapshot
from tidegauge.errors import OutputDisagrees
from tidegauge.model.batch_data import DeltaChange
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.spec import Drift
from tidegauge.outputs.delta.target import target_of
from tidegauge.outputs.delta.written_columns import written_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def refuse_lost(look: Snapshot, schema: StructType, change: DeltaChange, flow: DeltaFlow) -> None:
    """Raise OutputDisagrees if the target has lost a column that these rows have.

    Added again, it would be NULL in the rows that the batch does not write, without a sign that values are
    lost. So it may come back in an empty target, or if the batch compares the whole target, unless that keeps
    old rows. Policies other than `drift: evolve` never add a column.
    """
    output = flow.output
    if flow.drift is not Drift.EVOLVE or output.mode.facts.replaces_all:
        return
    target = target_of(look)
    ours = {name.casefold() for name in written_columns(target, output)}
    lost = [one for one in schema.names if target.column(one) is None and one.casefold() in ours]
    if not lost or look.is_empty() or (change.whole and not output.mode.facts.keeps_every_change):
        return
    names = f"column{'s' if len(lost) > 1 else ''} {', '.join(lost)}"
    raise OutputDisagrees(
        f"{flow.name}: {output.table} has lost the {names}, which earlier batches filled",
        hint="RESTORE the table to the version before, or compute it anew: `tidegauge run --select"
        f" {flow.name} --full-refresh --reason …`; or let the transform leave the column out",
    )
