"""Remarks on parts of the project file that have no effect, such as an `override` that means no table."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence, Set

from tidegauge.errors import TidegaugeError
from tidegauge.flows.names import first_flow, is_pattern, matches, means, table_named
from tidegauge.flows.selection.missing_tables import RecordedFlows
from tidegauge.flows.selection.without_cursor import order_tables
from tidegauge.model.choices import WithoutCursor
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Project, Sync, TableFlow, TableName
from tidegauge.sources.connections import SourceConnections

_MOST = 5


def find_remarks(
    project: Project,
    flows: Sequence[TableFlow],
    sources: SourceConnections,
    recorded: RecordedFlows | None = None,
) -> tuple[str, ...]:
    """Remarks for people. `flows`: all flows of the project's tables. `recorded`: the flows with a watermark.

    There are no remarks on a database that cannot be asked: the run reports its error.
    """
    said: list[str] = []
    others = {flow.name for flow in project.delta_flows}
    tables_only = {flow: taken for flow, taken in (recorded or {}).items() if flow not in others}
    for sync in project.syncs:
        tables = {flow.table for flow in flows if flow.source == sync.source and means(sync, flow.table)}
        try:
            source = sources.of(sync.source)
            found = [
                *_note_views(sync, source),
                *_note_skipped_tables(sync, source, tables),
                *_note_foreign_flows(sync, tables, tables_only),
            ]
        except TidegaugeError:
            continue
        said += [f"{sync.place}: {one}" if sync.place else one for one in found]
        said += _note_unused_overrides(sync, tables)
    return tuple(said)


def _note_unused_overrides(sync: Sync, tables: Set[TableName]) -> Iterator[str]:
    for pattern, options in sync.per_table.items():
        if any(matches(table, pattern, sync.source) for table in tables):
            continue
        near = difflib.get_close_matches(pattern, [str(table) for table in tables], n=3, cutoff=0.5)
        where = f"{options.place}: " if options.place else ""
        meant = f"; did you mean {', '.join(near)}?" if near else ""
        yield f"{where}the override '{pattern}' is of no table that is read here{meant}"


def _note_views(sync: Sync, source: Source) -> Iterator[str]:
    """Note the views that patterns leave out."""
    patterns = [name for name in sync.tables if is_pattern(name)]
    if not patterns:
        return
    found = [
        f"{kind} {table}"
        for table, kind in source.left_out()
        if means(sync, table) and any(matches(table, pattern, sync.source) for pattern in patterns)
    ]
    if found:
        more = f" and {len(found) - _MOST:,} more" if len(found) > _MOST else ""
        yield (
            f"patterns leave out what is no table of {sync.source.name}: {', '.join(found[:_MOST])}{more}"
            " (`exclude:` ends this note)"
        )


def _note_skipped_tables(sync: Sync, source: Source, tables: Set[TableName]) -> Iterator[str]:
    every = (sync.options, *sync.per_table.values())
    if all(one.without_cursor is not WithoutCursor.SKIP for one in every):
        return
    meant = [table for table in source.tables() if table not in tables and means(sync, table)]
    if found := [str(table) for table in order_tables(sync, source, meant, {}).skipped]:
        more = f" and {len(found) - _MOST:,} more" if len(found) > _MOST else ""
        yield f"`without_cursor: skip` leaves out {', '.join(found[:_MOST])}{more}"


def _note_foreign_flows(sync: Sync, tables: Set[TableName], recorded: RecordedFlows) -> Iterator[str]:
    """Note flows of the ledger that this sync would have, had they not come from another database."""
    for flow, source_id in recorded.items():
        table = table_named(sync.source, flow)
        if table not in tables and first_flow(sync, table) == flow and means(sync, table):
            then = (source_id or "").rpartition("#")[0] or "elsewhere"
            yield (
                f"the ledger has a watermark of {flow}, taken from {then}: {sync.source.name} has no such"
                f" table, and nobody reads it (`tidegauge forget -t {flow}` ends this note)"
            )
