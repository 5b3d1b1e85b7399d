"""The contents of a ledger of documents as rows of a SQL ledger's tables, for queries in SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tidegauge.ledger.document_store import AssignedNumbers, Entry
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
            yield plan_values(one.flow_state, active) | plan_changes(one.flow_state, active, None)


def ended_plan_row(entry: Entry) -> TableRow:
    """A row of `plans` from a log entry, which has no owner and no fence."""
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


def run_rows(runs: Iterable[RunRecord], given: AssignedNumbers) -> list[TableRow]:
    in_order = sorted(runs, key=lambda run: (run.started_at, run.flow, run.attempt))
    numbers = _number([(run.pipeline, run.flow, run.started_at) for run in in_order], given)
    return [{"id": number, **run_values(run)} for number, run in zip(numbers, in_order, strict=True)]


def history_rows(events: Iterable[HistoryEvent], given: AssignedNumbers) -> list[TableRow]:
    """Rows of `history`, from events that are sorted newest first."""
    in_order = list(events)[::-1]
    in_order.sort(key=lambda event: event.at)
    keys = [(one.pipeline, one.flow, one.at, one.event, one.input) for one in in_order]
    return [
        {"id": number, "at": one.at, **event_columns(one)}
        for number, one in zip(_number(keys, given), in_order, strict=True)
    ]


def _number(keys: Iterable[tuple[Any, ...]], given: AssignedNumbers) -> Iterator[int]:
    """Yield a number for each key: the one that the store shows elsewhere, or else the next free one."""
    left = {key: list(numbers) for key, numbers in given.by_key.items()}
    last = given.last
    for key in keys:
        if known := left.get(key):
            yield known.pop(0)
        else:
            last += 1
            yield last
