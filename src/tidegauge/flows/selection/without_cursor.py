"""Tables of a sync that lack the cursor column or a key, so that new rows cannot be found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches

from tidegauge.errors import CursorUnsuitable, TidegaugeError
from tidegauge.flows.names import first_flow, matches
from tidegauge.flows.selection.missing_tables import RecordedFlows
from tidegauge.model.choices import WithoutCursor
from tidegauge.model.identity import read_identity
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Sync, TableName, TableOptions

_NAME = re.compile(r"[^\W\d]\w*")
_MOST = 20


@dataclass(frozen=True)
class OrderedTables:
    """The tables of a sync, by what `without_cursor` makes of them."""

    options: dict[TableName, TableOptions]
    """The tables that are read, with their options; one without a cursor is read whole."""
    skipped: tuple[TableName, ...]
    """The tables that are left out."""
    refused: tuple[TableName, ...]
    """The tables that are errors."""


def options_of(sync: Sync, table: TableName) -> TableOptions:
    """The options of a table: of its own `override`, else of the first pattern there, else of the sync."""
    if str(table) in sync.per_table:
        return sync.per_table[str(table)]
    for pattern, options in sync.per_table.items():
        if matches(table, pattern, sync.source):
            return options
    return sync.options


def is_read(sync: Sync, table: TableName) -> bool:
    """Whether the sync would read a table whose columns are not known any more: by a cursor, or whole."""
    options = options_of(sync, table)
    return bool(options.cursor) or options.without_cursor is WithoutCursor.SNAPSHOT


def order_tables(
    sync: Sync, source: Source, tables: Sequence[TableName], recorded: RecordedFlows
) -> OrderedTables:
    """Sort the tables by whether they are read, skipped or refused. One that was read by its cursor before is
    still read so: if the cursor is gone, its flow reports that."""
    found, skipped, refused = dict.fromkeys(tables, sync.options), [], []
    lacking = _find_lacking(sync, source, tables)
    for table in tables:
        options = found[table] = options_of(sync, table)
        known = recorded.get(first_flow(sync, table))
        if table not in lacking or (options.cursor and known is not None and not _was_whole(known)):
            continue
        match options.without_cursor:
            case WithoutCursor.SNAPSHOT:
                found[table] = replace(options, cursor="", epoch=None)
                continue
            case WithoutCursor.SKIP:
                skipped.append(table)
            case WithoutCursor.FAIL:
                refused.append(table)
        del found[table]
    return OrderedTables(found, tuple(skipped), tuple(refused))


def refuse_tables(sync: Sync, source: Source, ordered: OrderedTables) -> CursorUnsuitable:
    """Make one error for all refused tables, with the setting that helps."""
    shown = ", ".join(map(str, ordered.refused[:_MOST]))
    more = f" and {len(ordered.refused) - _MOST:,} more" if len(ordered.refused) > _MOST else ""
    columns = {options_of(sync, table).cursor for table in ordered.refused} - {""}
    what = (
        f"no column {' or '.join(sorted(columns))}, which is to be the cursor, or no key"
        if columns
        else "no cursor"
    )
    return CursorUnsuitable(
        f"connection '{sync.source.name}' has tables with {what}: {shown}{more}",
        hint=_suggest_column(sync, source, ordered)
        + "add `without_cursor: snapshot` to the sync to read them whole in each run, or `without_cursor:"
        " skip` to leave them out; or name a cursor or a key of theirs in `override`",
        place=sync.place,
    )


def _suggest_column(sync: Sync, source: Source, ordered: OrderedTables) -> str:
    """Suggest a column with a similar name, if no table has the cursor column; empty: no suggestion."""
    table = ordered.refused[0]
    options = options_of(sync, table)
    if ordered.options or not options.cursor:
        return ""
    with suppress(TidegaugeError):
        whole = source.describe(table, replace(options, cursor="", epoch=None))
        names = [column.name for column in whole.columns]
        if near := get_close_matches(options.cursor, names, n=1):
            return f"did you mean `cursor: {near[0]}`? Else "
    return ""


def _find_lacking(sync: Sync, source: Source, tables: Sequence[TableName]) -> set[TableName]:
    """The tables that lack their cursor column, or a key that they need. A cursor that is an expression is
    not checked here."""
    every = {table: options_of(sync, table) for table in tables}
    names = {options.cursor for options in every.values() if _NAME.fullmatch(options.cursor)}
    having = {name: source.with_column(name) for name in names}
    unkeyed = [table for table, options in every.items() if not (options.key or options.mode.facts.only_adds)]
    keyed = source.with_key() if unkeyed else frozenset()
    return {
        table
        for table, options in every.items()
        if not options.cursor or table not in having.get(options.cursor, {table})
    } | {table for table in unkeyed if table not in keyed}


def _was_whole(source_id: str) -> bool:
    """Whether the watermark is of a table that was read whole."""
    found = read_identity(source_id)
    return found is not None and found.whole
