"""The control side of a database: shapes and surveys, whatever the engine."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import replace

from tidegauge.errors import CursorUnsuitable, KeyUnsuitable, PositionError
from tidegauge.model.position import ORDERED, RowPosition, Value, ValueKind, compare
from tidegauge.model.spec import NullCursor, TableName, TableOptions
from tidegauge.model.table import Cut, OrderedColumn, Outlook, SourceTable, Survey
from tidegauge.sources import sql
from tidegauge.sources.bound import latest_now
from tidegauge.sources.bound_wait import BoundWait
from tidegauge.sources.candidate import Candidate, from_text, to_text
from tidegauge.sources.dialect import Catalogue, Dialect, missing, unused_types
from tidegauge.sources.notation import Notation, notation_of
from tidegauge.sources.survey_bound import SurveyBound
from tidegauge.sources.types import Native, arrive

_NAME = re.compile(r"[^\W\d]\w*")


class DatabaseSource:
    """Implements `model.protocols.source.Source` over one dialect; one call at a time."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lock = threading.RLock()
        self._bound_wait = BoundWait(dialect.moment)

    def tables(self) -> tuple[TableName, ...]:
        with self._lock:
            return tuple(sorted(self._dialect.tables(), key=lambda table: (table.schema or "", table.table)))

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        with self._lock:
            return tuple(
                sorted(self._dialect.left_out(), key=lambda one: (one[0].schema or "", one[0].table))
            )

    def identity(self) -> str:
        with self._lock:
            return self._dialect.identity()

    def describe(self, table: TableName, options: TableOptions) -> SourceTable:
        with self._lock:
            catalogue = self._dialect.catalogue(table)
            unused_types(table, options, catalogue.columns)
            cursor, cursor_kind, notes = self._cursor(table, options, catalogue)
            key, proven = self._key(table, options, catalogue)
            columns = tuple(
                arrive(
                    self._dialect.rules,
                    table,
                    native,
                    self._dialect.quote(native.name),
                    override=options.types.get(native.name),
                    zero_dates=options.zero_dates,
                )
                for native in catalogue.columns
            )
            return SourceTable(
                table=table,
                options=options,
                columns=columns,
                cursor=cursor,
                cursor_kind=cursor_kind,
                key=key,
                key_proven=proven,
                source_id=catalogue.identity,
                notes=(*catalogue.notes, *notes),
                along=catalogue.orders.get((options.cursor, *(part.name for part in key)), ""),
            )

    def survey(
        self, source_table: SourceTable, after: RowPosition | None, step: int, pending: str | None
    ) -> Survey:
        with self._lock:
            try:
                return _Survey(self._dialect, self._bound_wait, source_table, after, step).make(pending)
            except PositionError as error:
                raise CursorUnsuitable(
                    f"{source_table.table}: {error}, so it cannot be paged by {source_table.cursor.name}",
                    hint="mend the rows that hold such values, or choose another cursor",
                ) from error

    def cuts(
        self, source_table: SourceTable, after: RowPosition | None, upto: RowPosition, step: int
    ) -> tuple[Cut, ...]:
        with self._lock:
            return _Survey(self._dialect, self._bound_wait, source_table, after, step).window(upto)

    def count(self, source_table: SourceTable, after: RowPosition | None, upto: RowPosition) -> int:
        with self._lock:
            where = sql.between(source_table, after, upto, self._dialect.literal)
            ((rows,),) = self._dialect.rows(
                sql.count(source_table, self._dialect.name(source_table.table), where)
            )
            return int(rows)

    def latest(self, source_table: SourceTable) -> Value | None:
        with self._lock:
            every = sql.after(source_table, None, self._dialect.literal)
            if source_table.cursor_kind != "timestamp":
                found = self._dialect.rows(
                    sql.highest(source_table, self._dialect.name(source_table.table), every)
                )
                return Value(source_table.cursor.kind, found[0][0]) if found else None
            now = latest_now(self._dialect.moment(fresh=True), source_table.cursor)
            if source_table.cursor.kind in ORDERED:
                return now
            notation = self._dialect.notation(source_table, every)
            return notation.write(now) if notation else None

    def settled(self, source_table: SourceTable) -> Value | None:
        with self._lock:
            return _Survey(self._dialect, self._bound_wait, source_table, None, 1).settled()

    def outlook(self) -> Outlook:
        with self._lock:
            moment = self._dialect.moment(fresh=True)
            return Outlook(moment.clock, moment.blind)

    def close(self) -> None:
        with self._lock:
            self._dialect.close()

    def _cursor(
        self, table: TableName, options: TableOptions, catalogue: Catalogue
    ) -> tuple[OrderedColumn, str, tuple[str, ...]]:
        notes: tuple[str, ...] = ()
        native = self._column(catalogue, options.cursor)
        if native is not None:
            expression = self._dialect.quote(native.name)
            if native.name not in catalogue.indexed:
                notes = (
                    f"no index begins with {native.name}: each plan and each batch reads the whole table",
                )
        elif _NAME.fullmatch(options.cursor):
            known = tuple(column.name for column in catalogue.columns)
            raise missing(table, "cursor", options.cursor, known)
        elif ";" in options.cursor or "\0" in options.cursor:
            raise CursorUnsuitable(
                f"{table}: the cursor {options.cursor!r} is more than one expression",
                hint="a cursor is a column, or one expression without `;`",
            )
        else:
            # The line break ends a comment that the expression may end with.
            expression = f"({options.cursor}\n)"
            native = self._dialect.expression(table, expression)
        ordered = self._dialect.ordered(table, native, expression)
        kind = self._dialect.cursor_kind(table, native, ordered) if ordered else None
        if ordered is None or kind is None:
            raise CursorUnsuitable(
                f"{table}: the cursor {options.cursor} is a {native.full}, which cannot be ordered safely",
                hint="choose a timestamp, a date, an integer, a decimal or a text column that grows",
            )
        if options.epoch is not None:
            if ordered.kind is not ValueKind.INT:
                raise CursorUnsuitable(
                    f"{table}: the cursor {options.cursor} is a {native.full}, and `epoch` is for whole"
                    " numbers",
                    hint="leave `epoch` out where the column holds timestamps; of anything else make a whole"
                    " number by an expression",
                )
            ordered, kind = replace(ordered, epoch=options.epoch), "timestamp"
        return replace(ordered, name=options.cursor), kind, notes

    def _key(
        self, table: TableName, options: TableOptions, catalogue: Catalogue
    ) -> tuple[tuple[OrderedColumn, ...], bool]:
        names = options.key or next((u.columns for u in catalogue.uniques if u.primary), catalogue.key_hint)
        if not names:
            raise KeyUnsuitable(
                f"{table}: the table has no primary key, so rows with the same cursor cannot be told apart",
                hint="name the columns that identify a row: `key: [a, b]`",
            )
        key, found = [], set()
        for name in names:
            native = self._column(catalogue, name)
            if native is None:
                raise missing(table, "key", name, tuple(column.name for column in catalogue.columns))
            ordered = self._dialect.ordered(table, native, self._dialect.quote(native.name))
            if ordered is None:
                raise KeyUnsuitable(
                    f"{table}: the key column {native.name} is a {native.full}, which cannot be compared"
                    " safely",
                    hint="choose other columns that identify a row: `key: [a, b]`",
                )
            key.append(ordered)
            found.add(native.name)
        return tuple(key), any(found >= set(unique.columns) for unique in catalogue.uniques)

    def _column(self, catalogue: Catalogue, name: str) -> Native | None:
        exact = catalogue.column(name)
        if exact is not None or not self._dialect.folds_case:
            return exact
        return next((c for c in catalogue.columns if c.name.casefold() == name.casefold()), None)


