"""One look at one table: how far it is safe to read, and where its rows are cut into batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegauge.errors import CursorUnsuitable, KeyUnsuitable
from tidegauge.model.plan import NO_INDEX
from tidegauge.model.position import ORDERED, RowPosition, Value, ValueKind, compare
from tidegauge.model.spec import NullCursor
from tidegauge.model.table import Cut, SourceTable, Survey
from tidegauge.sources import sql
from tidegauge.sources.bound import latest_now
from tidegauge.sources.bound_wait import BoundWait
from tidegauge.sources.candidate import BoundCandidate, from_text, to_text
from tidegauge.sources.dialect import COMMENT, Dialect
from tidegauge.sources.notation import Notation, notation_of
from tidegauge.sources.survey_bound import SurveyBound

_LARGE = 100_000
"""Only a table with more rows than this gets a note that each batch reads all of it."""


class TableSurvey:
    """Surveys the rows of a table past a position, for batches of `step` rows."""

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
        self._table = sql.relation(source_table, dialect.name)
        self._past = sql.after(source_table, after, dialect.literal)
        self._bound = SurveyBound(dialect, bound_wait, source_table, after)

    def make(self, pending: str | None) -> Survey:
        """The survey of a table with a cursor. `pending`: what an earlier one left in the ledger for it."""
        source_table = self._source_table
        remembered: tuple[BoundCandidate, ...] = ()
        waiting: str | None = None
        if source_table.cursor_kind == "timestamp":
            notation = self._notation()
            upto, remembered = self._bound_of_timestamps(from_text(pending, None), notation)
            waiting = self._make_future_condition(notation)
        else:
            self._dialect.notation(source_table, self._past)  # Refuses values that have no order.
            upto, remembered = self._bound.value(from_text(pending, source_table.cursor.kind), self._past)
        nulls, late_rows, young_rows = self._count_unready(waiting, upto)
        if late_rows:
            dated = "1 row is dated" if late_rows == 1 else f"{late_rows:,} rows are dated"
            self._bound.notes.append(f"{dated} past the source's clock, and read when that time has come")
        if young_rows:
            self._bound.notes.append(self._bound.describe_young(young_rows))
        if source_table.unindexed and self._is_large():
            self._bound.notes.append(
                f"{NO_INDEX} {source_table.unindexed}: each plan and each batch reads the whole table"
            )
        cuts: tuple[Cut, ...] = ()
        if upto is not None:
            cuts = self._cut_rows(upto)
            if not cuts and source_table.cursor_kind == "value":
                upto = None
        return Survey(
            upto=upto,
            cuts=cuts,
            rows_null=nulls,
            rows_waiting=late_rows,
            pending=to_text(remembered, late_rows),
            notes=tuple(self._bound.notes),
        )

    def _is_large(self) -> bool:
        """Whether the table has more than `_LARGE` rows; no more than that are counted."""
        some = f"SELECT 1 FROM {self._table} LIMIT {_LARGE + 1}"
        [[rows]] = self._dialect.rows(f"SELECT {COMMENT} COUNT(*) FROM ({some}) AS w")
        return int(rows) > _LARGE

    def make_whole(self, *, cut: bool) -> Survey:
        """The survey of a table without a cursor: all rows, as of the source's clock."""
        self._dialect.notation(self._source_table, self._past)  # Refuses keys that have no order.
        clock = self._bound.look().clock.isoformat(sep=" ", timespec="microseconds")
        upto = RowPosition(Value(ValueKind.TEXT, clock))
        if cut:
            return Survey(upto, self.cut_window(upto))
        self._check_key(self._past)
        return Survey(upto)

    def find_settled(self) -> Value | None:
        """The highest value of the cursor that is safe to read; see `Source.find_settled`."""
        if self._source_table.cursor_kind == "timestamp":
            notation = self._dialect.notation(self._source_table, self._past)
            upto, _ = self._bound_of_timestamps((), notation)
        else:
            upto, _ = self._bound.value((), self._past)
        return upto.cursor if upto else None

    def cut_window(self, upto: RowPosition) -> tuple[Cut, ...]:
        """The cuts of the window, the last of them at `upto`; none if the window has no rows."""
        cuts = self._cut_rows(upto)
        return (*cuts[:-1], Cut(upto, cuts[-1].rows)) if cuts else ()

    def _cut_rows(self, upto: RowPosition) -> tuple[Cut, ...]:
        """The cuts of the rows up to `upto`, the last of them at the last row."""
        where = self._within(self._after, upto)
        self._check_key(where)
        return self._cut_along_index(upto) if self._source_table.along else self._cut_by_number(where)

    def _notation(self) -> Notation | None:
        """How timestamps that are kept as text are written; None for others, or if no row shows it."""
        found = self._dialect.notation(self._source_table, self._past)
        if found is None and self._source_table.cursor.kind not in ORDERED and self._after is not None:
            # No new row shows the notation; the last one that was read does.
            return notation_of(self._after.cursor.text)
        return found

    def _make_future_condition(self, notation: Notation | None) -> str | None:
        """SQL that is true for rows dated after the source's clock, which wait for their time."""
        cursor = self._source_table.cursor
        if notation is None and cursor.kind not in ORDERED:
            return None  # Text without a notation cannot be compared.
        latest = latest_now(self._bound.look(), cursor)
        value = notation.write(latest) if notation else latest
        if self._after is not None and compare(RowPosition(value), self._after, moments=True) == -1:
            self._bound.notes.append(
                f"risk: the window begins at {self._after.cursor.text}, past the source's clock: rows"
                " before that are not read; `tidegauge watermark set` moves the watermark back"
            )
        return f"{cursor.order} > {self._dialect.literal(value)}"

    def _bound_of_timestamps(
        self, kept: tuple[BoundCandidate, ...], notation: Notation | None
    ) -> tuple[RowPosition | None, tuple[BoundCandidate, ...]]:
        cursor = self._source_table.cursor
        if cursor.kind not in ORDERED:
            if notation is None:
                return None, kept
            cursor = replace(cursor, scale=notation.scale)
        found, waiting = self._bound.moment(cursor, kept)
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

    def _count_unready(self, waiting: str | None, upto: RowPosition | None) -> tuple[int, int, int]:
        """Count the rows without a cursor, dated in the future, and too young to be read yet."""
        source_table = self._source_table
        if not source_table.cursor.nullable and waiting is None:
            return 0, 0, 0
        young = self._make_young_condition(waiting, upto) if waiting else None
        ((*texts,),) = self._dialect.rows(sql.counts(source_table, self._table, waiting, young))
        nulls, late, too_young = map(int, texts)
        if nulls and source_table.options.null_cursor is NullCursor.FAIL:
            raise CursorUnsuitable(
                f"{source_table.table}: {nulls} rows have no cursor: {source_table.cursor.name} is NULL",
                hint="fill it at the source, use an expression such as coalesce(a, b), or say"
                " `null_cursor: include` (read them every time) or `exclude`",
            )
        return nulls, late, too_young

    def _make_young_condition(self, waiting: str, upto: RowPosition | None) -> str | None:
        """SQL that is true for rows past what was read and past the bound, up to the clock."""
        if upto is None and self._after is None:
            return None
        past = (
            f"{self._source_table.cursor.order} > {self._dialect.literal(upto.cursor)}" if upto else "1 = 1"
        )
        return f"(({self._past}) AND {past} AND NOT ({waiting}))"

    def _check_key(self, where: str) -> None:
        source_table = self._source_table
        if source_table.key_proven or source_table.relation:
            return
        named = ", ".join(part.name for part in source_table.key)
        scope = None if self._after is None else where
        if any(part.nullable for part in source_table.key):
            ((lacking,),) = self._dialect.rows(sql.null_keys(source_table, self._table, scope))
            if int(lacking):
                raise KeyUnsuitable(
                    f"{source_table.table}: the key ({named}) is NULL in {lacking} rows",
                    hint="name columns in `key:` that are filled in every row and identify it",
                )
        repeats = self._dialect.rows(sql.find_repeated(source_table, self._table, scope))
        if repeats:
            *texts, times = repeats[0]
            raise KeyUnsuitable(
                f"{source_table.table}: the key ({named}) is not unique: {times} rows have"
                f" ({', '.join(map(str, texts))})",
                hint=f"name in `key:`, beside {named}, what tells these rows apart; if nothing does, use"
                " `mode: append` without a key, or mend the rows at the source",
            )

    def _cut_by_number(self, where: str) -> tuple[Cut, ...]:
        before = 0
        cuts: list[Cut] = []
        for number, *texts in self._dialect.rows(
            sql.cuts(self._source_table, self._table, where, self._step)
        ):
            position = self._position(texts)
            if cuts and cuts[-1].position == position:
                # Without a key a cut takes all rows of its value.
                cuts[-1] = Cut(position, cuts[-1].rows + int(number) - before)
            else:
                cuts.append(Cut(position, int(number) - before))
            before = int(number)
        return tuple(cuts)

    def _cut_along_index(self, upto: RowPosition) -> tuple[Cut, ...]:
        """Like `_cut_by_number`, but along an index: each query reads only the entries up to the next cut.

        Between two queries rows may move away, which makes a cut's row count wrong, but not its position.
        """
        source_table, dialect, at = self._source_table, self._dialect, self._after
        cuts: list[Cut] = []
        while found := dialect.rows(
            sql.nth_row(source_table, self._table, self._within(at, upto), self._step)
        ):
            at = self._position(found[0])
            cuts.append(Cut(at, self._step))
        left = self._within(at, upto)
        if found := dialect.rows(sql.last_row(source_table, self._table, left)):
            ((rest,),) = dialect.rows(sql.count(source_table, self._table, left))
            cuts.append(Cut(self._position(found[0]), int(rest)))
        return tuple(cuts)

    def _position(self, texts: Sequence[str]) -> RowPosition:
        cursor, *key = texts
        values = tuple(
            Value(part.kind, str(text)) for part, text in zip(self._source_table.key, key, strict=True)
        )
        return RowPosition(Value(self._source_table.cursor.kind, cursor), values)

    def _within(self, lower: RowPosition | None, upper: RowPosition) -> str:
        return sql.between(self._source_table, lower, upper, self._dialect.literal)
