"""The window of a table that is read by a column."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tidegauge.errors import ConfigError, SourceError, TableReplaced
from tidegauge.model.delta_flow import DeltaInput, ReadByColumn, TableRef
from tidegauge.model.position import RowPosition, Value, ValueKind
from tidegauge.plan.by_column import ColumnReadState, check_not_lower, check_same, go_back, note_late

PART = DeltaInput("t", TableRef(name="s.t"), by_column=ReadByColumn("at"))


@pytest.mark.parametrize(
    ("kind", "text", "hours", "before"),
    [
        (ValueKind.INT, "7", 0, "6"),
        (ValueKind.DECIMAL, "7.50", 0, "7.49"),
        (ValueKind.DATE, "2025-03-01", 0, "2025-02-28"),
        (ValueKind.DATE, "2025-03-02", 2, "2025-02-28"),
        (ValueKind.TIMESTAMP, "2025-01-01 02:00:00", 2, "2024-12-31 23:59:59.999999"),
        (ValueKind.TIMESTAMPTZ, "2025-01-01 02:00:00.5", 0, "2025-01-01 02:00:00.499999"),
    ],
)
def test_everything_of_the_moment_where_the_lookback_ends_is_read_again(
    kind: ValueKind, text: str, hours: int, before: str
) -> None:
    scale = 2 if kind is ValueKind.DECIMAL else 6
    found = go_back(Value(kind, text), timedelta(hours=hours), scale, PART)
    assert (found.kind, found.text) == (kind, before)


def test_a_number_has_no_lookback() -> None:
    with pytest.raises(ConfigError, match="lookback needs a cursor of dates or timestamps"):
        go_back(Value(ValueKind.INT, "7"), timedelta(hours=1), 0, PART)


def test_what_is_remembered_comes_back_and_what_others_kept_is_nothing() -> None:
    kept = ColumnReadState("id 7", 2, ("5", 40), "abc by def")
    assert ColumnReadState.parse(str(kept)) == kept
    for other in (None, "", "set back", "0123 by 4567 whole", "[]", "7", "{}"):
        assert ColumnReadState.parse(other) == ColumnReadState()


def test_a_table_that_lies_below_its_watermark_is_refused() -> None:
    mark = RowPosition(Value(ValueKind.INT, "10"))
    check_not_lower("f", PART, mark, Value(ValueKind.INT, "10"))
    check_not_lower("f", PART, mark, None)
    check_not_lower("f", PART, None, Value(ValueKind.INT, "1"))
    with pytest.raises(TableReplaced, match=r"highest cursor of s.t is 9, and it was read up to 10"):
        check_not_lower("f", PART, mark, Value(ValueKind.INT, "9"))


def test_another_table_or_column_is_not_gone_on_with() -> None:
    check_same("f", PART, None, "s.t by at")
    check_same("f", PART, "s.t by at", "s.t by at")
    with pytest.raises(SourceError, match=r"its watermark was taken over s.t by id"):
        check_same("f", PART, "s.t by id", "s.t by at")


def test_rows_that_the_lookback_does_not_reach_are_counted() -> None:
    after = Value(ValueKind.INT, "5")
    for before in (None, ("5", 9), ("5", 10), ("4", 7)):
        assert note_late(PART, before, 9, after) == ()
    assert "2 rows came late, dated at or before 5" in note_late(PART, ("5", 7), 9, after)[0]
