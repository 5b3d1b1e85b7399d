"""Whether a column that is there can hold what a source column brings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from tidegauge.model.table import Field
from tidegauge.model.types import INTEGER_DIGITS, holds, parse_decimal

_LENGTH = re.compile(r"\((\d+)\)")
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_FLOATS = ("float", "double")


class FitVerdict(StrEnum):
    HOLDS = "holds"
    """The column holds every value of the field."""
    WIDEN = "widen"
    """The column holds every value once it has the type in `Fit.type`."""
    NARROW = "narrow"
    """The column holds most values and cannot be changed: a value that `misfit` finds stops the batch."""
    REFUSED = "refused"
    """The column is of another kind and cannot be used for the field."""


@dataclass(frozen=True)
class Fit:
    verdict: FitVerdict
    type: str = ""


def by_type(held: Field, field: Field, wanted: str) -> Fit:
    """The fit by Spark's types; where the column limits the length of text, by the length of the source's
    column. `wanted`: the type to widen to."""
    limit = length(held)
    if limit is not None and field.type == "string":
        brought = length(field)
        return Fit(FitVerdict.HOLDS) if brought and brought <= limit else Fit(FitVerdict.WIDEN, wanted)
    if holds(held.type, field.type):
        return Fit(FitVerdict.HOLDS)
    if same_kind(held.type, field.type):
        return Fit(FitVerdict.WIDEN, wanted) if holds(field.type, held.type) else Fit(FitVerdict.NARROW)
    return Fit(FitVerdict.REFUSED)


def same_kind(held: str, brought: str) -> bool:
    """Whether the two types have values in common: both are exact numbers, or both are floats."""
    if _digits(held) and _digits(brought):
        return True
    return held in _FLOATS and brought in _FLOATS


def length(held: Field) -> int | None:
    """The longest text that a column holds, 20 for `varchar(20)`; None where there is no limit."""
    match = _LENGTH.search(held.source_type)
    return int(match[1]) if match and held.type == "string" else None


def misfit(held: Field, value: str) -> str:
    if held.type in _BITS:
        top = 2 ** _BITS[held.type]
        return f"({value} < -{top} OR {value} > {top - 1} OR {value} <> ROUND({value}, 0))"
    if digits := _digits(held.type):
        precision, scale = digits
        return f"(ABS({value}) >= 1{'0' * (precision - scale)} OR {value} <> ROUND({value}, {scale}))"
    if limit := length(held):
        return f"CHAR_LENGTH({value}) > {limit}"
    if held.type == "float":
        return f"CAST(CAST({value} AS REAL) AS DOUBLE PRECISION) <> {value}"
    return "1 = 0"


def _digits(name: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal, or of an integer type taken as a decimal; None for other types."""
    return parse_decimal(name) or ((INTEGER_DIGITS[name], 0) if name in INTEGER_DIGITS else None)
