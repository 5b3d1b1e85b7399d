from __future__ import annotations

import pytest

from tidegauge.model.position import Value, ValueKind
from tidegauge.sources.notation import read_patterns
from tidegauge.sources.statement import show_head


def moment(text: str) -> Value:
    return Value(ValueKind.TIMESTAMP, text)


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("0000-00-00 00:00:00", "2025-06-01 11:59:59"),
        ("0000-00-00T00:00:00Z", "2025-06-01T11:59:59Z"),
        ("0000-00-00T00:00:00.000+00:00", "2025-06-01T11:59:59.123+00:00"),
        ("0000-00-00 00:00:00.000000000", "2025-06-01 11:59:59.123456000"),
        ("0000-00-00 00:00", "2025-06-01 11:58"),
        ("0000-00-00", "2025-05-31"),
    ],
)
def test_a_bound_is_written_in_the_columns_notation_and_is_over(pattern: str, written: str) -> None:
    notation = read_patterns([pattern])
    assert notation is not None
    assert notation.write_bound(moment("2025-06-01 11:59:59.123456")).text == written


def test_fractions_of_different_length_are_one_notation_when_nothing_follows_them() -> None:
    notation = read_patterns(["0000-00-00 00:00:00", "0000-00-00 00:00:00.000000"])
    assert notation is not None
    assert notation.digits == 6
    assert read_patterns(["0000-00-00 00:00:00Z", "0000-00-00 00:00:00.000000Z"]) is None


@pytest.mark.parametrize(
    "patterns", [[], ["soon"], ["0000-00-00 00:00:00+02:00"], ["0000-00-00", "0000-00-00 00:00:00"]]
)
def test_what_has_no_one_notation_has_none(patterns: list[str]) -> None:
    assert read_patterns(patterns) is None


@pytest.mark.parametrize(
    ("text", "follows"),
    [
        ("2025-01-01 00:00:00", True),
        ("2025-01-01 00:00:00.5", True),
        ("2025-01-01", True),
        ("2025-01-01T00:00:00", False),
        ("2025-01-01 00:00:00Z", False),
        ("2025-01-01 00:00:00+02:00", False),
        ("abc", False),
    ],
)
def test_a_position_in_another_notation_is_noticed(text: str, follows: bool) -> None:
    notation = read_patterns(["0000-00-00 00:00:00"])
    assert notation is not None
    assert notation.follows(text) is follows


def test_e3_the_head_of_a_statement_shows_no_values() -> None:
    said = show_head(
        "UPDATE users SET token = 'se''cret', pin=1234,\n name = \"Bob\" WHERE id IN (7, 8) AND x = 'cut off"
    )
    assert said.startswith(": UPDATE users SET token = ?, pin=?, name = ? WHERE id IN (")
    for secret in ("cret", "1234", "Bob", "cut off"):
        assert secret not in said
    assert show_head(None) == ""
