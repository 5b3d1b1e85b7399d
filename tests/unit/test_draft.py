from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.errors import ConfigError, SourceError
from tidegauge.model.identity import identify
from tidegauge.model.plan import draft_from_json, draft_to_json
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.model.spec import (
    Database,
    Engine,
    Lake,
    LakeTable,
    NullCursor,
    TableFlow,
    TableName,
    TableOptions,
)
from tidegauge.model.table import Cut, OrderedColumn, SourceTable, Survey
from tidegauge.plan.draft import batch_step, draft_table, find_window_start
from tidegauge.plan.identity import check_identity

FLOW = TableFlow(
    pipeline="p",
    name="t",
    source=Database("app", Engine.SQLITE, path=Path("/x.db")),
    table=TableName(None, "t"),
    output=LakeTable(Lake("lake", "/lake"), "t"),
    options=TableOptions(cursor="at"),
)


def shape_of(
    kind: ValueKind, *, cursor_kind: str = "timestamp", scale: int = 6, order: str = "at"
) -> SourceTable:
    return SourceTable(
        table=FLOW.table,
        options=FLOW.options,
        columns=(),
        cursor=OrderedColumn("at", order, "at", kind, nullable=False, scale=scale),
        cursor_kind=cursor_kind,
        key=(OrderedColumn("id", "id", "id", ValueKind.INT, nullable=False),),
        key_proven=True,
        source_id="server/t",
    )


def flow_with(**options: object) -> TableFlow:
    return replace(FLOW, options=replace(FLOW.options, **options))  # type: ignore[arg-type]


def at(text: str, kind: ValueKind = ValueKind.TIMESTAMP) -> RowPosition:
    return RowPosition(Value(kind, text))


def test_the_first_window_begins_at_the_beginning() -> None:
    assert find_window_start(FLOW, shape_of(ValueKind.TIMESTAMP), None) is None


@pytest.mark.parametrize(
    ("kind", "cursor_kind", "scale", "initial", "after"),
    [
        (ValueKind.TIMESTAMP, "timestamp", 6, "2025-01-01 00:00:00", "2024-12-31 23:59:59.999999"),
        (ValueKind.TIMESTAMP, "timestamp", 0, "2025-01-01", "2024-12-31 23:59:59"),
        (ValueKind.TIMESTAMPTZ, "timestamp", 3, "2025-01-01T10:00:00", "2025-01-01 09:59:59.999"),
        (ValueKind.DATE, "timestamp", 0, "2025-03-01", "2025-02-28"),
        (ValueKind.INT, "value", 0, "100", "99"),
        (ValueKind.TEXT, "timestamp", 0, "2025-01-01T00:00:00Z", "2024-12-31T23:59:59.999999999Z"),
        (ValueKind.TEXT, "timestamp", 0, "2025-01-01 00:00:00", "2024-12-31 23:59:59.999999999"),
        (ValueKind.TEXT, "value", 0, "m", "m"),
    ],
)
def test_initial_is_the_first_value_that_counts(
    kind: ValueKind, cursor_kind: str, scale: int, initial: str, after: str
) -> None:
    source_table = shape_of(kind, cursor_kind=cursor_kind, scale=scale)
    assert find_window_start(flow_with(initial=initial), source_table, None) == at(after, kind)


def test_an_initial_that_is_no_such_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="initial 'yesterday 00:00:00' is not a timestamp"):
        find_window_start(flow_with(initial="yesterday"), shape_of(ValueKind.TIMESTAMP), None)


@pytest.mark.parametrize(
    ("kind", "mark", "lookback", "after"),
    [
        (ValueKind.TIMESTAMP, "2025-01-01 00:00:05.25", timedelta(seconds=10), "2024-12-31 23:59:55.25"),
        (ValueKind.TEXT, "2025-01-01T00:30:00Z", timedelta(minutes=30), "2025-01-01T00:00:00Z"),
        (ValueKind.TIMESTAMP, "2025-01-01 00:00:05", timedelta(milliseconds=1), "2025-01-01 00:00:04"),
        (ValueKind.DATE, "2025-01-02", timedelta(hours=1), "2025-01-01"),
    ],
)
def test_lookback_goes_below_the_watermark_and_rounds_down(
    kind: ValueKind, mark: str, lookback: timedelta, after: str
) -> None:
    position = RowPosition(Value(kind, mark), (Value(ValueKind.INT, "7"),))
    assert find_window_start(flow_with(lookback=lookback), shape_of(kind), position) == at(after, kind)


def test_a_watermark_never_goes_back_while_lookback_reads_again() -> None:
    cuts = tuple(Cut(at(f"2025-01-01 00:00:0{second}"), 1) for second in range(3))
    survey = Survey(at("2025-01-01 00:00:08"), cuts)
    flow, source_table = flow_with(parallel=1, lookback=timedelta(seconds=9)), shape_of(ValueKind.TIMESTAMP)

    def again(watermark: RowPosition | None) -> list[bool]:
        made = draft_table(flow, source_table, None, survey, watermark=watermark)
        assert made.inputs[0].checked == survey.upto
        return [batch.rereads for batch in made.batches]

    assert again(None) == [False, False, False], "the first run moves it batch by batch"
    assert again(at("2025-01-01 00:00:01")) == [True, True, False]
    assert again(at("2025-01-01 00:00:02")) == [True, True, True], "what it was taken from is all there is"
    assert again(at("2025-01-01 00:00:07")) == [True, True, True], "the row it was taken from is gone"


