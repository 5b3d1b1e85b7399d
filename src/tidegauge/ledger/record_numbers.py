"""Match the records of `watermarks_v`, which numbers them by their runs, with a store's own numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tidegauge.ledger.document_store import NumberedRecord


class RecordNumber(NamedTuple):
    pipeline_name: str
    """The name that the view shows."""
    counted: int | None
    """The record's number as the view counts it; None for a flow without a run."""
    number: int
    """The number that people see elsewhere."""


def give_numbers(records: Sequence[NumberedRecord], runs: Iterable[Mapping[str, Any]]) -> list[RecordNumber]:
    """The numbers of all records that the view can show. A record that the store no longer has comes after
    all others."""
    last = max((record.number for record in records), default=0)
    ended = {
        (_name(record.pipeline, record.flow), record.run_id, record.updated_at): record.number
        for record in records
        if not record.newest
    }
    attempts: dict[str, list[Mapping[str, Any]]] = {}
    for run in sorted(runs, key=_number):
        if run["plan_id"] is not None:
            attempts.setdefault(_name(run["pipeline"], run["flow"]), []).append(run)
    found: list[RecordNumber] = []
    for record in (one for one in records if one.newest):
        name = _name(record.pipeline, record.flow)
        # As in v0006: a record is numbered by the successful run that it begins after, the first one by the
        # flow's first attempt.
        counted = _number(attempts[name][0]) * 2 if name in attempts else None
        for run in attempts.get(name, ()):
            if run["state"] == "SUCCESS":
                number = ended.get((name, run["run_id"], run["ended_at"]), last + (counted or 0))
                found.append(RecordNumber(name, counted, number))
                counted = _number(run) * 2 + 1
        found.append(RecordNumber(name, counted, record.number))
    return found


def _name(pipeline: str, flow: str) -> str:
    return pipeline if flow == pipeline else f"{pipeline}/{flow}"


def _number(run: Mapping[str, Any]) -> int:
    return int(run["id"])
