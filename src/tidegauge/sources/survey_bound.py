"""How far one survey of one table may read now, and what a person should know about that."""

from __future__ import annotations

from tidegauge.errors import CursorUnsuitable
from tidegauge.model.position import RowPosition, Value
from tidegauge.model.spec import FutureGuard
from tidegauge.model.table import OrderedColumn, SourceTable
from tidegauge.sources import sql
from tidegauge.sources.bound import (
    age_of,
    bound_at,
    describe_blocker,
    find_oldest,
    reads_from,
    timestamp_bound,
)
from tidegauge.sources.bound_wait import BoundWait
from tidegauge.sources.candidate import BoundCandidate
from tidegauge.sources.dialect import ClockReading, Dialect
from tidegauge.sources.future_values import find_odd_number

Kept = tuple[BoundCandidate, ...]
"""Candidates that are not safe yet: the ledger keeps them for the next survey."""


class SurveyBound:
    def __init__(
        self, dialect: Dialect, bound_wait: BoundWait, source_table: SourceTable, after: RowPosition | None
    ) -> None:
        self._dialect = dialect
        self._bound_wait = bound_wait
        self._source_table = source_table
        self._after = after
        self._moment: ClockReading | None = None
        self.notes: list[str] = []
        self.held = False
        """Whether open work holds the bound lower than `settle` alone."""

    def look(self) -> ClockReading:
        """The clock and open work that the bound was taken from; a recent look if there is no bound yet."""
        return self._moment or self._bound_wait.look(fresh=False)

    def moment(self, cursor: OrderedColumn, kept: Kept) -> tuple[Value | None, Kept]:
        """The bound for a cursor of timestamps, None if nothing is safe, and the candidates to keep.

        If the start of open work is sure, the oldest start is the bound; else a candidate whose open work has
        ended since.
        """
        options = self._source_table.options
        moment = self._moment = self._bound_wait.look(fresh=False)
        if moment.sure:
            bound = timestamp_bound(moment, options, cursor)
            self.held = bound.value != bound_at(moment.clock, moment, options, cursor).value
            self.notes.extend(bound.notes)
            return bound.value, ()
        ready = self._bound_wait.moments(options, kept)
        moment, found = ready.moment, ready.candidate
        self._moment = moment
        self.notes.extend(find_oldest(moment, options).notes)
        if ready.blockers and (found is None or moment.clock - found.seen > options.settle):
            held = describe_blocker(min(ready.blockers, key=lambda work: work.started), moment)
            self.notes.append(held if found else f"nothing new is safe to read yet: {held}")
        self.held = bool(ready.blockers)
        if found is None:
            return None, ready.waiting
        bound = bound_at(found.seen, moment, options, cursor)
        self.notes.extend(bound.notes)
        return bound.value, ready.waiting

    def describe_young(self, rows: int) -> str:
        """A note about rows that are not old enough to be read."""
        options = self._source_table.options
        moment = self.look()
        when = reads_from(moment, options, self._source_table.cursor)
        them, are = ("it", "1 row is") if rows == 1 else ("them", f"{rows:,} rows are")
        unless = ", unless what is open now still is" if self.held else ""
        young = f"{are} younger than `settle` ({options.settle.total_seconds():g} s)"
        if moment.replica:
            applied = f"a transaction of {when:%Y-%m-%d %H:%M:%S} UTC or later"
            return f"{young}: a run reads {them} once the replica has applied {applied}"
        return f"{young}: a run from {when:%Y-%m-%d %H:%M:%S} UTC on reads {them}{unless}"

    def value(self, kept: Kept, past: str) -> tuple[RowPosition | None, Kept]:
        """The bound for a cursor of values, None if nothing is safe, and the candidates to keep.

        `past` is SQL that is true for rows past the watermark.
        """
        source_table, options = self._source_table, self._source_table.options
        found = self._dialect.rows(
            sql.highest(source_table, sql.relation(source_table, self._dialect.name), past, rows=2)
        )
        tops = [Value(source_table.cursor.kind, text) for (text,) in found]
        if not tops:
            moment = self._bound_wait.look(fresh=True)
            self.notes.extend(find_oldest(moment, options).notes)
            self._guard(tops, moment)
            return None, ()
        ready = self._bound_wait.values(options, kept, tops[0])
        self.notes.extend(find_oldest(ready.moment, options).notes)
        if ready.waiting and ready.blockers:
            work = min(ready.blockers, key=lambda work: work.started)
            self.notes.append(f"the newest rows wait for {work.who}, open for {age_of(work, ready.moment)}")
        self._guard(tops, ready.moment)
        value = ready.candidate.value if ready.candidate else None
        return (RowPosition(value) if value else None), ready.waiting

    def _guard(self, tops: list[Value], moment: ClockReading) -> None:
        source_table, dialect = self._source_table, self._dialect
        known = [*tops, *([self._after.cursor] if self._after else [])]
        table = sql.relation(source_table, dialect.name)
        odd = find_odd_number(dialect.rows, dialect.literal, source_table, table, known, moment.now)
        if odd is None:
            return
        if source_table.options.future_guard is FutureGuard.FAIL:
            raise CursorUnsuitable(
                f"{source_table.table}: {odd}",
                hint="mend or delete the row, or say `future_guard: note` to read it all the same",
            )
        self.notes.append(f"risk: {odd}; `future_guard: fail` would stop here")
