"""Windows below the watermark, limits, and the proof that no split, tie or crash loses or doubles a row.

Rows live in SQLite in memory and are found by the reader's own SQL, so that what is proven is what runs.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.drafts import ME, OTHER
from tidegauge.errors import PositionError
from tidegauge.ledger import attempt_rules, claim_rules, plan_rules
from tidegauge.ledger.flow_state import FlowState
from tidegauge.model.plan import Batch, Draft, Receipt, Tag, draft_from_json, draft_to_json
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.model.spec import Database, Engine, Lake, LakeTable, TableFlow, TableName, TableOptions
from tidegauge.model.state import State
from tidegauge.model.table import Cut, OrderedColumn, SourceTable, Survey
from tidegauge.plan.backfill import (
    BackfillWindow,
    draft_backfill,
    find_backfill_window,
    fit_batches_to_limit,
    limit_rows,
    step_below,
)
from tidegauge.plan.draft import batch_step, draft_table
from tidegauge.sources import sql
from tidegauge.sources.sqlite import engine as sqlite_engine

Row = tuple[int, int, str]
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 9), st.text("aB'é", max_size=2)),
    unique_by=lambda row: row[1:],
    max_size=40,
)
FLOW = TableFlow(
    pipeline="p",
    name="t",
    source=Database("app", Engine.SQLITE, path=Path("/x.db")),
    table=TableName(None, "t"),
    output=LakeTable(Lake("lake", "/lake"), "t"),
    options=TableOptions(cursor="c"),
)
SHAPE = SourceTable(
    table=FLOW.table,
    options=FLOW.options,
    columns=(),
    cursor=OrderedColumn("c", '"c"', "CAST({} AS TEXT)", ValueKind.INT, nullable=False),
    cursor_kind="value",
    key=(
        OrderedColumn("k", '"k"', "CAST({} AS TEXT)", ValueKind.INT, nullable=False),
        OrderedColumn("s", '"s"', "{}", ValueKind.TEXT, nullable=False),
    ),
    key_proven=True,
    source_id="test",
)
NOW = datetime(2025, 1, 1)


def at(number: int | str, key: tuple[int, str] | None = None, kind: ValueKind = ValueKind.INT) -> RowPosition:
    values = (Value(ValueKind.INT, str(key[0])), Value(ValueKind.TEXT, key[1])) if key else ()
    return RowPosition(Value(kind, str(number)), values)


def flow_with(**options: object) -> TableFlow:
    return replace(FLOW, options=replace(FLOW.options, **options))  # type: ignore[arg-type]


def shape_of(kind: ValueKind, cursor_kind: str, scale: int = 0) -> SourceTable:
    cursor = OrderedColumn("c", "c", "{}", kind, nullable=False, scale=scale)
    return replace(SHAPE, cursor=cursor, cursor_kind=cursor_kind)


@dataclass
class Table:
    """A table, and the two questions a plan asks of it."""

    rows: list[Row]

    def __post_init__(self) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute("CREATE TABLE t (c INTEGER, k INTEGER, s TEXT)")
        self.connection.executemany("INSERT INTO t VALUES (?, ?, ?)", self.rows)

    def cuts(self, after: RowPosition | None, upto: RowPosition, step: int) -> tuple[Cut, ...]:
        where = sql.between(SHAPE, after, upto, sqlite_engine.literal)
        found, before = [], 0
        for number, c, k, s in self.connection.execute(sql.cuts(SHAPE, "t", where, step)):
            found.append(Cut(at(c, (int(k), s)), number - before))
            before = number
        return (*found[:-1], Cut(upto, found[-1].rows)) if found else ()

    def count(self, after: RowPosition | None, upto: RowPosition) -> int:
        return len(self.window(after, upto))

    def window(self, after: RowPosition | None, upto: RowPosition) -> list[Row]:
        where = sql.between(SHAPE, after, upto, sqlite_engine.literal)
        return self.connection.execute(f"SELECT c, k, s FROM t WHERE {where}").fetchall()

    def readers(self, batch: Batch) -> list[list[Row]]:
        """What each parallel reader of a batch finds."""
        wheres = sql.splits(SHAPE, batch, sqlite_engine.literal)
        return [
            self.connection.execute(f"SELECT c, k, s FROM t WHERE {where}").fetchall() for where in wheres
        ]

    def read(self, draft: Draft) -> list[Row]:
        return [row for batch in draft.batches for part in self.readers(batch) for row in part]

    def positions(self) -> list[RowPosition]:
        ordered = self.connection.execute("SELECT c, k, s FROM t ORDER BY c, k, s").fetchall()
        return [at(c, (k, s)) for c, k, s in ordered] + [at(c) for c in range(-1, 6)]


ANY = st.integers(0, 60)
"""Chooses one of a table's positions."""


