"""The predicates of windows, tried on SQLite in memory."""

from __future__ import annotations

import sqlite3
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.table import OrderedColumn, SourceTable
from tidegauge.sources import sql
from tidegauge.sources.mysql import engine as mysql_engine
from tidegauge.sources.postgresql import engine as postgresql_engine
from tidegauge.sources.sqlite import engine as sqlite_engine

Row = tuple[int, int, str]
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.text("aA'\"\\é\0", max_size=2)),
    unique=True,
    max_size=30,
)


def source_table() -> SourceTable:
    return SourceTable(
        table=TableName(None, "t"),
        options=TableOptions(cursor="c"),
        columns=(),
        cursor=OrderedColumn("c", '"c"', "CAST({} AS TEXT)", ValueKind.INT, nullable=True),
        cursor_kind="value",
        key=(
            OrderedColumn("k", '"k"', "CAST({} AS TEXT)", ValueKind.INT, nullable=False),
            OrderedColumn("s", '"s"', "{}", ValueKind.TEXT, nullable=False),
        ),
        key_proven=True,
        source_id="test",
    )


def position(row: Row, whole: bool = False) -> RowPosition:
    c, k, s = row
    key = () if whole else (Value(ValueKind.INT, str(k)), Value(ValueKind.TEXT, s))
    return RowPosition(Value(ValueKind.INT, str(c)), key)


def table(rows: list[Row]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (c INTEGER, k INTEGER, s TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    return connection


@given(rows=ROWS, points=st.lists(st.tuples(st.integers(0, 29), st.booleans()), max_size=5))
def test_a1_windows_that_share_their_ends_partition_the_rows(
    rows: list[Row], points: list[tuple[int, bool]]
) -> None:
    connection = table(rows)
    ordered = connection.execute("SELECT c, k, s FROM t ORDER BY c, k, s").fetchall()
    chosen = sorted({(min(i, len(ordered) - 1), whole) for i, whole in points if ordered})
    ends = [position(ordered[i], whole) for i, whole in chosen]
    # A position that covers a whole value lies after every row of that value.
    ends.sort(key=lambda end: (int(end.cursor.text), not end.key, tuple(v.text for v in end.key)))
    last = RowPosition(Value(ValueKind.INT, "99"))
    found: list[Row] = []
    for lower, upper in pairwise([None, *ends, last]):
        assert upper is not None
        where = sql.between(source_table(), lower, upper, sqlite_engine.literal)
        part = connection.execute(f"SELECT c, k, s FROM t WHERE {where}").fetchall()
        found += part
    assert sorted(found) == sorted(rows)
    assert len(found) == len(rows)


@given(rows=ROWS, step=st.integers(1, 8))
def test_cuts_end_every_part_of_the_asked_for_size(rows: list[Row], step: int) -> None:
    connection = table(rows)
    cuts = connection.execute(sql.cuts(source_table(), "t", "c IS NOT NULL", step)).fetchall()
    ordered = connection.execute("SELECT c, k, s FROM t ORDER BY c, k, s").fetchall()
    numbers = sorted({*range(step, len(rows) + 1, step), len(rows)} - {0})
    assert [(n, int(c), int(k), s) for n, c, k, s in cuts] == [(n, *ordered[n - 1]) for n in numbers]


def test_the_readers_of_a_batch_meet_at_its_splits() -> None:
    first, second = position((1, 1, "a")), position((2, 2, "b"))
    batch = Batch((Window(None, second),), split_points=(first,))
    one, other = sql.splits(source_table(), batch, sqlite_engine.literal)
    assert one == sql.between(source_table(), None, first, sqlite_engine.literal)
    assert other == sql.between(source_table(), first, second, sqlite_engine.literal)
    nulls = Batch((Window(None, second),), nulls=True)
    assert sql.splits(source_table(), nulls, sqlite_engine.literal) == ['"c" IS NULL']


@given(st.text().filter(lambda text: "\0" not in text))
def test_e1_a_text_literal_holds_any_text(text: str) -> None:
    value = Value(ValueKind.TEXT, text) if text.isprintable() else Value(ValueKind.TEXT, "x")
    assert set(mysql_engine.literal(value)) <= set("_utf8mb4 X'0123456789abcdef")
    ((found,),) = sqlite3.connect(":memory:").execute(f"SELECT {sqlite_engine.literal(value)}").fetchall()
    assert found == value.text
    inside = postgresql_engine.literal(value)[2:-1]
    assert "'" not in inside.replace("\\\\", "").replace("\\'", "")


@given(st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_e1_a_quoted_name_ends_where_it_should(name: str) -> None:
    for quote, mark in (
        (mysql_engine.quote, "`"),
        (postgresql_engine.quote, '"'),
        (sqlite_engine.quote, '"'),
    ):
        quoted = quote(name)
        assert quoted[0] == quoted[-1] == mark
        assert mark not in quoted[1:-1].replace(mark * 2, "")
        # Quoting twice is not quoting once: nothing is ever taken for quoted already.
        assert quote(quoted) != quoted


def test_a13_a_mysql_bound_is_cut_at_six_digits_and_never_rounded() -> None:
    value = Value(ValueKind.TIMESTAMP, "2025-01-01 00:00:00.123456999")
    assert mysql_engine.literal(value) == "TIMESTAMP'2025-01-01 00:00:00.123456'"
