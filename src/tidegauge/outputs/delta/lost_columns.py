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


def find_absent(look: Snapshot, flow: DeltaFlow) -> list[str]:
    """Return the columns that the flow has written and its target no longer has.

    None in an empty target, which may get them again; none where all rows are written each time, or columns
    are never added.
    """
    if flow.drift is not Drift.EVOLVE or flow.output.mode.facts.replaces_all:
        return []
    target = target_of(look)
    absent = [one for one in written_columns(target, flow.output) if target.column(one) is None]
    return [] if absent and look.is_empty() else absent


def refuse_lost(look: Snapshot, schema: StructType, change: DeltaChange, flow: DeltaFlow) -> None:
    """Raise OutputDisagrees if the target has lost a column that these rows have.

    Added again, it would be NULL in the rows that the batch does not write, without a sign that values are
    lost. So it may come back if the batch compares the whole target, unless that keeps old rows.
    """
    output = flow.output
    if change.whole and not output.mode.facts.keeps_every_change:
        return
    absent = {name.casefold() for name in find_absent(look, flow)}
    lost = [one for one in schema.names if one.casefold() in absent]
    if not lost:
        return
    names = f"column{'s' if len(lost) > 1 else ''} {', '.join(lost)}"
    raise OutputDisagrees(
        f"{flow.name}: {output.table} has lost the {names}, which earlier batches filled",
        hint=f"{describe_return(flow)}; or let the transform leave the column out",
    )


def describe_return(flow: DeltaFlow) -> str:
    """Say how the values of a lost column come back, and what a full refresh would lose."""
    restore = "RESTORE the table to the version before"
    anew = f"`tidegauge run --select {flow.name} --full-refresh --reason …`"
    if not flow.output.mode.facts.keeps_every_change:
        return f"{restore}, or compute it anew: {anew}"
    return f"{restore}: {anew} computes it anew, but without the changes that its inputs no longer have"
