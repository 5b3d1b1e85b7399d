"""Rows with the edge values of every type that can be moved, and a form in which to compare them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from tests.support.warehouses import layout_of

TEXTS = (
    "",
    " ",
    "NULL",
    "\\N",
    "tab\tline\nreturn\rslash\\quote'\"`%s:name?",
    "é ß 漢字 😀\U0010ffff",
    "x" * 100_000,
)
BYTES = (b"", b"\0", bytes(range(256)), b"\\N\t\n", b"\xff" * 70_000)
CORNERS: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "tinyint": (-128, 127, 0),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "float": (
        0.0,
        -0.0,
        1.5,
        struct.unpack("f", b"\xff\xff\x7f\x7f")[0],
        1.401298464324817e-45,
        0.10000000149011612,
    ),
    "double": (0.0, -0.0, 0.1, 1.7976931348623157e308, 5e-324, 123456789.12345679, -2.2250738585072014e-308),
    "string": TEXTS,
    "binary": BYTES,
    "date": (date(1, 1, 1), date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)),
    "timestamp": (
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2025, 3, 30, 1, 30, 0, 1, UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    ),
    "timestamp_ntz": (
        datetime(1, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(2025, 3, 30, 2, 30, 0, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
    ),
    "decimal(1,0)": (Decimal(-9), Decimal(0), Decimal(9)),
    "decimal(4,4)": (Decimal("0.0001"), Decimal("-0.9999")),
    "decimal(12,2)": (Decimal("9999999999.99"), Decimal("-0.01"), Decimal("100.10")),
    "decimal(18,5)": (Decimal("9999999999999.99999"), Decimal("-1.00001")),
    "decimal(20,0)": (Decimal(2**64 - 1), Decimal(-(2**63)), Decimal(2**63), Decimal(10**20 - 1)),
    "decimal(38,0)": (Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(0)),
    "decimal(38,10)": (Decimal("-1234567890123456789012345678.0123456789"), Decimal("0.0000000001")),
    "decimal(38,30)": (Decimal("99999999.999999999999999999999999999999"), Decimal("-1e-30")),
}
NOT_A_NUMBER = (math.nan, math.inf, -math.inf)

LAYOUT = layout_of(("id", "bigint"), *((f"c {kind}", kind) for kind in CORNERS))
_ROWS = max(map(len, CORNERS.values())) + 1
ROWS: list[tuple[Any, ...]] = [
    (number, *(values[number] if number < len(values) else None for values in CORNERS.values()))
    for number in range(_ROWS)
]
"""Rows with every edge value; each column also has at least one NULL."""


def bits(row: Sequence[Any]) -> list[Any]:
    """Return a row with its floats as bytes, so that -0.0 differs from 0.0."""
    forms = {"float": "f", "double": "d"}
    return [
        struct.pack(forms[field.type], value) if isinstance(value, float) else value
        for field, value in zip(LAYOUT.fields, row, strict=True)
    ]
