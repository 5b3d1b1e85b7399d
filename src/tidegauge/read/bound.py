"""How far it is safe to read. Pure: the source's clock and its open work are handed in.

For timestamps: nothing that is stamped at or before the bound can still be committed, as long as a row is
stamped no earlier than `settle` before its transaction began. For values (auto-increment, sequences): the
highest value seen at a moment after which every transaction then open has ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegauge.errors import PositionError
from tidegauge.model.position import Kind, Value, step_down
from tidegauge.model.spec import TableOptions
from tidegauge.model.table import OrderedColumn
from tidegauge.read.dialect import Moment, OpenWork


@dataclass(frozen=True)
class Oldest:
    """The work that the bound has to wait for, and what a person should know about it."""

    work: OpenWork | None
    notes: tuple[str, ...]


def oldest(moment: Moment, options: TableOptions) -> Oldest:
    """The oldest open work that counts; what the user chose to ignore is named as a risk."""
    limit = options.ignore_transactions_after
    notes = [] if moment.blind is None else [moment.blind]
    counted = []
    for work in moment.open:
        age = moment.clock - work.started
        if limit is not None and age > limit:
            notes.append(
                f"risk: {work.who}, open for {_age(age)}, is ignored as `open_transactions` says;"
                " what it commits may be missed"
            )
        else:
            counted.append(replace(work, started=work.started - options.settle) if work.prepared else work)
    return Oldest(min(counted, key=lambda work: work.started, default=None), tuple(notes))


@dataclass(frozen=True)
class Bound:
    value: Value
    notes: tuple[str, ...]


def timestamp_bound(moment: Moment, options: TableOptions, cursor: OrderedColumn) -> Bound:
    """`settle` below the clock, or below the start of what is still open; then one unit down.

    A clock without a zone may run on UTC or on the server's own zone, and falls back by an hour in autumn;
    the lowest of them is the one that cannot lose a row.
    """
    found = oldest(moment, options)
    edge, notes = moment.clock, list(found.notes)
    if found.work is not None and found.work.started < edge:
        held = edge - found.work.started
        edge = found.work.started
        if held > options.settle:
            notes.append(f"held back by {found.work.who}, open for {_age(held)}")
    edge -= options.settle
    if cursor.kind is not Kind.TIMESTAMPTZ:
        edge += moment.lowest_offset
        if moment.lowest_offset or moment.highest_offset:
            notes.append(
                f"{cursor.name} has no zone and the server's is {moment.zone}, from"
                f" {_hours(moment.lowest_offset)} to {_hours(moment.highest_offset)} of UTC:"
                " rows wait for as long as the two could differ"
            )
    kind = Kind.TIMESTAMP if cursor.kind is Kind.TEXT else cursor.kind
    text = edge.date().isoformat() if kind is Kind.DATE else edge.isoformat(sep=" ", timespec="microseconds")
    return Bound(step_down(Value(kind, text), cursor.scale), tuple(notes))


def latest_now(moment: Moment, cursor: OrderedColumn) -> Value:
    """The latest that a row stamped by now can say; what lies past it is dated in the future."""
    edge = moment.clock
    if cursor.kind is not Kind.TIMESTAMPTZ:
        edge += moment.highest_offset
    if cursor.kind is Kind.DATE:
        return Value(Kind.DATE, edge.date().isoformat())
    kind = Kind.TIMESTAMP if cursor.kind is Kind.TEXT else cursor.kind
    return Value(kind, edge.isoformat(sep=" ", timespec="microseconds"))


@dataclass(frozen=True)
class Candidate:
    """A highest value, and the source's clock just after it was seen."""

    value: Value
    seen: datetime

    def to_text(self) -> str:
        body = {"kind": self.value.kind.value, "value": self.value.text, "seen": self.seen.isoformat()}
        return json.dumps(body, ensure_ascii=False)


def candidate_from_text(text: str | None, kind: Kind) -> Candidate | None:
    """What an earlier survey asked to be reminded of; None where it is not of this cursor."""
    if text is None:
        return None
    try:
        body = json.loads(text)
        value = Value(Kind(body["kind"]), body["value"])
        seen = datetime.fromisoformat(body["seen"])
    except (ValueError, KeyError, TypeError, PositionError):
        return None
    return Candidate(value, seen) if value.kind is kind else None


@dataclass(frozen=True)
class ValueBound:
    value: Value | None
    pending: Candidate | None
    notes: tuple[str, ...]


def value_bound(
    moment: Moment, options: TableOptions, fresh: Candidate | None, pending: Candidate | None
) -> ValueBound:
    """The newest of the two candidates that is safe; what is not yet safe is kept for the next survey.

    An older candidate is not given up for a newer one before it is safe, or a steady stream of
    transactions would let no candidate ever grow old enough.
    """
    found = oldest(moment, options)
    if fresh is None:
        return ValueBound(None, None, found.notes)
    ripe = _ripeness(moment, options, found)
    if ripe(fresh):
        return ValueBound(fresh.value, None, found.notes)
    notes = list(found.notes)
    if found.work is not None:
        notes.append(f"the newest rows wait for {found.work.who}, open for {_age_of(moment, found.work)}")
    if pending is None:
        return ValueBound(None, fresh, tuple(notes))
    if ripe(pending):
        return ValueBound(pending.value, fresh, tuple(notes))
    return ValueBound(None, pending, tuple(notes))


def _ripeness(moment: Moment, options: TableOptions, found: Oldest) -> Callable[[Candidate], bool]:
    def ripe(candidate: Candidate) -> bool:
        if moment.serial:
            return True
        if found.work is not None and found.work.started <= candidate.seen:
            return False
        return moment.blind is None or moment.clock - candidate.seen >= options.settle

    return ripe


def _age_of(moment: Moment, work: OpenWork) -> str:
    return _age(moment.clock - work.started)


def _age(age: timedelta) -> str:
    seconds = max(0, round(age.total_seconds()))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _hours(offset: timedelta) -> str:
    return f"{offset.total_seconds() / 3600:+g} h"
