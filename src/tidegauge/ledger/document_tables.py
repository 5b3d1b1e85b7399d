"""A ledger of documents as the tables that a SQL ledger has, for whoever asks it in SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from tidegauge.ledger.document_store import Entry
from tidegauge.ledger.flow_document import FlowDocument
from tidegauge.ledger.journal import event_columns
from tidegauge.ledger.keys import flow_key
from tidegauge.ledger.log_entries import moment_of
from tidegauge.ledger.sql_rows import head_values, mark_values, plan_changes, plan_values, run_values
from tidegauge.model.run import HistoryEvent, RunRecord

TableRow = dict[str, Any]


def flow_rows(documents: Iterable[FlowDocument]) -> Iterator[TableRow]:
    for one in documents:
        yield head_values(one.flow_state, one.updated_at) | {"created_at": one.created_at}


def watermark_rows(documents: Iterable[FlowDocument]) -> Iterator[TableRow]:
    for one in documents:
        for mark in one.flow_state.marks.values():
            yield mark_values(one.flow_state, mark)


def active_plan_rows(documents: Iterable[FlowDocument]) -> Iterator[TableRow]:
    for one in documents:
        active = one.flow_state.active
        if active is not None:
            yield (
                plan_values(one.flow_state, active)
                | plan_changes(one.flow_state, active, None)
                | {
                    "lease_until": active.lease_until,
                    "created_at": active.created_at,
                    "updated_at": active.updated_at,
                }
            )


def ended_plan_row(entry: Entry) -> TableRow:
    """What the log keeps of a plan: nothing of its owner and fence."""
    return {
        "plan_id": entry["plan_id"],
        "flow_key": flow_key(entry["pipeline"], entry["flow"]),
        "pipeline": entry["pipeline"],
        "flow": entry["flow"],
        "state": entry["kind"],
        "epoch": entry["epoch"],
        "first_seq": entry["first_seq"],
        "batches": len(entry["plan"]["batches"]),
        "done": entry["done"],
        "attempt": entry["attempts"],
        "body": json.dumps(entry["plan"], ensure_ascii=False),
        "created_at": moment_of(entry["created_at"]),
        "updated_at": moment_of(entry["at"]),
    }


def run_rows(runs: Iterable[RunRecord], numbers: Mapping[tuple[str, str, datetime], int]) -> list[TableRow]:
    """With the numbers that the store shows elsewhere; the others numbered as they began."""
    rows: list[TableRow] = []
    left = dict(numbers)
    next_number = max(left.values(), default=0)
    for run in sorted(runs, key=lambda run: (run.started_at, run.flow, run.attempt)):
        number = left.pop((run.pipeline, run.flow, run.started_at), None)
        if number is None:
            number = next_number = next_number + 1
        rows.append({"id": number, **run_values(run)})
    return rows


def history_rows(events: Iterable[HistoryEvent]) -> list[TableRow]:
    """Of events that come newest first; numbered as they happened."""
    in_order = list(events)[::-1]
    in_order.sort(key=lambda event: event.at)
    return [{"id": number, "at": one.at, **event_columns(one)} for number, one in enumerate(in_order, 1)]
