"""How far it is safe to read. Pure: the source's clock and its open work are arguments.

For timestamps: nothing that is stamped at or before the bound can still be committed, as long as a row is
stamped no earlier than `settle` before the statement (PostgreSQL: the transaction) that writes it began.
If the source says when all open work began, the bound comes from the oldest start. Otherwise, and for values
(auto-increment, sequences), it comes from an earlier look whose open work has all ended: see
`sources.bound_wait`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegauge.model.position import Value, ValueKind, step_down
from tidegauge.model.spec import TableOptions
from tidegauge.model.table import OrderedColumn
from tidegauge.model.unix_times import number_of
from tidegauge.sources.dialect import ClockReading, OpenWork


@dataclass(frozen=True)
class OldestOpenWork:
    """The open work that the bound has to wait for, and what a person should know about it."""

    work: OpenWork | None
    notes: tuple[str, ...]


def must_wait_for(work: OpenWork, moment: ClockReading, options: TableOptions) -> bool:
    """Whether the work has to be waited for; False if the user chose to ignore work of its age."""
    limit = options.ignore_transactions_after
    return limit is None or moment.now - work.started <= limit


def find_oldest(moment: ClockReading, options: TableOptions) -> OldestOpenWork:
    """The oldest open work that has to be waited for; a note names ignored work as a risk."""
    notes = [] if moment.blind is None else [moment.blind]
    counted = []
    for work in moment.open:
        if not must_wait_for(work, moment, options):
            notes.append(
                f"risk: {work.who}, open for {age_of(work, moment)}, is ignored as `open_transactions` says;"
                " what it commits may be missed"
            )
        else:
            counted.append(replace(work, started=work.started - options.settle) if work.prepared else work)
    return OldestOpenWork(min(counted, key=lambda work: work.started, default=None), tuple(notes))


@dataclass(frozen=True)
class Bound:
    value: Value
    notes: tuple[str, ...]


def timestamp_bound(moment: ClockReading, options: TableOptions, cursor: OrderedColumn) -> Bound:
    """The bound: `settle` before the clock or before the start of the oldest open work, less one unit.

    A cursor without a zone may be in UTC or in the server's own zone, which falls back by an hour in autumn;
    only the lowest of these loses no row.
    """
    found = find_oldest(moment, options)
    edge, notes = moment.clock, list(found.notes)
    if found.work is not None and found.work.started < edge:
        held = edge - found.work.started
        edge = found.work.started
        if held > options.settle:
            notes.append(describe_blocker(found.work, moment))
    bound = bound_at(edge, moment, options, cursor)
    return replace(bound, notes=(*notes, *bound.notes))


def bound_at(edge: datetime, moment: ClockReading, options: TableOptions, cursor: OrderedColumn) -> Bound:
    """The bound if everything that was stamped before the edge is committed."""
    edge, notes = edge - options.settle, []
    if cursor.unix_unit is not None:
        return Bound(Value(ValueKind.INT, str(number_of(edge, cursor.unix_unit) - 1)), ())
    if cursor.kind is not ValueKind.TIMESTAMPTZ:
        edge += moment.lowest_offset
        if moment.lowest_offset or moment.highest_offset:
            notes.append(
                f"{cursor.name} has no zone and the server's is {moment.zone}, from"
                f" {_format_hours(moment.lowest_offset)} to {_format_hours(moment.highest_offset)} of UTC:"
                " rows wait for as long as the two could differ"
            )
    kind = ValueKind.TIMESTAMP if cursor.kind is ValueKind.TEXT else cursor.kind
    text = (
        edge.date().isoformat()
        if kind is ValueKind.DATE
        else edge.isoformat(sep=" ", timespec="microseconds")
    )
    return Bound(step_down(Value(kind, text), cursor.scale), tuple(notes))


def latest_now(moment: ClockReading, cursor: OrderedColumn) -> Value:
    """The latest cursor value of a row that is stamped by now; a row past it is dated in the future."""
    edge = moment.now
    if cursor.unix_unit is not None:
        return Value(ValueKind.INT, str(number_of(edge, cursor.unix_unit)))
    if cursor.kind is not ValueKind.TIMESTAMPTZ:
        edge += moment.highest_offset
    if cursor.kind is ValueKind.DATE:
        return Value(ValueKind.DATE, edge.date().isoformat())
    kind = ValueKind.TIMESTAMP if cursor.kind is ValueKind.TEXT else cursor.kind
    return Value(kind, edge.isoformat(sep=" ", timespec="microseconds"))


def reads_from(moment: ClockReading, options: TableOptions, cursor: OrderedColumn) -> datetime:
    """The time, by the source's clock, from which rows stamped by now are old enough; in whole seconds."""
    edge = moment.clock
    if cursor.kind is ValueKind.DATE:
        edge = datetime.combine(edge.date() + timedelta(days=1), datetime.min.time())
    if cursor.kind is not ValueKind.TIMESTAMPTZ and cursor.unix_unit is None:
        edge += moment.highest_offset - moment.lowest_offset
    return (edge + options.settle).replace(microsecond=0) + timedelta(seconds=2)


def describe_blocker(work: OpenWork, moment: ClockReading) -> str:
    return f"held back by {work.who}, open for {age_of(work, moment)}"


def age_of(work: OpenWork, moment: ClockReading) -> str:
    seconds = max(0, round((moment.now - work.started).total_seconds()))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _format_hours(offset: timedelta) -> str:
    return f"{offset.total_seconds() / 3600:+g} h"