def chosen(table: Table, number: int) -> RowPosition:
    positions = table.positions()
    return positions[number % len(positions)]


# --- no gap, no overlap


@given(rows=ROWS, low=st.none() | ANY, high=ANY, batch_rows=st.integers(1, 50), parallel=st.integers(1, 6))
@settings(deadline=None)
def test_a1_any_split_of_any_ties_reads_every_row_once(
    rows: list[Row], low: int | None, high: int, batch_rows: int, parallel: int
) -> None:
    table = Table(rows)
    after = None if low is None else chosen(table, low)
    upto = chosen(table, high)
    flow = flow_with(batch_rows=batch_rows, parallel=parallel)
    step = batch_step(flow)
    made = draft_table(flow, SHAPE, after, Survey(upto, table.cuts(after, upto, step)))
    assert Counter(table.read(made)) == Counter(table.window(after, upto))
    assert made.rows == len(table.window(after, upto))
    end = after
    for batch in made.batches:
        [window] = batch.windows
        assert window.after == end
        end = window.upto  # type: ignore[assignment]
        parts = table.readers(batch)
        assert len(parts) == len(batch.split_points) + 1 <= parallel
        assert sum(map(len, parts)) == batch.rows
        assert all(len(part) <= step for part in parts)
    assert not made.batches or end == upto


@given(
    rows=ROWS, mark=ANY, first=st.none() | st.integers(-1, 5), last=st.none() | ANY, step=st.integers(1, 9)
)
@settings(deadline=None)
def test_a_backfill_reads_its_window_and_never_past_the_watermark(
    rows: list[Row], mark: int, first: int | None, last: int | None, step: int
) -> None:
    table = Table(rows)
    watermark = chosen(table, mark)
    begin = None if first is None else at(first)
    end = None if last is None else chosen(table, last)
    found = find_backfill_window(FLOW, SHAPE, watermark, begin, end, count=table.count)
    assert found.upto is not None
    made = draft_backfill(FLOW, SHAPE, found, table.cuts(found.after, found.upto, step), pending="later")
    expected = {
        row
        for row in table.window(None, watermark)
        if (first is None or row[0] >= first) and (end is None or row in set(table.window(None, end)))
    }
    assert Counter(table.read(made)) == Counter(expected)
    assert all(batch.rereads for batch in made.batches)
    assert made.inputs[0].pending == "later"
    assert bool(made.batches) == bool(expected)
    assert (made.inputs[0].window is None) == (not expected)


@given(
    rows=ROWS,
    limit=st.integers(1, 45),
    batch_rows=st.integers(1, 50),
    parallel=st.integers(1, 6),
    fitted=st.booleans(),
)
@settings(deadline=None)
def test_a_limit_ends_at_a_cut_and_the_next_plan_goes_on_from_there(
    rows: list[Row], limit: int, batch_rows: int, parallel: int, fitted: bool
) -> None:
    table, upto = Table(rows), at(9)
    flow = flow_with(batch_rows=batch_rows, parallel=parallel)
    if fitted:
        flow = fit_batches_to_limit(flow, limit)
        assert flow.options.batch_rows <= min(limit, batch_rows)
    step = min(batch_step(flow), limit)
    read: list[Row] = []
    after: RowPosition | None = None
    for _ in range(len(rows) + 1):
        whole = draft_table(flow, SHAPE, after, Survey(upto, table.cuts(after, upto, step)))
        made = limit_rows(whole, limit, step=step)
        if not whole.batches:
            break
        found = table.read(made)
        assert 0 < len(found) == made.rows <= limit
        # Whole batches use up the limit but for less than one stretch of each reader.
        assert made.batches == whole.batches or limit - len(found) < step * (parallel if fitted else 1)
        window = made.inputs[0].window
        assert window == Window(after, made.batches[-1].windows[0].upto)
        assert isinstance(window.upto, RowPosition)
        read += found
        after = window.upto
    assert Counter(read) == Counter(rows)


# --- crashes


