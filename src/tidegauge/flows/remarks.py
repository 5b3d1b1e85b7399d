"""Parts of the project file that have no effect: an override of no table, a view under a pattern. Notes, not
errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence, Set

from tidegauge.errors import TidegaugeError
from tidegauge.flows.missing_tables import RecordedFlows
from tidegauge.flows.names import first_flow, is_pattern, matches, means, table_named
from tidegauge.flows.select import Sources
from tidegauge.flows.without_cursor import order_tables
from tidegauge.model.choices import WithoutCursor
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Project, Sync, TableFlow, TableName

_MOST = 5


def remarks(
    project: Project, flows: Sequence[TableFlow], sources: Sources, recorded: RecordedFlows | None = None
) -> tuple[str, ...]:
    """For people; `flows` are all that the file means. A database that cannot be asked has none: that it
    cannot is said elsewhere."""
    said: list[str] = []
    others = {flow.name for flow in project.delta_flows}
    tables_only = {flow: taken for flow, taken in (recorded or {}).items() if flow not in others}
    for sync in project.syncs:
        tables = {flow.table for flow in flows if flow.source == sync.source and means(sync, flow.table)}
        try:
            source = sources.of(sync.source)
            found = [
                *_views(sync, source),
                *_skipped(sync, source, tables),
                *_strangers(sync, tables, tables_only),
            ]
        except TidegaugeError:
            continue
        said += [f"{sync.place}: {one}" if sync.place else one for one in found]
        said += _overrides(sync, tables)
    return tuple(said)


def _overrides(sync: Sync, tables: Set[TableName]) -> Iterator[str]:
    for pattern, options in sync.override.items():
        if any(matches(table, pattern, sync.source) for table in tables):
            continue
        near = difflib.get_close_matches(pattern, [str(table) for table in tables], n=3, cutoff=0.5)
        where = f"{options.place}: " if options.place else ""
        meant = f"; did you mean {', '.join(near)}?" if near else ""
        yield f"{where}the override '{pattern}' is of no table that is read here{meant}"


def _views(sync: Sync, source: Source) -> Iterator[str]:
    """A view that is named in full is an error already."""
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


def _skipped(sync: Sync, source: Source, tables: Set[TableName]) -> Iterator[str]:
    every = (sync.options, *sync.override.values())
    if all(one.without_cursor is not WithoutCursor.SKIP for one in every):
        return
    meant = [table for table in source.tables() if table not in tables and means(sync, table)]
    if found := [str(table) for table in order_tables(sync, source, meant, {}).skipped]:
        more = f" and {len(found) - _MOST:,} more" if len(found) > _MOST else ""
        yield f"`without_cursor: skip` leaves out {', '.join(found[:_MOST])}{more}"


def _strangers(sync: Sync, tables: Set[TableName], recorded: RecordedFlows) -> Iterator[str]:
    """Flows that the sync would have, if they had not come from another database."""
    for flow, source_id in recorded.items():
        table = table_named(sync.source, flow)
        if table not in tables and first_flow(sync, table) == flow and means(sync, table):
            then = (source_id or "").rpartition("#")[0] or "elsewhere"
            yield (
                f"the ledger has a watermark of {flow}, taken from {then}: {sync.source.name} has no such"
                f" table, and nobody reads it (`tidegauge forget -t {flow}` ends this note)"
            )
