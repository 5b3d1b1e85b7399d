"""Whether a column of a target holds what is brought: lengths, fractions of seconds, and types that Spark
does not have, which a target filled from MySQL keeps (`Field.through`)."""

from __future__ import annotations

import re

from tidegauge.model.table import Field
from tidegauge.model.types import parse_decimal
from tidegauge.outputs.warehouse import fit

LENGTH = re.compile(r"\((\d+)\)")
_BYTES = {
    "tinytext": 255,
    "text": 65_535,
    "tinyblob": 255,
    "blob": 65_535,
    "mediumtext": 2**24 - 1,
    "mediumblob": 2**24 - 1,
}

TIME = re.compile(r"time(?:\((\d)\))?")
_WIDEST = 38


def fit_through(plain: str, wanted: str) -> fit.Fit:
    held, brought = TIME.fullmatch(plain), TIME.fullmatch(wanted)
    if plain == wanted or (held and brought and int(held[1] or 0) >= int(brought[1] or 0)):
        return fit.Fit(fit.FitVerdict.HOLDS)
    return fit.Fit(fit.FitVerdict.WIDEN, wanted) if held and brought else fit.Fit(fit.FitVerdict.REFUSED)


def fit_wide(plain: str, field: Field) -> fit.Fit | None:
    """The fit where a decimal has more digits than Spark's 38; None where neither side is such a decimal."""
    held = parse_decimal(plain)
    brought = parse_decimal(field.through or field.type)
    if held is None or brought is None or max(held.precision, brought.precision) <= _WIDEST:
        return None
    whole, scale = held.whole - brought.whole, held.scale - brought.scale
    if whole >= 0 and scale >= 0:
        return fit.Fit(fit.FitVerdict.HOLDS)
    if whole <= 0 and scale <= 0:
        return fit.Fit(fit.FitVerdict.WIDEN, f"decimal({brought.precision},{brought.scale})")
    return fit.Fit(fit.FitVerdict.REFUSED)


def is_fine_enough(plain: str, field: Field) -> bool | None:
    """Whether a time column keeps the microseconds of the field; None for other kinds of columns."""
    if plain.startswith("datetime") and field.type in ("timestamp", "timestamp_ntz"):
        return plain == "datetime(6)"
    if plain.startswith("timestamp") and field.type == "timestamp":
        return plain == "timestamp(6)"
    return None


def is_long_enough(held: Field, plain: str, field: Field) -> bool | None:
    """Whether a column with a limit in bytes has room for the length that the source states; None where it
    has no such limit."""
    stated = LENGTH.search(field.source_type)
    if held.type == field.type == "binary" and (limit := _byte_limit(plain)) is not None:
        return stated is not None and int(stated[1]) <= limit
    if held.type == field.type == "string" and plain in _BYTES:
        return stated is not None and 4 * int(stated[1]) <= _BYTES[plain]
    return None


def _byte_limit(plain: str) -> int | None:
    if plain in _BYTES:
        return _BYTES[plain]
    match = LENGTH.search(plain) if plain.startswith("varbinary") else None
    return int(match[1]) if match else None
