"""The text that stands for a row, and what it must tell apart."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tidegauge.compare.blocks.side import Side
from tidegauge.compare.blocks.sqlite import SqliteHash
from tidegauge.compare.blocks.words import HashedColumn
from tidegauge.errors import OutputError
from tidegauge.model.canonical import (
    CanonicalForm,
    FormKind,
    add_functions,
    form_of,
    hash_row,
    row_text,
    value_text,
)

NUMBER, TWO = CanonicalForm(FormKind.NUMBER), CanonicalForm(FormKind.NUMBER, 2)
FLOAT, TEXT, BYTES = (
    CanonicalForm(FormKind.FLOAT),
    CanonicalForm(FormKind.TEXT),
    CanonicalForm(FormKind.BYTES),
)
DAYS, MICROS = CanonicalForm(FormKind.DAYS), CanonicalForm(FormKind.MICROS)


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (NUMBER, True, "1"),
        (NUMBER, -(2**63), "-9223372036854775808"),
        (TWO, 5, "5.00"),
        (TWO, Decimal("-0.1"), "-0.10"),
        (TWO, Decimal("-0"), "0.00"),
        (TWO, 1.1, "1.10"),
        (TWO, "12.3", "12.30"),
        (FLOAT, -0.0, "0"),
        (FLOAT, float("nan"), "NaN"),
        (FLOAT, float("-inf"), "-Infinity"),
        (FLOAT, 0.1, "0.1"),
        (FLOAT, 1e15, "1e+15"),
        (FLOAT, 123456789012345.0, "123456789012345"),
        (FLOAT, -1.5e-5, "-1.5e-05"),
        (FLOAT, 0.0001, "0.0001"),
        (FLOAT, 5e-324, "5e-324"),
        (TEXT, "é,", "3:é,"),
        (TEXT, "", "0:"),
        (TEXT, None, ":"),
        (BYTES, b"", "x"),
        (BYTES, b"\0\xff", "x00ff"),
        (BYTES, None, ""),
        (DAYS, date(1969, 12, 31), "-1"),
        (DAYS, "1970-01-02", "1"),
        (MICROS, datetime(1970, 1, 1, 0, 0, 1, 1, UTC), "1000001"),
        (MICROS, "1970-01-01T00:00:00.5Z", "500000"),
        (MICROS, datetime(1, 1, 1), "-62135596800000000"),
    ],
)
def test_a_value_has_one_text(form: CanonicalForm, value: Any, text: str) -> None:
    assert value_text(form, value) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [((None, ""), ("", None)), (("a,1:b", "c"), ("a", "b,c")), (("1:", ""), ("1", ":")), (("a ",), ("a",))],
)
def test_no_two_rows_of_text_have_the_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert row_text([TEXT] * len(one), one) != row_text([TEXT] * len(other), other)


@pytest.mark.parametrize(
    ("here", "there", "form"),
    [
        ("int", "bigint", NUMBER),
        ("boolean", "tinyint", NUMBER),
        ("int", "decimal(12,2)", TWO),
        ("decimal(5,1)", "decimal(12,2)", TWO),
        ("float", "double", FLOAT),
        ("timestamp", "timestamp_ntz", MICROS),
        ("date", "timestamp_ntz", None),
        ("string", "int", None),
        ("binary", "string", None),
        ("int", "", None),
    ],
)
def test_two_types_are_hashed_alike_or_not_at_all(here: str, there: str, form: CanonicalForm | None) -> None:
    assert form_of(here, there) == form


def test_a_sum_of_many_hashes_does_not_overflow_and_a_row_that_has_none_is_an_error() -> None:
    connection = sqlite3.connect(":memory:")
    add_functions(connection)
    connection.execute("CREATE TABLE t (id, word)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, f"w{n}") for n in range(500)])
    words = SqliteHash()
    key = HashedColumn("id", "bigint", NUMBER)
    row = words.hash([key, HashedColumn("word", "string", TEXT)])
    side = Side(lambda sql: connection.execute(sql).fetchall(), words, "t", "1 = 1", row, words.hash([key]))
    meant = [hash_row([NUMBER, TEXT], [n, f"w{n}"]) for n in range(500)]
    assert side.whole().total == sum(meant) > 2**63
    blocks = side.blocks(7, [hash_row([NUMBER], [3])])
    assert sum(block.rows for block in blocks.values()) == 499
    guarded = Side(side.ask, words, "t", "1 = 1", row, side.key, guard="id = 4")
    with pytest.raises(OutputError):
        guarded.whole()
