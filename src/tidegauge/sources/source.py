"""A database of any kind as a `Source`: its tables, how far they are safe to read, and where to cut them."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from typing import Any

from tidegauge.errors import (
    ConfigError,
    CursorUnsuitable,
    KeyUnsuitable,
    PositionError,
    SourceError,
    SourceUnreachable,
)
from tidegauge.model.position import ORDERED, RowPosition, Value, ValueKind
from tidegauge.model.secret import name_openly
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.table import EVERY_ROW, Cut, OrderedColumn, SessionVisibility, SourceTable, Survey
from tidegauge.sources import sql
from tidegauge.sources.bound import latest_now
from tidegauge.sources.bound_wait import BoundWait
from tidegauge.sources.column_types import types_of
from tidegauge.sources.dialect import COMMENT, Dialect, TableDescription, column_missing
from tidegauge.sources.masks import choose_columns
from tidegauge.sources.row_key import add_row_key, needs_row_key
from tidegauge.sources.survey import TableSurvey
from tidegauge.sources.types import CatalogueColumn

_NAME = re.compile(r"[^\W\d]\w*")


class DatabaseSource:
    """Implements `model.protocols.source.Source` over one dialect; one call at a time."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lock = threading.RLock()
        self._bound_wait = BoundWait(dialect.read_clock)

    def tables(self) -> tuple[TableName, ...]:
        with self._lock, self._dialect.held():
            found = self._dialect.tables()
        for table in found:
            name_openly(str(table))
        return tuple(sorted(found, key=lambda table: (table.schema or "", table.table)))

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        with self._lock, self._dialect.held():
            return tuple(
                sorted(self._dialect.left_out(), key=lambda one: (one[0].schema or "", one[0].table))
            )

    def identity(self) -> str:
        with self._lock, self._dialect.held():
            return self._dialect.identity()

    def with_column(self, name: str) -> frozenset[TableName]:
        with self._lock, self._dialect.held():
            return self._dialect.with_column(name)

    def with_key(self) -> frozenset[TableName]:
        with self._lock, self._dialect.held():
            return self._dialect.with_key()

    def describe(self, table: TableName, options: TableOptions) -> SourceTable:
        with self._lock, self._dialect.held():
            catalogue = self._dialect.catalogue(table)
            types = types_of(self._dialect.rules, table, options, catalogue.columns)
            cursor, cursor_kind, notes = self._cursor(table, options, catalogue)
            key, proven = self._key(table, options, catalogue)
            chosen = choose_columns(
                self._dialect,
                table,
                replace(options, types=types),
                catalogue.columns,
                [part.name for part in key],
            )
            columns, relation, wanted = chosen.columns, "", self._filter(table, options)
            if not key and needs_row_key(options):
                every = [native.name for native in catalogue.columns]
                columns, key, relation = add_row_key(self._dialect, table, columns, every, wanted)
            named = self._column(catalogue, options.cursor) if not options.snapshot else None
            return SourceTable(
                table=table,
                # Without the masks: their salts are needed only in the SQL of the columns.
                options=replace(options, mask=()),
                columns=columns,
                cursor=cursor,
                cursor_kind=cursor_kind,
                key=key,
                key_proven=proven,
                source_id=catalogue.identity,
                notes=(*catalogue.notes, *notes, *chosen.notes),
                unindexed=named.name if named and named.name not in catalogue.indexed else "",
                relation=relation,
                along=catalogue.orders.get((options.cursor, *(part.name for part in key)), ""),
                filter=wanted,
            )

    def survey(
        self, source_table: SourceTable, after: RowPosition | None, step: int, pending: str | None
    ) -> Survey:
        with self._lock, self._dialect.held():
            try:
                return self._make_survey(source_table, after, step).make(pending)
            except PositionError as error:
                raise CursorUnsuitable(
                    f"{source_table.table}: {error}, so it cannot be paged by {source_table.cursor.name}",
                    hint="mend the rows that hold such values, or choose another cursor",
                ) from error

    def survey_whole(self, source_table: SourceTable, step: int | None) -> Survey:
        with self._lock, self._dialect.held():
            return self._make_survey(source_table, None, step or 1).make_whole(cut=step is not None)

    def cuts(
        self, source_table: SourceTable, after: RowPosition | None, upto: RowPosition, step: int
    ) -> tuple[Cut, ...]:
        with self._lock, self._dialect.held():
            return self._make_survey(source_table, after, step).cut_window(upto)

    def count(self, source_table: SourceTable, after: RowPosition | None, upto: RowPosition) -> int:
        with self._lock, self._dialect.held():
            where = sql.between(source_table, after, upto, self._dialect.literal)
            ((rows,),) = self._dialect.rows(
                sql.count(source_table, sql.relation(source_table, self._dialect.name), where)
            )
            return int(rows)

    def latest(self, source_table: SourceTable) -> Value | None:
        with self._lock, self._dialect.held():
            every = sql.after(source_table, None, self._dialect.literal)
            if source_table.cursor_kind != "timestamp":
                found = self._dialect.rows(
                    sql.highest(source_table, sql.relation(source_table, self._dialect.name), every)
                )
                return Value(source_table.cursor.kind, found[0][0]) if found else None
            now = latest_now(self._dialect.read_clock(fresh=True), source_table.cursor)
            if source_table.cursor.kind in ORDERED:
                return now
            notation = self._dialect.notation(source_table, every)
            return notation.write(now) if notation else None

    def find_settled(self, source_table: SourceTable) -> Value | None:
        with self._lock, self._dialect.held():
            return self._make_survey(source_table, None, 1).find_settled()

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self._lock, self._dialect.held():
            return self._dialect.rows(sql)

    def outlook(self) -> SessionVisibility:
        with self._lock, self._dialect.held():
            moment = self._dialect.read_clock(fresh=True)
            return SessionVisibility(moment.now, moment.blind, moment.replica)

    def close(self) -> None:
        with self._lock:
            self._dialect.close()

    def _make_survey(self, source_table: SourceTable, after: RowPosition | None, step: int) -> TableSurvey:
        return TableSurvey(self._dialect, self._bound_wait, source_table, after, step)

    def _cursor(
        self, table: TableName, options: TableOptions, catalogue: TableDescription
    ) -> tuple[OrderedColumn, str, tuple[str, ...]]:
        notes: tuple[str, ...] = ()
        if options.snapshot:
            return self._make_constant_cursor(), "timestamp", notes
        native = self._column(catalogue, options.cursor)
        if native is not None:
            expression = self._dialect.quote(native.name)
        elif _NAME.fullmatch(options.cursor):
            known = tuple(column.name for column in catalogue.columns)
            raise column_missing(table, "cursor", options.cursor, known)
        elif ";" in options.cursor or "\0" in options.cursor:
            raise CursorUnsuitable(
                f"{table}: the cursor {options.cursor!r} is more than one expression",
                hint="a cursor is a column, or one expression without `;`",
            )
        else:
            # The line break ends a comment at the end of the expression.
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
            ordered, kind = replace(ordered, unix_unit=options.epoch), "timestamp"
        return replace(ordered, name=options.cursor), kind, notes

    def _make_constant_cursor(self) -> OrderedColumn:
        """The cursor of a snapshot: a constant moment in the past, so that every row lies before the moment
        at which the table is read."""
        moment = EVERY_ROW.cursor
        return OrderedColumn("", self._dialect.literal(moment), "{}", moment.kind, nullable=False)

    def _key(
        self, table: TableName, options: TableOptions, catalogue: TableDescription
    ) -> tuple[tuple[OrderedColumn, ...], bool]:
        names = options.key or next((u.columns for u in catalogue.uniques if u.primary), catalogue.key_hint)
        if not names:
            if not (options.snapshot or options.mode.facts.only_adds):
                raise KeyUnsuitable(
                    f"{table}: the table has no primary key, so rows with the same cursor cannot be told"
                    " apart",
                    hint="name the columns that identify a row with `key: [a, b]`; without any, use"
                    " `mode: append`, or `without_cursor: snapshot`",
                )
            return (), True
        key, found = [], set()
        for name in names:
            native = self._column(catalogue, name)
            if native is None:
                raise column_missing(table, "key", name, tuple(column.name for column in catalogue.columns))
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

    def _filter(self, table: TableName, options: TableOptions) -> str:
        """`where:` in parentheses, empty without one. Raises ConfigError if the database refuses it."""
        if options.where is None:
            return ""
        condition = f"({options.where.sql}\n)"
        try:
            self._dialect.rows(
                f"SELECT {COMMENT} 1 FROM {self._dialect.name(table)} WHERE {condition} LIMIT 0"
            )
        except SourceUnreachable:
            raise
        except SourceError as error:
            raise ConfigError(
                f"{table}: `where` is no condition that the database understands: {error.message}",
                hint="write what stands behind WHERE in the database's own SQL, with the table's own columns",
                place=options.where.place,
            ) from error
        return condition

    def _column(self, catalogue: TableDescription, name: str) -> CatalogueColumn | None:
        exact = catalogue.column(name)
        if exact is not None or not self._dialect.folds_case:
            return exact
        return next((c for c in catalogue.columns if c.name.casefold() == name.casefold()), None)
