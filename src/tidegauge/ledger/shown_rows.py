"""The tables for people in a Delta ledger: their columns, and the rows that a log entry becomes. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidegauge.ledger.delta_rows import moment
from tidegauge.ledger.delta_shares import Row
from tidegauge.ledger.document_store import Entry
from tidegauge.ledger.journal import FAILURES, clean
from tidegauge.model.state import ACTIVE


@dataclass(frozen=True)
class ReportTable:
    """A table for people. Its rows show a log, and what is open and therefore not in the log yet."""

    name: str
    log: str
    columns: Mapping[str, str]
    rows_of: Callable[[Entry], list[Row]]
    """Makes the rows of a log entry, or of an open one."""
    number: str | None
    """The column with a number that the table itself gives: a row has it from when it is open, and keeps it.
    None: the table has no such column."""
    flow: str
    """The column with the flow's name."""
    key: tuple[str, ...]
    """The columns that, within a flow, are equal in an open row and in the row that it becomes."""
    since: str
    """The time column that says which of two rows is newer."""
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
            "error_message": None if error is None else clean(str(error.get("message", ""))),
        }
    ]


CONTROL = ReportTable(
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
        # The eleven columns above are the same on every store.
        "pipeline": "string",
    },
    rows_of=_control_rows,
    number="sync_run_id",
    flow="table_name",
    key=("sync_start_timestamp",),
    since="sync_start_timestamp",
    ended="sync_end_timestamp",
)


def _plan_rows(entry: Entry) -> list[Row]:
    ended = entry["kind"] not in ACTIVE
    return [_plan_row(entry, part, ended=ended) for part in entry["plan"]["inputs"]]


def _plan_row(entry: Entry, part: Mapping[str, Any], *, ended: bool) -> Row:
    window, name = part["window"] or {}, part["input"]
    after, upto = _version(window.get("after")), _version(window.get("upto"))
    done = entry["kind"] == "SUCCESS" or name in entry.get("completed", ())
    reached = _version(entry["positions"].get(name)) if not ended else None
    return {
        "flow": entry["flow"],
        "run_id": entry["plan_id"],
        "table_name": name,
        "start_version": None if upto is None else 0 if after is None else after + 1,
        "end_version": upto,
        "last_processed_version": upto if done else after if ended else reached,
        "status": "COMPLETED" if done else entry["kind"],
        "schema_version": part["fingerprint"] or None,
        "commit_timestamp": _parse_stamp(part.get("stamp")),
        "records_processed": entry.get("rows", {}).get(name),
        "error": None if done else entry.get("error"),
        "created_at": moment(entry["created_at"]),
        "updated_at": moment(entry["at"]),
        "ended_at": moment(entry["at"]) if ended else None,
    }


def _history_rows(entry: Entry) -> list[Row]:
    before, after = _version(entry["before"]), _version(entry["after"])
    start = None if before is None else before + 1
    if entry["before"] is None and after is not None:
        start = 0
    pipeline, flow, event = entry["pipeline"], entry["flow"], entry["kind"]
    return [
        {
            "history_id": None,
            "pipeline_name": pipeline if flow == pipeline else f"{pipeline}/{flow}",
            "table_name": entry["input"],
            "run_id": entry["plan_id"] or entry["run_id"],
            "status": _STATES.get(event, "READY"),
            "event": event,
            "start_version": start,
            "end_version": after,
            "last_processed_version": after if event == "advanced" else before,
            "error_message": entry["error"],
            "failed_at": moment(entry["at"]) if event in FAILURES else None,
            "records_processed": entry["rows"],
            "execution_duration": entry["seconds"],
            "actor": entry["actor"],
            "reason": entry["reason"],
            "update_ts": moment(entry["at"]),
            "flow": flow,
        }
    ]


def _version(position: Mapping[str, Any] | None) -> int | None:
    return position.get("version") if position else None


def _parse_stamp(text: str | None) -> datetime | None:
    if text is None:
        return None
    at = datetime.fromisoformat(text)
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


_STATES = {
    "planned": "PLANNED",
    "advanced": "SUCCESS",
    "finished": "SUCCESS",
    "failed": "FAILED",
    "refused": "FAILED",
    "skipped": "SKIPPED",
    "released": "PLANNED",
    "claimed": "RUNNING",
    "taken_over": "RUNNING",
}

PLANS = ReportTable(
    name="pipeline_watermark_plans",
    log="plans",
    columns={
        "pipeline": "string",
        "flow": "string",
        "run_id": "string",
        "table_name": "string",
        "start_version": "long",
        "end_version": "long",
        "last_processed_version": "long",
        "status": "string",
        "schema_version": "string",
        "commit_timestamp": "timestamp",
        "records_processed": "long",
        "error": "string",
        "created_at": "timestamp",
        "updated_at": "timestamp",
        "ended_at": "timestamp",
    },
    rows_of=_plan_rows,
    number=None,
    flow="flow",
    key=("run_id", "table_name"),
    since="updated_at",
    ended="ended_at",
)

HISTORY = ReportTable(
    name="pipeline_watermark_history",
    log="history",
    columns={
        "history_id": "long",
        "pipeline_name": "string",
        "table_name": "string",
        "run_id": "string",
        "status": "string",
        "event": "string",
        "start_version": "long",
        "end_version": "long",
        "last_processed_version": "long",
        "error_message": "string",
        "failed_at": "timestamp",
        "records_processed": "long",
        "execution_duration": "double",
        "actor": "string",
        "reason": "string",
        "update_ts": "timestamp",
        # The columns above are the same on every store.
        "pipeline": "string",
        "flow": "string",
    },
    rows_of=_history_rows,
    number="history_id",
    flow="flow",
    key=("update_ts", "event", "table_name"),
    since="update_ts",
    ended="update_ts",
)

SHOWN: Sequence[ReportTable] = (CONTROL, PLANS, HISTORY)