class _Survey:
    """One look at one table."""

    def __init__(
        self,
        dialect: Dialect,
        bound_wait: BoundWait,
        source_table: SourceTable,
        after: RowPosition | None,
        step: int,
    ) -> None:
        self._dialect = dialect
        self._source_table = source_table
        self._after = after
        self._step = step
        self._table = dialect.name(source_table.table)
        self._past = sql.after(source_table, after, dialect.literal)
        self._reach = SurveyBound(dialect, bound_wait, source_table, after)

    def make(self, pending: str | None) -> Survey:
        source_table, dialect = self._source_table, self._dialect
        notation = dialect.notation(source_table, self._past)
        if (
            notation is None
            and source_table.cursor_kind == "timestamp"
            and source_table.cursor.kind not in ORDERED
        ):
            # Nothing new to see it by: what was read last shows it too.
            notation = notation_of(self._after.cursor.text) if self._after else None
        remembered: tuple[Candidate, ...] = ()
        waiting: str | None = None
        if source_table.cursor_kind == "timestamp":
            upto, remembered = self._timestamp(from_text(pending, None), notation)
            moment = self._reach.look()
            # Also while nothing is safe to read yet; only text without a notation cannot be compared.
            if notation is not None or source_table.cursor.kind in ORDERED:
                late = latest_now(moment, source_table.cursor)
                value = notation.write(late) if notation else late
                waiting = f"{source_table.cursor.order} > {dialect.literal(value)}"
                if self._after is not None and compare(RowPosition(value), self._after, moments=True) == -1:
                    self._reach.notes.append(
                        f"risk: the window begins at {self._after.cursor.text}, past the source's clock: rows"
                        " before that are not read; `tidegauge watermark set` moves the watermark back"
                    )
        else:
            upto, remembered = self._reach.value(from_text(pending, source_table.cursor.kind), self._past)
        nulls, late_rows = self._counts(waiting)
        cuts: tuple[Cut, ...] = ()
        if upto is not None:
            cuts = self._found(upto)
            if not cuts and source_table.cursor_kind == "value":
                upto = None
        return Survey(
            upto=upto,
            cuts=cuts,
            rows_null=nulls,
            rows_waiting=late_rows,
            pending=to_text(remembered),
            notes=tuple(self._reach.notes),
        )

    def settled(self) -> Value | None:
        if self._source_table.cursor_kind == "timestamp":
            notation = self._dialect.notation(self._source_table, self._past)
            upto, _ = self._timestamp((), notation)
        else:
            upto, _ = self._reach.value((), self._past)
        return upto.cursor if upto else None

    def window(self, upto: RowPosition) -> tuple[Cut, ...]:
        """Stretches of the whole window: the last ends at `upto`."""
        cuts = self._found(upto)
        return (*cuts[:-1], Cut(upto, cuts[-1].rows)) if cuts else ()

    def _found(self, upto: RowPosition) -> tuple[Cut, ...]:
        """Stretches of the rows that are there: the last ends at the last row."""
        where = self._within(self._after, upto)
        self._check_key(where)
        return self._cuts_along(upto) if self._source_table.along else self._cuts(where)

    def _timestamp(
        self, kept: tuple[Candidate, ...], notation: Notation | None
    ) -> tuple[RowPosition | None, tuple[Candidate, ...]]:
        cursor = self._source_table.cursor
        if cursor.kind not in ORDERED:
            if notation is None:
                return None, kept
            cursor = replace(cursor, scale=notation.scale)
        found, waiting = self._reach.moment(cursor, kept)
        if found is None:
            return None, waiting
        value = notation.write_bound(found) if notation else found
        if notation and self._after and not notation.follows(self._after.cursor.text):
            raise CursorUnsuitable(
                f"{self._source_table.table}: {cursor.name} is written in another notation than the"
                " position to"
                f" go on from, '{self._after.cursor.text}': '{value.text}'",
                hint="write all timestamps of the column, and `initial`, the same way",
            )
        if self._after is not None and compare(RowPosition(value), self._after, moments=True) == -1:
            return None, waiting
        return RowPosition(value), waiting

    def _counts(self, waiting: str | None) -> tuple[int, int]:
        source_table = self._source_table
        if not source_table.cursor.nullable and waiting is None:
            return 0, 0
        ((null_text, late_text),) = self._dialect.rows(sql.counts(source_table, self._table, waiting))
        nulls, late = int(null_text), int(late_text)
        if nulls and source_table.options.null_cursor is NullCursor.FAIL:
            raise CursorUnsuitable(
                f"{source_table.table}: {nulls} rows have no cursor: {source_table.cursor.name} is NULL",
                hint="fill it at the source, use an expression such as coalesce(a, b), or say"
                " `null_cursor: include` (read them every time) or `exclude`",
            )
        return nulls, late

    def _check_key(self, where: str) -> None:
        source_table = self._source_table
        if source_table.key_proven:
            return
        named = ", ".join(part.name for part in source_table.key)
        scope = None if self._after is None else where
        if any(part.nullable for part in source_table.key):
            ((lacking,),) = self._dialect.rows(sql.null_keys(source_table, self._table, scope))
            if int(lacking):
                raise KeyUnsuitable(
                    f"{source_table.table}: the key ({named}) is NULL in {lacking} rows",
                    hint="name other columns that identify a row: `key: [a, b]`",
                )
        repeats = self._dialect.rows(sql.repeated(source_table, self._table, scope))
        if repeats:
            *texts, times = repeats[0]
            raise KeyUnsuitable(
                f"{source_table.table}: the key ({named}) is not unique: {times} rows have"
                f" ({', '.join(map(str, texts))})",
                hint="name the columns that identify a row: `key: [a, b]`",
            )

    def _cuts(self, where: str) -> tuple[Cut, ...]:
        before, cuts = 0, []
        for number, *texts in self._dialect.rows(
            sql.cuts(self._source_table, self._table, where, self._step)
        ):
            cuts.append(Cut(self._position(texts), int(number) - before))
            before = int(number)
        return tuple(cuts)

    def _cuts_along(self, upto: RowPosition) -> tuple[Cut, ...]:
        """The same by hopping along an index: each statement reads just the entries of one stretch.

        Between two of them rows may move away, which changes how many a stretch has but not where it ends.
        """
        source_table, dialect, at = self._source_table, self._dialect, self._after
        cuts: list[Cut] = []
        while found := dialect.rows(sql.hop(source_table, self._table, self._within(at, upto), self._step)):
            at = self._position(found[0])
            cuts.append(Cut(at, self._step))
        left = self._within(at, upto)
        if found := dialect.rows(sql.last(source_table, self._table, left)):
            ((rest,),) = dialect.rows(sql.count(source_table, self._table, left))
            cuts.append(Cut(self._position(found[0]), int(rest)))
        return tuple(cuts)

    def _position(self, texts: Sequence[str]) -> RowPosition:
        cursor, *key = texts
        values = tuple(Value(part.kind, text) for part, text in zip(self._source_table.key, key, strict=True))
        return RowPosition(Value(self._source_table.cursor.kind, cursor), values)

    def _within(self, lower: RowPosition | None, upper: RowPosition) -> str:
        return sql.between(self._source_table, lower, upper, self._dialect.literal)