@dataclass
class World:
    """The real rules of the ledger, and an output that keeps a batch under its tag or not at all."""

    table: Table
    crashes: list[int]
    """How many steps each process lives."""

    def __post_init__(self) -> None:
        self.flow_state = FlowState("p", "t")
        self.committed: dict[Tag, tuple[Batch, list[Row]]] = {}
        self.read: list[Batch] = []

    def run(self, made: Draft) -> None:
        """Until the plan has ended, however many processes it takes."""
        change, plan = plan_rules.plan(self.flow_state, made, plan_id="x", owner=ME, run_id="r", now=NOW)
        assert change is not None
        self.flow_state = change.flow_state
        attempt = 0
        while plan is not None and self.flow_state.active is not None:
            attempt += 1
            lives = self.crashes.pop(0) if self.crashes else 10_000
            self._process(ME if attempt % 2 else OTHER, lives)

    def _process(self, owner: object, lives: int) -> None:
        assert self.flow_state.active is not None
        dead = self.flow_state.active.owner
        change = claim_rules.claim(
            self.flow_state,
            "x",
            owner=ME if owner is ME else OTHER,
            run_id="r",
            lease=timedelta(minutes=1),
            dead=dead,
            now=NOW,
        )
        self.flow_state = change.flow_state
        held = claim_rules.claim_of(self.flow_state)
        plan = held.plan
        for index in range(plan.done, len(plan.draft.batches)):
            batch, tag = plan.draft.batches[index], plan.tag(index)
            self.flow_state = attempt_rules.begin(self.flow_state, held, index, now=NOW).flow_state
            if (lives := lives - 1) < 0:
                return
            if tag not in self.committed:
                self.read.append(batch)
                rows = [row for part in self.table.readers(batch) for row in part]
                if (lives := lives - 1) < 0:
                    return
                self.committed[tag] = batch, rows
            if (lives := lives - 1) < 0:
                return
            receipt = Receipt(tag, batch.windows, len(self.committed[tag][1]), 1, 1, "r")
            self.flow_state = attempt_rules.advance(self.flow_state, held, index, receipt, now=NOW).flow_state
            if (lives := lives - 1) < 0:
                return
        self.flow_state = attempt_rules.finish(self.flow_state, held, State.SUCCESS, None, now=NOW).flow_state

    @property
    def rows(self) -> Counter[Row]:
        return Counter(row for _, rows in self.committed.values() for row in rows)

    @property
    def watermark(self) -> object:
        return self.flow_state.marks["t"].position


@given(
    rows=ROWS,
    parallel=st.integers(1, 4),
    batch_rows=st.integers(1, 20),
    crashes=st.lists(st.integers(0, 9), max_size=12),
)
@settings(deadline=None)
def test_any_crash_resumes_to_the_same_rows_and_costs_at_most_the_batch_in_hand(
    rows: list[Row], parallel: int, batch_rows: int, crashes: list[int]
) -> None:
    table, upto = Table(rows), at(9)
    flow = flow_with(batch_rows=batch_rows, parallel=parallel)
    made = draft_table(flow, SHAPE, None, Survey(upto, table.cuts(None, upto, batch_step(flow))))
    world, died = World(table, list(crashes)), len(crashes)
    world.run(made)
    assert world.rows == Counter(rows)
    assert len(world.committed) == len(made.batches)
    assert len(world.read) <= len(made.batches) + died
    assert world.watermark == (upto if made.batches else None)


@given(
    rows=ROWS,
    mark=ANY,
    first=st.integers(-1, 5),
    last=ANY,
    step=st.integers(1, 9),
    crashes=st.lists(st.integers(0, 9)),
)
@settings(deadline=None)
def test_a_backfill_leaves_the_watermark_where_it_is_whatever_crashes(
    rows: list[Row], mark: int, first: int, last: int, step: int, crashes: list[int]
) -> None:
    table = Table(rows)
    watermark, end = chosen(table, mark), chosen(table, last)
    world = World(table, [])
    cuts = table.cuts(None, watermark, 10)
    world.run(draft_table(FLOW, SHAPE, None, Survey(watermark, cuts)))
    before, seen = world.rows, world.flow_state.seq
    if not cuts:
        return
    world.crashes = list(crashes)
    found = find_backfill_window(FLOW, SHAPE, watermark, at(first), end, count=table.count)
    assert found.upto is not None
    made = draft_backfill(FLOW, SHAPE, found, table.cuts(found.after, found.upto, step))
    world.run(made)
    again = Counter(row for row in table.window(None, found.upto) if row[0] >= first)
    assert world.rows - before == again
    assert world.watermark == watermark
    assert world.flow_state.seq == seen + len(made.batches)


# --- the edges


def test_nothing_read_yet_is_nothing_to_read_again() -> None:
    found = find_backfill_window(FLOW, SHAPE, None, at(1), None, count=lambda *_: 1)
    assert found.upto is None
    assert found.notes
    made = draft_backfill(FLOW, SHAPE, found, ())
    assert not made.batches
    assert made.inputs[0].window is None


def test_a_window_is_clamped_to_the_watermark_and_says_so() -> None:
    found = find_backfill_window(FLOW, SHAPE, at(5, (3, "a")), None, at(5), count=lambda *_: 0)
    assert found.upto == at(5, (3, "a"))
    assert any("ends at the watermark" in note for note in found.notes)
    assert find_backfill_window(FLOW, SHAPE, at(5), None, at(5), count=lambda *_: 0) == BackfillWindow(
        None, at(5)
    )


