"""Which tables of a database's catalogue the names in `tables:` mean, and why a name means none."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tidegauge.errors import TableMissing, TidegaugeError
from tidegauge.flows.names import is_pattern, matches, means
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Sync, TableName


def pick_tables(sync: Sync, catalogue: Sequence[TableName]) -> list[TableName]:
    """The tables of the catalogue that the sync reads, in the order of `tables:`."""
    picked = dict.fromkeys(
        table for name in sync.tables for table in catalogue if matches(table, name, sync.source)
    )
    return [table for table in picked if means(sync, table)]


def find_named_views(sync: Sync, source: Source, catalogue: Sequence[TableName]) -> list[TableName]:
    """The views that `tables:` names in full. A pattern never means a view."""
    names = [name for name in find_unmatched(sync, catalogue) if not is_pattern(name)]
    if not names:
        return []
    views = [table for table, kind in source.left_out() if kind.endswith("view")]
    return [table for table in views if any(matches(table, name, sync.source) for name in names)]


def find_unmatched(sync: Sync, catalogue: Sequence[TableName]) -> list[str]:
    """The names and patterns of `tables:` that match nothing in the catalogue."""
    return [name for name in sync.tables if not any(matches(table, name, sync.source) for table in catalogue)]


def explain_unmatched(
    sync: Sync, name: str, source: Source, catalogue: Sequence[TableName]
) -> TidegaugeError:
    try:
        others = source.left_out()
    except TidegaugeError as error:
        return error
    for table, kind in others:
        if matches(table, name, sync.source):
            return TableMissing(
                f"connection '{sync.source.name}' has no table '{name}', only the {kind} {table}",
                hint="tables are read, and nothing else: name the tables that it is made of",
                place=sync.place,
            )
    return refuse_unmatched(sync, name, catalogue)


def refuse_unmatched(sync: Sync, name: str, catalogue: Sequence[TableName]) -> TableMissing:
    near = difflib.get_close_matches(name, [str(table) for table in catalogue], n=3, cutoff=0.5)
    return TableMissing(
        f"connection '{sync.source.name}' has no table '{name}', or this login may not see it",
        hint=f"did you mean {', '.join(near)}?" if near else "look at `tables:` and at the login's rights",
        place=sync.place,
    )
