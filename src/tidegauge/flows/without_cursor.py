"""Tables of a sync that have nothing to page by: no column that is to be the cursor, or no key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches

from tidegauge.errors import CursorUnsuitable, TidegaugeError
from tidegauge.flows.missing_tables import RecordedFlows
from tidegauge.flows.names import first_flow, matches
from tidegauge.model.choices import WithoutCursor
from tidegauge.model.identity import read_identity
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Sync, TableName, TableOptions

_NAME = re.compile(r"[^\W\d]\w*")
_MOST = 20


@dataclass(frozen=True)
class OrderedTables:
    options: dict[TableName, TableOptions]
    """Of those that are read; without a cursor: whole."""
    skipped: tuple[TableName, ...]
    refused: tuple[TableName, ...]


def options_of(sync: Sync, table: TableName) -> TableOptions:
    if str(table) in sync.override:
        return sync.override[str(table)]
    for pattern, options in sync.override.items():
        if matches(table, pattern, sync.source):
            return options
    return sync.options


def is_read(sync: Sync, table: TableName) -> bool:
    """Whether a table that has a watermark is one of the sync's, whatever has become of its columns."""
    options = options_of(sync, table)
    return bool(options.cursor) or options.without_cursor is WithoutCursor.SNAPSHOT


def order_tables(
    sync: Sync, source: Source, tables: Sequence[TableName], recorded: RecordedFlows
) -> OrderedTables:
    """What becomes of each table. One that has a watermark is read as it was: if its cursor is gone, its flow
    says so."""
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
    """One error for all of them, with the line to write."""
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
    """Where no table has the column, it may be misspelt."""
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
    """Tables without the column that is to be their cursor, and those without a key that need one. An
    expression as the cursor is left to the database."""
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
    """Whether a watermark was taken of a table that is read whole."""
    found = read_identity(source_id)
    return found is not None and found.whole
