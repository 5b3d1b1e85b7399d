"""The canonical text of a value, and the hash of a row's texts: the same wherever they are computed.

`compare.blocks` has the SQL of each engine that computes it; this module defines it in Python. SQLite runs in
this process and calls these functions. The texts of a row are joined by commas:

- numbers in plain digits at a fixed scale, booleans as 1 and 0
- dates as days, timestamps as microseconds since 1970, in UTC
- floats as their shortest digits, as PostgreSQL writes them; −0.0 is 0, and any NaN is NaN
- text as it is, after its length in bytes and a colon; NULL as the colon alone
- bytes as hexadecimal digits after an x
- NULL of any other type as nothing
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from enum import StrEnum
from functools import lru_cache
from typing import Any

from tidegauge.model.types import INTEGER_DIGITS, parse_decimal

DIGITS = 15
"""Hexadecimal digits of the MD5 that are used: 60 bits, which fit a signed integer of every engine."""
SQL_TEXT, SQL_HASH, SQL_TOTAL = "tidegauge_text", "tidegauge_hash", "tidegauge_total"
SQL_SHA256 = "tidegauge_sha256"
"""Names of the functions that `add_functions` adds to a SQLite connection."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_EXACT = Context(prec=120, traps=[Inexact, InvalidOperation])
_PLAIN_FROM, _PLAIN_BELOW = -4, 15
"""Powers of ten between which PostgreSQL writes a float without an exponent."""


class FormKind(StrEnum):
    NUMBER = "number"
    FLOAT = "float"
    TEXT = "text"
    BYTES = "bytes"
    DAYS = "days"
    MICROS = "micros"


@dataclass(frozen=True)
class CanonicalForm:
    """How a column is written for hashing, independent of its types in source and target."""

    kind: FormKind
    scale: int = 0
    """Digits after the decimal point of a NUMBER."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.scale}"


def form_of(here: str, there: str) -> CanonicalForm | None:
    """Return the form in which columns of these Spark types hash alike; None: their rows must be compared."""
    if here == there and here in _SAME:
        return _SAME[here]
    one, other = _scale(here), _scale(there)
    if one is not None and other is not None:
        return CanonicalForm(FormKind.NUMBER, max(one, other))
    pair = {here, there}
    if pair <= {"float", "double"}:
        return CanonicalForm(FormKind.FLOAT)
    # A target without a type for instants holds them as wall-clock digits in UTC.
    return CanonicalForm(FormKind.MICROS) if pair == {"timestamp", "timestamp_ntz"} else None


_SAME = {
    "string": CanonicalForm(FormKind.TEXT),
    "binary": CanonicalForm(FormKind.BYTES),
    "date": CanonicalForm(FormKind.DAYS),
    "timestamp": CanonicalForm(FormKind.MICROS),
    "timestamp_ntz": CanonicalForm(FormKind.MICROS),
}


def _scale(kind: str) -> int | None:
    size = parse_decimal(kind)
    if size is not None:
        return size.scale
    return 0 if kind in INTEGER_DIGITS or kind == "boolean" else None


def hash_row(forms: Sequence[CanonicalForm], values: Sequence[Any]) -> int:
    return hash_text(row_text(forms, values))


def hash_text(text: str) -> int:
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:DIGITS], 16)


def row_text(forms: Sequence[CanonicalForm], values: Sequence[Any]) -> str:
    return ",".join(value_text(form, value) for form, value in zip(forms, values, strict=True))


def value_text(form: CanonicalForm, value: Any) -> str:
    """Return the text of a value from Arrow or SQLite. Raises ValueError if it does not fit the form."""
    match form.kind:
        case FormKind.TEXT:
            return ":" if value is None else f"{len(value.encode())}:{value}"
        case _ if value is None:
            return ""
        case FormKind.NUMBER:
            return _number_text(value, form.scale)
        case FormKind.FLOAT:
            return _float_text(float(value))
        case FormKind.BYTES:
            return "x" + bytes(value).hex()
        case FormKind.DAYS:
            return str(_days(value))
        case FormKind.MICROS:
            return str(_micros(value))


def add_functions(connection: Any) -> None:
    """Give a connection of Python's sqlite3 the functions that `compare.blocks.sqlite` and masks call."""
    connection.create_function(SQL_TEXT, -1, _sql_text, deterministic=True)
    connection.create_function(SQL_HASH, 1, hash_text, deterministic=True)
    connection.create_function(SQL_SHA256, 1, _sha256, deterministic=True)
    connection.create_aggregate(SQL_TOTAL, 1, _Total)


def _sha256(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


class _Total:
    """A SUM without SQLite's limit of 64 bits."""

    def __init__(self) -> None:
        self._total = 0

    def step(self, value: int | None) -> None:
        self._total += value or 0

    def finalize(self) -> str:
        return str(self._total)


def _sql_text(forms: str, *values: Any) -> str:
    return row_text(_read_forms(forms), values)


@lru_cache(maxsize=256)
def _read_forms(text: str) -> tuple[CanonicalForm, ...]:
    pairs = (one.split(":") for one in text.split(" "))
    return tuple(CanonicalForm(FormKind(kind), int(scale)) for kind, scale in pairs)


def _number_text(value: Any, scale: int) -> str:
    if isinstance(value, int):
        value = int(value)  # turns a boolean into 0 or 1
        if not scale:
            return str(value)
    # Only SQLite gives floats here. It keeps up to 15 digits exactly: the shortest text is what was written.
    exact = value if isinstance(value, Decimal) else Decimal(str(value))
    fixed = _EXACT.quantize(exact, Decimal(1).scaleb(-scale))
    return format(fixed if fixed else abs(fixed), "f")


def _float_text(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if not value:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, minus = "".join(map(str, digits)), "-" if sign else ""
    power = exponent + len(text) - 1
    if _PLAIN_FROM <= power < _PLAIN_BELOW:
        return minus + format(Decimal((0, digits, exponent)), "f")
    point = "." if len(text) > 1 else ""
    return f"{minus}{text[0]}{point}{text[1:]}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _days(value: Any) -> int:
    if isinstance(value, str):
        value = date.fromisoformat(value)
    return int(value) if isinstance(value, int) else int(value.toordinal()) - _EPOCH_DAY


def _micros(value: Any) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        bare = value.removesuffix("Z").removesuffix("+00:00")
        whole, point, fraction = bare.partition(".")
        value = datetime.fromisoformat(f"{whole}.{fraction:0<6}" if point else whole)
    moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return int((moment - _EPOCH) // _MICROSECOND)
