"""Which types of a column Delta can change to which (type widening), by Spark's names for them."""

from __future__ import annotations

from tidegauge.model.types import parse_decimal

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
"""How many digits before the point Delta wants of a decimal that a whole number is widened to."""
_OTHERS = {
    ("double", "float"),
    ("double", "tinyint"),
    ("double", "smallint"),
    ("double", "int"),
    ("timestamp_ntz", "date"),
}


def can_widen(wide: str, narrow: str) -> bool:
    """Whether a column of the narrow type can become one of the wide type, with every value kept."""
    if narrow in _WHOLE and wide in _WHOLE:
        return _WHOLE.index(wide) > _WHOLE.index(narrow)
    big, small = parse_decimal(wide), parse_decimal(narrow)
    if big is not None and small is not None:
        return big.scale >= small.scale and big.whole >= small.whole
    if big is not None and narrow in _WHOLE:
        return big.whole >= _DIGITS[narrow]
    return (wide, narrow) in _OTHERS
