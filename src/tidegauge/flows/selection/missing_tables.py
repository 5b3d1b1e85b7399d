"""Missing tables: the project file means them, the ledger has their watermarks, and their database no longer
shows them.

Tables that `exclude:` or `tables:` leaves out now, and tables that came from another database, are not
missing: there a user has edited the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegauge.errors import OutputNotEmpty, TableMissing
from tidegauge.flows.names import first_flow, is_pattern, matches, means, table_named
from tidegauge.model.override import Undo
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.protocols.source import Source
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Sync, TableName

RecordedFlows = Mapping[str, str | None]
"""The flows that have a watermark, each with the `source_id` of its table; None: after a reset."""


def find_recorded(ledger: LedgerReader, pipeline: str) -> RecordedFlows:
    return {mark.flow: mark.source_id for mark in ledger.watermarks(pipeline)}


def find_remembered(statuses: Iterable[FlowStatus]) -> tuple[str, ...]:
    """The names of all flows in the ledger, except those that were forgotten."""
    return tuple(one.flow for one in statuses if one.undo is None or not one.undo.forgot)


def find_missing(
    sync: Sync, source: Source, catalogue: Sequence[TableName], recorded: RecordedFlows
) -> dict[TableName, TableMissing]:
    """Find the missing tables of a sync, each with the error to report."""
    there = set(catalogue)
    candidates = [
        table
        for table in dict.fromkeys(table_named(sync.source, name) for name in recorded)
        if table not in there and first_flow(sync, table) in recorded and means(sync, table)
    ]
    if not candidates:
        return {}
    database = source.identity()
    kinds = dict(source.left_out())
    return {
        table: _error(sync, table, kinds.get(table))
        for table in candidates
        if _came_from(database, recorded[first_flow(sync, table)])
    }


def refuse_forgotten(flow: str, undo: Undo) -> OutputNotEmpty:
    """Make the error for a flow that was forgotten and whose table is there again."""
    return OutputNotEmpty(
        f"{flow} was forgotten at {undo.at:%Y-%m-%d %H:%M:%S} UTC, and is there again",
        hint=f"to go on from where it stood: `tidegauge watermark undo -t {flow}`; to read everything again:"
        f" `tidegauge watermark reset -t {flow}`",
    )


def _came_from(database: str, source_id: str | None) -> bool:
    """Whether a watermark was taken from this database. None, as after a reset, suits any database."""
    return source_id is None or source_id.startswith(f"{database}#")


def _error(sync: Sync, table: TableName, kind: str | None) -> TableMissing:
    who = sync.source.user or "this login"
    why = f"there is a {kind} of that name now" if kind else f"it is gone, or {who} may not read it any more"
    end = f"leave it out with `exclude:`, or end it with `tidegauge forget -t {table}`"
    if any(not is_pattern(name) and matches(table, name, sync.source) for name in sync.tables):
        end = "take its name out of `tables:`"
    return TableMissing(
        f"{table}: connection '{sync.source.name}' no longer shows this table: {why}",
        hint=f"once it is back it goes on from its watermark; if it is meant to be gone, {end}",
        place=sync.place,
    )
