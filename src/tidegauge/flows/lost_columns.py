"""Columns of the source that a warehouse's table does not have: not brought yet, left out, or taken away."""

from __future__ import annotations

from dataclasses import replace

from tidegauge.compare.frames import Difference
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import Drift, TableFlow
from tidegauge.model.table import SourceTable


def judge_columns(
    flow: TableFlow, source_table: SourceTable, output: Output, found: Difference, *, known: str | None
) -> Difference:
    """The same with what is to be said of columns that were not compared, because the target lacks them.

    `known`: the fingerprint of the source's columns at the last batch. Where they are still those, the target
    had them all, and somebody has taken some away.
    """
    table, there = output.capabilities.table, output.layout()
    if table is None or there is None:
        return found
    held = {table.named(field.name) for field in there}
    absent = tuple(one.name for one in source_table.columns if table.named(one.name) not in held)
    if not absent:
        return found
    names = f"column{'' if len(absent) == 1 else 's'} {', '.join(absent)}"
    if flow.options.drift is Drift.FREEZE or known != source_table.fingerprint:
        return replace(found, notes=(*found.notes, f"the target does not have the {names}: not compared"))
    note = (
        f"the target has lost the {names}: `tidegauge backfill -t {flow.table} --column {absent[0]} --reason"
        " …` brings back what is gone"
    )
    return replace(found, notes=(*found.notes, note), lost=absent)
