"""Positions as people write them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.output_parts import SHAPE
from tidegauge.errors import ConfigError
from tidegauge.flows.override.position import check_fits, from_text, from_timestamp
from tidegauge.model.position import RowPosition, Value, ValueKind, VersionPosition, compare
from tidegauge.model.table import SourceTable


def source_table(kind: ValueKind, *, scale: int = 6, of: str = "timestamp") -> SourceTable:
    return replace(SHAPE, cursor=replace(SHAPE.cursor, kind=kind, scale=scale), cursor_kind=of)


def value(kind: ValueKind, text: str) -> RowPosition:
    return RowPosition(Value(kind, text))


@pytest.mark.parametrize(
    ("kind", "scale", "given", "read"),
    [
        (ValueKind.TIMESTAMP, 6, "2025-08-01 00:00:00", "2025-08-01 00:00:00"),
        (ValueKind.TIMESTAMP, 6, "2025-08-01", "2025-08-01 00:00:00"),
        (ValueKind.TIMESTAMP, 6, "2025-08-01T10:20", "2025-08-01 10:20:00"),
        (ValueKind.TIMESTAMP, 6, "2025-08-01 10:20:30.123456", "2025-08-01 10:20:30.123456"),
        (ValueKind.TIMESTAMP, 3, "2025-08-01 10:20:30.999999", "2025-08-01 10:20:30.999"),
        (ValueKind.TIMESTAMP, 0, "2025-08-01 10:20:30.999999", "2025-08-01 10:20:30"),
        (ValueKind.TIMESTAMPTZ, 6, "2025-08-01 10:20:30.5+02:00", "2025-08-01 08:20:30.5"),
        (ValueKind.TIMESTAMPTZ, 6, "2025-08-01T00:00:00Z", "2025-08-01 00:00:00"),
        (ValueKind.DATE, 0, "2025-08-01", "2025-08-01"),
        (ValueKind.DATE, 0, "2025-08-01 00:00:00", "2025-08-01"),
    ],
)
def test_a13_a_moment_is_read_at_the_precision_of_its_column(
    kind: ValueKind, scale: int, given: str, read: str
) -> None:
    assert from_timestamp(source_table(kind, scale=scale), given, None) == value(kind, read)


@pytest.mark.parametrize(
    ("like", "read"),
    [
        ("2030-01-01 00:00:00", "2025-08-01 10:20:30"),
        ("2030-01-01T00:00:00", "2025-08-01T10:20:30"),
        ("2030-01-01 00:00:00.000", "2025-08-01 10:20:30.120"),
        ("2030-01-01T00:00:00.000000Z", "2025-08-01T10:20:30.120000Z"),
        ("2030-01-01T00:00:00+00:00", "2025-08-01T10:20:30+00:00"),
        ("2030-01-01 00:00", "2025-08-01 10:20"),
        ("2030-01-01", "2025-08-01"),
        (None, "2025-08-01 10:20:30.12"),
    ],
)
def test_a_moment_kept_as_text_is_written_as_the_column_writes_it(like: str | None, read: str) -> None:
    seen = Value(ValueKind.TEXT, like) if like else None
    found = from_timestamp(source_table(ValueKind.TEXT), "2025-08-01 10:20:30.12", seen)
    assert found == value(ValueKind.TEXT, read)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (ValueKind.TIMESTAMP, "now"),
        (ValueKind.TIMESTAMP, "2025-02-30"),
        (ValueKind.TIMESTAMP, "2025-08-01 25:00:00"),
        (ValueKind.TIMESTAMP, "2025-08-01 00:00:00+02:00"),
        (ValueKind.DATE, "2025-08-01 10:00:00"),
        (ValueKind.TIMESTAMPTZ, "0001-01-01 00:00:00+14:00"),
        (ValueKind.TEXT, "1.8.2025"),
    ],
)
def test_what_is_no_moment_of_the_column_is_refused(kind: ValueKind, given: str) -> None:
    with pytest.raises(ConfigError, match=r"shop\.orders: .*at") as refused:
        from_timestamp(source_table(kind), given, None)
    assert given in refused.value.message
    assert refused.value.hint


def test_a_position_is_a_plain_value_or_as_json_shows_it() -> None:
    ids = source_table(ValueKind.INT, of="value")
    assert from_text(ids, "18446744073709551615", None) == value(ValueKind.INT, "18446744073709551615")
    assert from_text(ids, "null", None) is None
    decimals = source_table(ValueKind.DECIMAL, of="value")
    assert from_text(decimals, "0.10000000000000000001", None) == value(
        ValueKind.DECIMAL, "0.10000000000000000001"
    )
    words = source_table(ValueKind.TEXT, of="value")
    assert from_text(words, "abc", None) == from_text(words, '"abc"', None) == value(ValueKind.TEXT, "abc")
    keyed = RowPosition(Value(ValueKind.INT, "7"), (Value(ValueKind.INT, "9"),))
    assert from_text(ids, '{"cursor": 7, "key": ["9"]}', None) == keyed
    moments = from_text(
        source_table(ValueKind.TIMESTAMP), '{"cursor": "2025-01-01T00:00:00", "key": [9]}', None
    )
    assert moments == RowPosition(
        Value(ValueKind.TIMESTAMP, "2025-01-01 00:00:00"), (Value(ValueKind.INT, "9"),)
    )


@pytest.mark.parametrize("given", ["true", "[7]", "{}", '{"cursor": null}', '{"cursor": 1, "key": 2}', "7.0"])
def test_what_is_no_position_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"shop\.orders"):
        from_text(source_table(ValueKind.INT, of="value"), given, None)


def test_positions_of_other_columns_do_not_fit() -> None:
    fits = RowPosition(Value(ValueKind.TIMESTAMP, "2025-01-01 00:00:00"), (Value(ValueKind.INT, "1"),))
    assert check_fits(SHAPE, fits, "x") == fits
    assert check_fits(SHAPE, None, "x") is None
    for other in (
        value(ValueKind.INT, "1"),
        replace(fits, key=(Value(ValueKind.TEXT, "1"),)),
        replace(fits, key=(*fits.key, *fits.key)),
        VersionPosition(3),
    ):
        with pytest.raises(ConfigError, match="the export"):
            check_fits(SHAPE, other, "the export")


def test_positions_are_compared_only_where_their_order_is_known() -> None:
    one, two = value(ValueKind.INT, "9"), value(ValueKind.INT, "10")
    assert compare(one, two, moments=False) == -1
    assert compare(two, one, moments=False) == 1
    assert compare(one, one, moments=False) == 0
    assert compare(None, one, moments=False) == -1
    assert compare(one, None, moments=False) == 1
    early, late = value(ValueKind.TEXT, "2025-01-01"), value(ValueKind.TEXT, "2025-01-02")
    assert compare(early, late, moments=True) == -1
    assert compare(early, late, moments=False) is None
    assert compare(one, early, moments=True) is None
    keyed = replace(one, key=(Value(ValueKind.TEXT, "a"),))
    assert compare(keyed, replace(one, key=(Value(ValueKind.TEXT, "b"),)), moments=False) is None
    assert compare(keyed, two, moments=False) == -1
