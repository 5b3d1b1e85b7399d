"""Reads all that a ledger holds, on any store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from tidegauge.ledger.document_ledger import DocumentLedger
from tidegauge.ledger.document_store import LOGS
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.ledger.sql_tables import metadata
from tidegauge.model.position import RowPosition, Value, ValueKind, to_moment


def open_sql(address: str) -> SqlLedger:
    ledger = open_ledger(address, create=True)
    assert isinstance(ledger, SqlLedger)
    return ledger


def needs_fresh_process(address: str) -> bool:
    """Whether a ledger at this address uses a library that does not survive a fork."""
    return address.startswith("delta:") or "s3a:" in address


def everything(ledger: Ledger) -> dict[str, list[str]]:
    """Read each table's rows, or each flow's document and each log's lines."""
    if isinstance(ledger, DocumentLedger):
        return _documents(ledger)
    with ledger._engine.connect() as connection:
        return {
            table.name: sorted(repr(tuple(row)) for row in connection.execute(select(table)))
            for table in metadata.sorted_tables
        }


def _documents(ledger: DocumentLedger) -> dict[str, list[str]]:
    """Read documents and logs; an entry still pending in its flow's document counts as part of the log."""
    documents = ledger._documents
    found: dict[str, list[str]] = {"flows": []}
    logs: dict[str, dict[str, Any]] = {log: {} for log in LOGS}
    for pipeline in documents.pipelines():
        for log in LOGS:
            logs[log] |= {entry["id"]: entry for entry in documents.read(log, pipeline)}
        for stored_flow in documents.load(pipeline).stored_flows.values():
            body = dict(stored_flow.body)
            for log, entries in body.pop("outbox").items():
                logs[log] |= {entry["id"]: entry for entry in entries}
            del body["save"]
            found["flows"].append(repr(body))
            if body["last_run"] and body["last_run"]["ended_at"] is None:
                logs["runs"]["under way"] = body["last_run"]
    return found | {log: sorted(map(repr, entries.values())) for log, entries in logs.items()}


def timed(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored flow's row with the times that its texts stand for added."""
    found = dict(shown)
    for name, time in (("position", "time"), ("upto", "upto_time")):
        if isinstance(found.get(name), str):
            at = to_moment(RowPosition(Value(ValueKind.TEXT, found[name])), "timestamp", None)
            found[time] = None if at is None else at.isoformat(timespec="microseconds")
    return found
