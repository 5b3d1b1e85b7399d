"""Columns of the source that a target does not have: not added yet, left out, or dropped there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegauge.compare.frames import Difference
from tidegauge.errors import OutputDisagrees
from tidegauge.flows.verify.table_pair import TablePair
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import Drift, TableFlow
from tidegauge.model.table import Layout


def mark_lost_columns(pair: TablePair, found: Difference, *, known: str | None) -> Difference:
    """Add to a comparison's result what is known of columns that the target lacks, so were not compared.

    `known`: the fingerprint of the source's columns at the last batch. If it is still the same, the target
    had all of them, so somebody has dropped some there.
    """
    if pair.layout is None:
        return found
    flow, described = pair.flow, pair.described
    absent = tuple(one.name for one in described.columns if pair.table.named(one.name) not in pair.held)
    if not absent:
        return found
    names = name_columns(absent)
    if flow.options.drift is Drift.FREEZE or known != described.fingerprint:
        return replace(found, notes=(*found.notes, f"the target does not have the {names}: not compared"))
    note = f"the target has lost the {names}: {_describe_return(flow, absent[0])}"
    return replace(found, notes=(*found.notes, note), lost=absent)


def refuse_lost_columns(flow: TableFlow, output: Output, layout: Layout) -> None:
    """Raise OutputDisagrees if the target has lost a column that earlier batches wrote and new rows have.

    Added again, the column would be NULL in the rows that are there, without a sign that values are lost.
    Not for `drift: freeze`, which never adds a column.
    """
    table = output.capabilities.table
    if table is None or flow.options.drift is Drift.FREEZE:
        return
    held = output.layout()
    if held is None:
        return
    there = {table.named(field.name) for field in held}
    absent = [field.name for field in layout.fields if table.named(field.name) not in there]
    if not absent:
        return
    written = {table.named(name) for name in table.written()}
    lost = tuple(name for name in absent if table.named(name) in written)
    if lost:
        raise OutputDisagrees(
            f"{flow.name}: {output.place} has lost the {name_columns(lost)}, which earlier batches filled",
            hint=f"{_describe_return(flow, lost[0])};"
            f" to do without it say `columns: {{exclude: [{', '.join(lost)}]}}`",
        )


def _describe_return(flow: TableFlow, column: str) -> str:
    """How the values of a lost column come back."""
    if not flow.appends:
        return f"`tidegauge backfill -t {flow.table} --column {column} --reason …` brings the values back"
    # A target that only grows keeps every version of a row: a backfill would add the rows once more.
    return (
        "put it back from a copy of the target;"
        f" `tidegauge sync -t {flow.table} --full-refresh --reason …` has the values too, but only of rows as"
        " the source has them now: their earlier versions are lost"
    )


def name_columns(columns: Sequence[str]) -> str:
    return f"column{'' if len(columns) == 1 else 's'} {', '.join(columns)}"
