"""The tables that a Delta ledger has for people, besides its own: their columns, and their rows out of what
the ledger knows. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegauge.ledger.delta_rows import moment
from tidegauge.ledger.delta_shares import Row
from tidegauge.ledger.document_store import Entry


@dataclass(frozen=True)
class Shown:
    """A table for people. Its rows are those of a log, and of what is open and not in the log yet."""

    name: str
    log: str
    columns: Mapping[str, str]
    rows_of: Callable[[Entry], list[Row]]
    """Of an entry of the log, or of one that is open."""
    number: str
    """The column that the table counts by itself: a row keeps the number from when it is open on."""
    flow: str
    """The column with the flow's name."""
    key: tuple[str, ...]
    """What tells, within a flow, that an open row and an ended one are the same."""
    since: str
    """The column that says how new an open row is."""
    ended: str
    """The column that is NULL as long as a row is open."""

    def is_open(self, row: Row) -> bool:
        return row[self.ended] is None

    def flow_of(self, row: Row) -> str:
        return str(row[self.flow])

    def key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in (self.flow, *self.key))


def _control_rows(entry: Entry) -> list[Row]:
    after, upto = entry.get("times") or (None, None)
    error = None if entry["error"] is None else json.loads(entry["error"])
    return [
        {
            "sync_run_id": None,
            "table_name": entry["flow"],
            "sync_start_timestamp": moment(entry["started_at"]),
            "sync_end_timestamp": moment(entry["ended_at"]),
            "watermark_from": moment(after),
            "watermark_to": moment(upto),
            "rows_inserted": entry["rows_inserted"],
            "rows_updated": entry["rows_updated"],
            "rows_processed": entry["rows_written"],
            # A sync that found nothing new is one that went well.
            "sync_status": "SUCCESS" if entry["kind"] == "SKIPPED" else entry["kind"],
            "error_message": None if error is None else error.get("message"),
        }
    ]


CONTROL = Shown(
    name="etl_pipeline_sync_control",
    log="runs",
    columns={
        "sync_run_id": "long",
        "table_name": "string",
        "sync_start_timestamp": "timestamp",
        "sync_end_timestamp": "timestamp",
        "watermark_from": "timestamp",
        "watermark_to": "timestamp",
        "rows_inserted": "long",
        "rows_updated": "long",
        "rows_processed": "long",
        "sync_status": "string",
        "error_message": "string",
        # Those eleven are the same on every store.
        "pipeline": "string",
    },
    rows_of=_control_rows,
    number="sync_run_id",
    flow="table_name",
    key=("sync_start_timestamp",),
    since="sync_start_timestamp",
    ended="sync_end_timestamp",
)

SHOWN: Sequence[Shown] = (CONTROL,)