def test_a_backfill_begins_where_the_flow_began() -> None:
    found = find_backfill_window(flow_with(initial="3"), SHAPE, at(5), None, None, count=lambda *_: 0)
    assert found == BackfillWindow(at(2), at(5))
    assert find_backfill_window(
        flow_with(initial="3"), SHAPE, at(5), at(1), None, count=lambda *_: 0
    ).after == at(0)


def test_a19_an_end_in_text_is_trusted_only_when_the_database_proves_it_lower() -> None:
    source_table = shape_of(ValueKind.TEXT, "value")
    mark, end = at("m", kind=ValueKind.TEXT), at("Z", kind=ValueKind.TEXT)
    assert find_backfill_window(FLOW, source_table, mark, None, end, count=lambda *_: 2).upto == end
    assert find_backfill_window(FLOW, source_table, mark, None, end, count=lambda *_: 0).upto == mark


@pytest.mark.parametrize(
    ("kind", "cursor_kind", "scale", "first", "after"),
    [
        (ValueKind.INT, "value", 0, "100", "99"),
        (ValueKind.DATE, "timestamp", 0, "2025-03-01", "2025-02-28"),
        (ValueKind.TIMESTAMP, "timestamp", 6, "2025-01-01 00:00:00", "2024-12-31 23:59:59.999999"),
        (ValueKind.TEXT, "timestamp", 0, "2025-01-01T00:00:00Z", "2024-12-31T23:59:59Z"),
        (ValueKind.TEXT, "timestamp", 0, "2025-01-01 00:00:00.000", "2024-12-31 23:59:59.999"),
        (ValueKind.TEXT, "timestamp", 0, "2025-01-01 00:00", "2024-12-31 23:59"),
        (ValueKind.TEXT, "timestamp", 0, "2025-01-01", "2024-12-31"),
        (ValueKind.TEXT, "value", 0, "m", "m"),
        (ValueKind.DECIMAL, "value", 0, "1.50", "1.50"),
        (ValueKind.TIMESTAMP, "timestamp", 0, "0001-01-01 00:00:00", "0001-01-01 00:00:00"),
    ],
)
def test_a_window_begins_just_below_the_first_value(
    kind: ValueKind, cursor_kind: str, scale: int, first: str, after: str
) -> None:
    source_table = shape_of(kind, cursor_kind, scale)
    position = RowPosition(Value(kind, first))
    assert step_below(source_table, position) == RowPosition(Value(kind, after))
    if first == after:
        found = find_backfill_window(FLOW, source_table, position, position, None, count=lambda *_: 0)
        assert any("left out" in note for note in found.notes)


def test_a_limit_below_the_first_batch_plans_nothing_and_forgets_nothing() -> None:
    made = draft_table(flow_with(parallel=1), SHAPE, None, Survey(at(3), (Cut(at(3), 7),)))
    small = limit_rows(made, 5)
    assert not small.batches
    assert small.inputs[0].window is None
    assert any("7 rows, more than the limit of 5" in note for note in small.notes)
    assert small.limit_notes == small.notes
    assert draft_from_json("shop", small.flow, draft_to_json(small)).limit_notes == small.limit_notes
    assert limit_rows(made, 7) == made


def test_a_limit_inside_lookback_does_not_take_the_watermark_back() -> None:
    flow = flow_with(parallel=1, lookback=timedelta(seconds=9))
    cuts = tuple(Cut(at(number), 1) for number in range(1, 6))
    made = draft_table(flow, SHAPE, at(0), Survey(at(5), cuts))
    assert [batch.rereads for batch in limit_rows(made, 3, watermark=at(4)).batches] == [True] * 3
    one = draft_table(flow_with(parallel=5, lookback=timedelta(seconds=9)), SHAPE, at(0), Survey(at(5), cuts))
    assert [batch.rereads for batch in limit_rows(one, 3, step=1, watermark=at(4)).batches] == [True]
    assert [batch.rereads for batch in limit_rows(one, 4, step=1, watermark=at(2)).batches] == [False]


def test_rows_without_a_cursor_are_not_read_before_the_rest_is() -> None:
    batches = (Batch((Window(None, at(3)),), rows=5), Batch((Window(at(3), at(3)),), rows=2, nulls=True))
    made = replace(draft_table(FLOW, SHAPE, None, Survey(at(3), (Cut(at(3), 5),))), batches=batches)
    assert limit_rows(made, 6, step=1).batches == batches[:1]
    assert limit_rows(made, 4, step=1).batches == ()


def test_a_moment_that_is_none_has_nothing_below_it() -> None:
    source_table = shape_of(ValueKind.TEXT, "timestamp")
    odd = at("yesterday", kind=ValueKind.TEXT)
    assert step_below(source_table, odd) == odd
    with pytest.raises(PositionError):
        Value(ValueKind.INT, "yesterday")
