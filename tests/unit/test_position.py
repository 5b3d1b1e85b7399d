"""Positions: lossless as text, and in the database's order wherever there is one."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tidegauge.errors import PositionError
from tidegauge.model.plan import Batch, Draft, InputPlan, draft_from_json, draft_to_body, draft_to_json
from tidegauge.model.position import (
    ORDERED,
    FilesPosition,
    Position,
    RowPosition,
    Value,
    ValueKind,
    VersionPosition,
    Window,
    decode,
    encode,
    step_down,
    to_json,
    to_moment,
    to_text,
)

# A driver hands over text that can be encoded: no half surrogate pairs.
TEXT = st.text(st.characters(codec="utf-8"), max_size=50)
INTS = st.integers(-(2**63), 2**64 - 1)
DECIMALS = st.decimals(
    allow_nan=False, allow_infinity=False, places=30, min_value=-(10**35), max_value=10**35
)
DATES = st.dates(date(1, 1, 2), date(9999, 12, 31))


@st.composite
def stamps(draw: st.DrawFn) -> tuple[datetime, str]:
    """A moment to the second, and a fraction of 0 to 9 digits."""
    moment = draw(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 31))).replace(microsecond=0)
    return moment, draw(st.text("0123456789", max_size=9))


def stamp_text(moment: datetime, fraction: str) -> str:
    whole = f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}"
    return f"{whole}.{fraction}" if fraction else whole


VALUES: dict[ValueKind, st.SearchStrategy[Value]] = {
    ValueKind.INT: INTS.map(lambda number: Value(ValueKind.INT, str(number))),
    ValueKind.DECIMAL: DECIMALS.map(lambda number: Value(ValueKind.DECIMAL, f"{number:f}")),
    ValueKind.DATE: DATES.map(lambda day: Value(ValueKind.DATE, day.isoformat())),
    ValueKind.TIMESTAMP: stamps().map(lambda stamp: Value(ValueKind.TIMESTAMP, stamp_text(*stamp))),
    ValueKind.TIMESTAMPTZ: stamps().map(lambda stamp: Value(ValueKind.TIMESTAMPTZ, stamp_text(*stamp))),
    ValueKind.TEXT: TEXT.map(lambda text: Value(ValueKind.TEXT, text)),
    ValueKind.BYTES: st.binary(max_size=40).map(lambda body: Value(ValueKind.BYTES, body.hex())),
}
ANY_VALUE = st.one_of(*VALUES.values())
ROWS = st.builds(RowPosition, ANY_VALUE, st.lists(ANY_VALUE, max_size=4).map(tuple))
POSITIONS: st.SearchStrategy[Position] = st.one_of(
    ROWS,
    st.integers(0, 2**63).map(VersionPosition),
    st.integers(0, 2**63).map(FilesPosition),
)


def test_every_kind_is_covered() -> None:
    assert set(VALUES) == set(ValueKind)
    assert set(ValueKind) - {ValueKind.TEXT, ValueKind.BYTES} == ORDERED


# --- round trip


@given(st.none() | POSITIONS)
@example(RowPosition(Value(ValueKind.INT, str(2**64 - 1))))
@example(RowPosition(Value(ValueKind.TEXT, 'a\0"\\\u2028🌊'), (Value(ValueKind.BYTES, "00"),)))
@example(RowPosition(Value(ValueKind.TIMESTAMP, "2025-08-14 15:30:22.999999999")))
@example(RowPosition(Value(ValueKind.TIMESTAMP, "0000-00-00 00:00:00")))
@example(RowPosition(Value(ValueKind.TIMESTAMPTZ, "294276-12-31 23:59:59.999999")))
def test_a13_text_gives_back_exactly_the_same_position(position: Position | None) -> None:
    text = encode(position)
    assert decode(text) == position
    assert encode(decode(text)) == text
    assert "\n" not in text
    assert "\0" not in text


@given(st.lists(POSITIONS, min_size=1, max_size=5), st.integers(0, 10**12), TEXT, st.booleans())
def test_a13_a_draft_comes_back_exactly_the_same(
    ends: list[Position], rows: int, note: str, nulls: bool
) -> None:
    windows = tuple(Window(None, end) for end in ends)
    part = InputPlan("t", "value", windows[0], "source", "print")
    one = Draft(
        "p",
        "f",
        (part, InputPlan("u", "value", None, "", "")),
        (Batch(windows, tuple(ends), rows, nulls), Batch(windows)),
        rows_null=rows,
        notes=(note,),
    )
    assert draft_from_json("p", "f", draft_to_json(one)) == one
    # The text is written by hand, and is what a document has.
    assert json.loads(draft_to_json(one)) == json.loads(json.dumps(draft_to_body(one)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "1",
        '"x"',
        "{}",
        '{"cursor": ["int", "x"], "key": []}',
        '{"cursor": ["nope", "1"], "key": []}',
        '{"cursor": ["int"], "key": []}',
        '{"cursor": ["int", "1"], "key": [1]}',
        '{"version": "1"}',
    ],
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(PositionError, match="not a "):
        decode(text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((ValueKind.INT, text) for text in ("", "-0", "01", "+1", "1.0", " 1", "1\n", "1e3", "٣", "1_000")),
        *(
            (ValueKind.DECIMAL, text)
            for text in ("", "NaN", "Infinity", "1,0", " 1", "1\n", "1_0", "٣", "--1", ".")
        ),
        *(
            (ValueKind.DATE, text)
            for text in ("", "2025-1-1", "20250101", "2025-01-01 00:00:00", "٢٠٢٥-01-01")
        ),
        *((ValueKind.TIMESTAMP, text) for text in ("", "2025-01-01", "2025-01-01T00:00:00")),
        *((ValueKind.TIMESTAMP, f"2025-01-01 00:00:00{text}") for text in ("+00", "Z", ".", ".1234567890")),
        *((ValueKind.BYTES, text) for text in ("0", "0G", "AB", "0x00")),
    ],
)
def test_a_value_that_is_not_of_its_kind_is_refused(kind: ValueKind, text: str) -> None:
    with pytest.raises(PositionError, match=f"is not a {kind.value}"):
        Value(kind, text)


# --- order


@given(INTS, INTS)
@example(2**63, 2**63 - 1)
@example(2**64 - 1, -1)
@example(9, 10)
def test_a18_integers_are_ordered_as_numbers(first: int, second: int) -> None:
    one, two = Value(ValueKind.INT, str(first)), Value(ValueKind.INT, str(second))
    assert (one < two, one <= two, one.same_point(two)) == (first < second, first <= second, first == second)


@given(DECIMALS, DECIMALS)
@example(Decimal("1.0"), Decimal("1.00"))
def test_decimals_are_ordered_as_numbers_however_many_digits(first: Decimal, second: Decimal) -> None:
    one, two = Value(ValueKind.DECIMAL, f"{first:f}"), Value(ValueKind.DECIMAL, f"{second:f}")
    assert (one < two, one <= two, one.same_point(two)) == (first < second, first <= second, first == second)


@given(DATES, DATES)
def test_dates_are_ordered_by_day(first: date, second: date) -> None:
    one, two = Value(ValueKind.DATE, first.isoformat()), Value(ValueKind.DATE, second.isoformat())
    assert (one < two, one.same_point(two)) == (first < second, first == second)


@given(st.sampled_from([ValueKind.TIMESTAMP, ValueKind.TIMESTAMPTZ]), stamps(), stamps(), st.booleans())
@example(ValueKind.TIMESTAMP, (datetime(2025, 1, 1), "1"), (datetime(2025, 1, 1), "100000000"), False)
@example(ValueKind.TIMESTAMP, (datetime(2025, 1, 1), "099999999"), (datetime(2025, 1, 1), "1"), False)
def test_a13_timestamps_are_ordered_to_the_nanosecond(
    kind: ValueKind, first: tuple[datetime, str], second: tuple[datetime, str], same_second: bool
) -> None:
    if same_second:
        second = (first[0], second[1])

    def nanoseconds(stamp: tuple[datetime, str]) -> tuple[datetime, int]:
        return stamp[0], int(stamp[1].ljust(9, "0"))

    one, two = Value(kind, stamp_text(*first)), Value(kind, stamp_text(*second))
    before, after = nanoseconds(first), nanoseconds(second)
    assert (one < two, one <= two, one.same_point(two)) == (before < after, before <= after, before == after)


def test_years_beyond_four_digits_come_after_those_within() -> None:
    assert Value(ValueKind.TIMESTAMP, "9999-12-31 23:59:59") < Value(
        ValueKind.TIMESTAMP, "10000-01-01 00:00:00"
    )
    assert Value(ValueKind.DATE, "9999-12-31") < Value(ValueKind.DATE, "10000-01-01")


@given(VALUES[ValueKind.TEXT], VALUES[ValueKind.TEXT], VALUES[ValueKind.BYTES])
def test_a19_text_and_bytes_are_never_compared_here(one: Value, two: Value, raw: Value) -> None:
    for first, second in ((one, two), (raw, raw)):
        for compare in (Value.__lt__, Value.__le__, Value.same_point):
            with pytest.raises(PositionError, match="in the database only"):
                compare(first, second)


@given(ANY_VALUE, ANY_VALUE)
def test_values_of_different_kinds_are_never_compared(one: Value, two: Value) -> None:
    assume(one.kind is not two.kind)
    with pytest.raises(PositionError, match="cannot be compared"):
        assert one < two


SMALL = st.builds(
    RowPosition,
    st.integers(0, 3).map(lambda number: Value(ValueKind.INT, str(number))),
    st.one_of(
        st.just(()),
        st.tuples(*[st.integers(0, 2).map(lambda number: Value(ValueKind.INT, str(number)))] * 2),
    ),
)


def rank(position: RowPosition) -> tuple[int, bool, tuple[int, ...]]:
    key = tuple(int(value.text) for value in position.key)
    return int(position.cursor.text), not key, key


@given(SMALL, SMALL)
def test_a1_row_positions_are_ordered_by_cursor_then_key_and_no_key_is_after_them_all(
    one: RowPosition, two: RowPosition
) -> None:
    assert (one < two) == (rank(one) < rank(two))
    assert (one <= two) == (rank(one) <= rank(two))


@given(st.lists(SMALL, max_size=8))
def test_row_positions_are_totally_ordered(positions: list[RowPosition]) -> None:
    assert [rank(one) for one in sorted(positions)] == sorted(rank(one) for one in positions)


def test_keys_of_different_lengths_are_not_compared() -> None:
    cursor, one = Value(ValueKind.INT, "1"), Value(ValueKind.INT, "2")
    with pytest.raises(PositionError, match="different lengths"):
        assert RowPosition(cursor, (one,)) < RowPosition(cursor, (one, one))


@given(st.integers(0, 2**63), st.integers(0, 2**63))
def test_versions_and_files_are_ordered_by_number(first: int, second: int) -> None:
    assert (VersionPosition(first) < VersionPosition(second)) == (first < second)
    assert (FilesPosition(first) < FilesPosition(second)) == (first < second)


# --- the next lower value


@given(INTS)
def test_the_next_lower_integer(number: int) -> None:
    assert step_down(Value(ValueKind.INT, str(number)), 0).text == str(number - 1)


@given(DATES)
def test_the_next_lower_date(day: date) -> None:
    assert step_down(Value(ValueKind.DATE, day.isoformat()), 0).text == (day - timedelta(days=1)).isoformat()


@given(st.sampled_from([ValueKind.TIMESTAMP, ValueKind.TIMESTAMPTZ]), stamps(), st.integers(0, 9))
@example(ValueKind.TIMESTAMP, (datetime(2025, 1, 1), ""), 0)
@example(ValueKind.TIMESTAMP, (datetime(2025, 1, 1), "9"), 0)
@example(ValueKind.TIMESTAMP, (datetime(2025, 1, 1), "000001"), 6)
@example(ValueKind.TIMESTAMP, (datetime(2025, 1, 1), "0000009"), 6)
@example(ValueKind.TIMESTAMP, (datetime(2025, 1, 1), ""), 9)
def test_a14_the_next_lower_timestamp_is_one_unit_of_the_columns_scale_below_the_cut(
    kind: ValueKind, stamp: tuple[datetime, str], scale: int
) -> None:
    moment, fraction = stamp
    value = Value(kind, stamp_text(moment, fraction))
    below = step_down(value, scale)
    assert below < value
    assert below.kind is kind
    whole, _, digits = below.text.partition(".")
    assert len(digits) == scale
    # Counted in units of the scale since the year 1: exactly one less than the value cut to that scale.
    units = _seconds(moment) * 10**scale + int((fraction.ljust(9, "0"))[:scale] or 0)
    assert _seconds(datetime.fromisoformat(whole)) * 10**scale + int(digits or 0) == units - 1


def _seconds(moment: datetime) -> int:
    return (moment - datetime(1, 1, 1)) // timedelta(seconds=1)


@pytest.mark.parametrize(
    "value",
    [
        Value(ValueKind.DATE, "0001-01-01"),
        Value(ValueKind.DATE, "10000-01-01"),
        Value(ValueKind.TIMESTAMP, "0001-01-01 00:00:00"),
        Value(ValueKind.TIMESTAMP, "0000-00-00 00:00:00"),
        Value(ValueKind.TIMESTAMP, "294276-12-31 23:59:59"),
        Value(ValueKind.TEXT, "a"),
        Value(ValueKind.BYTES, "00"),
        Value(ValueKind.DECIMAL, "1.0"),
    ],
    ids=str,
)
def test_where_there_is_no_next_lower_value_it_is_said(value: Value) -> None:
    with pytest.raises(PositionError, match="no next lower"):
        step_down(value, 0)


# --- as people see it


@pytest.mark.parametrize(
    ("position", "cursor", "stamp", "at"),
    [
        (
            RowPosition(Value(ValueKind.TIMESTAMP, "2026-01-01 10:00:00.1234569")),
            "timestamp",
            None,
            "10:00:00.123456",
        ),
        (RowPosition(Value(ValueKind.TIMESTAMPTZ, "2026-01-01 10:00:00")), "timestamp", None, "10:00:00"),
        (RowPosition(Value(ValueKind.DATE, "2026-01-01")), "timestamp", None, "00:00:00"),
        (RowPosition(Value(ValueKind.TEXT, "2026-01-01")), "timestamp", None, "00:00:00"),
        (RowPosition(Value(ValueKind.TEXT, "2026-01-01Z")), "timestamp", None, "00:00:00"),
        (RowPosition(Value(ValueKind.TEXT, "2026-01-01T10:30")), "timestamp", None, "10:30:00"),
        (RowPosition(Value(ValueKind.TEXT, "2026-01-01 10:30:01.5Z")), "timestamp", None, "10:30:01.500000"),
        (RowPosition(Value(ValueKind.TEXT, "2026-01-01T10:30:01+02:00")), "timestamp", None, "08:30:01"),
        (RowPosition(Value(ValueKind.TEXT, "2026-01-01")), "value", None, None),
        (RowPosition(Value(ValueKind.TEXT, "01.01.2026")), "timestamp", None, None),
        (RowPosition(Value(ValueKind.TEXT, "2026-02-30")), "timestamp", None, None),
        (RowPosition(Value(ValueKind.TIMESTAMP, "12026-01-01 10:00:00")), "timestamp", None, None),
        (RowPosition(Value(ValueKind.INT, "20260101")), "value", "2026-01-01T10:00:00", None),
        (VersionPosition(3), "version", "2026-01-01T10:00:00.000001+00:00", "10:00:00.000001"),
        (VersionPosition(3), "version", None, None),
        (FilesPosition(3), "files", "2026-01-01T10:00:00", "10:00:00"),
        (None, "version", "2026-01-01T10:00:00", None),
    ],
)
def test_f3_when_a_position_was(
    position: Position | None, cursor: str, stamp: str | None, at: str | None
) -> None:
    expected = None if at is None else datetime.fromisoformat(f"2026-01-01T{at}")
    assert to_moment(position, cursor, stamp) == expected


def test_positions_as_json_and_as_text() -> None:
    row = RowPosition(
        Value(ValueKind.TIMESTAMP, "2025-08-14 15:30:22.123456"), (Value(ValueKind.INT, "1042"),)
    )
    assert to_json(row) == {"cursor": "2025-08-14 15:30:22.123456", "key": ["1042"]}
    assert to_json(RowPosition(row.cursor)) == {"cursor": "2025-08-14 15:30:22.123456", "key": []}
    assert (to_json(None), to_json(VersionPosition(7)), to_json(FilesPosition(8))) == (None, 7, 8)
    assert to_text(row) == "2025-08-14 15:30:22.123456 · 1042"
    assert (to_text(None), to_text(VersionPosition(7)), to_text(FilesPosition(8))) == (
        "the beginning",
        "version 7",
        "batch 8",
    )
    assert Window(None, row).to_json() == {"after": None, "upto": to_json(row)}