def test_lookback_with_nothing_but_nulls_leaves_the_watermark_where_it_is() -> None:
    flow = flow_with(lookback=timedelta(seconds=9), null_cursor=NullCursor.INCLUDE)
    mark = at("2025-01-01 00:00:09")
    survey = Survey(at("2025-01-02 00:00:00"), rows_null=3)
    made = draft_table(flow, shape_of(ValueKind.TIMESTAMP), at("2025-01-01 00:00:00"), survey, watermark=mark)
    assert [(batch.nulls, batch.windows) for batch in made.batches] == [(True, (Window(mark, mark),))]


def test_a26_a_plan_ends_at_the_last_row_and_not_at_the_bound() -> None:
    last = RowPosition(Value(ValueKind.TIMESTAMP, "2025-01-31 00:00:00"), (Value(ValueKind.INT, "7"),))
    bound = at("2026-11-16 12:00:00")
    made = draft_table(FLOW, shape_of(ValueKind.TIMESTAMP), None, Survey(bound, (Cut(last, 3),), rows_null=1))
    [part] = made.inputs
    assert part.window == Window(None, last)
    assert part.checked == bound
    assert made.batches[-1].windows == (Window(None, last),)
    assert draft_from_json("p", "t", draft_to_json(made)).inputs == made.inputs


def test_lookback_over_a_number_is_refused() -> None:
    mark = at("5", ValueKind.INT)
    with pytest.raises(ConfigError, match="lookback needs"):
        find_window_start(
            flow_with(lookback=timedelta(seconds=1)), shape_of(ValueKind.INT, cursor_kind="value"), mark
        )


@given(
    rows=st.lists(st.integers(1, 9), max_size=30),
    parallel=st.integers(1, 5),
)
def test_batches_share_their_end_points_and_cover_the_window(rows: list[int], parallel: int) -> None:
    cuts = tuple(Cut(at(str(place), ValueKind.INT), count) for place, count in enumerate(rows))
    upto = cuts[-1].position if cuts else at("99", ValueKind.INT)
    made = draft_table(
        flow_with(parallel=parallel), shape_of(ValueKind.INT, cursor_kind="value"), None, Survey(upto, cuts)
    )
    edges: list[RowPosition | None] = [None]
    for batch in made.batches:
        [window] = batch.windows
        assert window.after == edges[-1]
        assert len(batch.split_points) < parallel
        edges += [*batch.split_points, window.upto]  # type: ignore[list-item]
    assert edges[1:] == [cut.position for cut in cuts]
    assert made.rows == sum(rows)
    assert draft_from_json("p", "t", draft_to_json(made)) == made


def test_a_batch_is_as_many_stretches_as_there_are_readers() -> None:
    assert batch_step(flow_with(batch_rows=10, parallel=3)) == 4


def test_nothing_new_is_a_draft_without_batches() -> None:
    made = draft_table(
        FLOW, shape_of(ValueKind.TIMESTAMP), at("2025-01-01 00:00:00"), Survey(at("2025-01-02 00:00:00"))
    )
    assert not made.batches
    assert made.inputs[0].window == Window(at("2025-01-01 00:00:00"), at("2025-01-01 00:00:00"))
    assert made.inputs[0].checked == at("2025-01-02 00:00:00")


def test_nothing_safe_yet_has_no_window_but_is_remembered() -> None:
    made = draft_table(
        FLOW, shape_of(ValueKind.INT, cursor_kind="value"), None, Survey(None, pending="later")
    )
    assert not made.batches
    assert made.inputs[0].window is None
    assert made.inputs[0].pending == "later"


def test_a10_rows_without_a_cursor_are_a_batch_of_their_own_when_included() -> None:
    end = at("2025-01-02 00:00:00")
    survey = Survey(end, (Cut(end, 3),), rows_null=2)
    made = draft_table(flow_with(null_cursor=NullCursor.INCLUDE), shape_of(ValueKind.TIMESTAMP), None, survey)
    assert [batch.nulls for batch in made.batches] == [False, True]
    assert made.batches[1].windows == (Window(end, end),)
    assert not [b for b in draft_table(FLOW, shape_of(ValueKind.TIMESTAMP), None, survey).batches if b.nulls]


def test_a10_a_table_of_nothing_but_rows_without_a_cursor_is_read_too() -> None:
    survey = Survey(None, rows_null=2)
    made = draft_table(flow_with(null_cursor=NullCursor.INCLUDE), shape_of(ValueKind.TIMESTAMP), None, survey)
    [batch] = made.batches
    assert batch.nulls
    assert batch.windows == (made.inputs[0].window,) == (Window(None, None),)
    assert draft_from_json("p", "t", draft_to_json(made)) == made


def test_a_watermark_is_not_used_for_another_order_or_another_table() -> None:
    source_table = shape_of(ValueKind.TIMESTAMP)
    check_identity(FLOW, source_table, None)
    check_identity(FLOW, source_table, identify(source_table))
    with pytest.raises(SourceError, match="cursor or key"):
        check_identity(FLOW, shape_of(ValueKind.TIMESTAMP, order="modified_at"), identify(source_table))
    with pytest.raises(SourceError, match="not the table"):
        check_identity(FLOW, replace(source_table, source_id="elsewhere/t"), identify(source_table))
