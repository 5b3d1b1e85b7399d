"""Which types of a column Delta can change to which (type widening), by Spark's names for them."""

from __future__ import annotations

from tidegauge.model.types import INTEGER_DIGITS, holds, parse_decimal

_DIGITS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
"""How many digits before the point Delta wants of a decimal that a whole number is widened to."""
BESIDES = {("double", "tinyint"), ("double", "smallint"), ("double", "int"), ("timestamp_ntz", "date")}
"""What Delta widens though `model.types.holds` says no. The values are kept, and mean something else: a
double is a rounded number, and a date becomes the midnight that it begins with."""


def can_widen(wide: str, narrow: str) -> bool:
    """Whether a column of the narrow type can become one of the wide type, with every value kept."""
    if narrow in INTEGER_DIGITS and (big := parse_decimal(wide)) is not None:
        return big.whole >= _DIGITS[narrow]
    if wide in INTEGER_DIGITS and narrow not in INTEGER_DIGITS:
        return False  # Delta makes no whole number of a decimal
    return (wide, narrow) in BESIDES or (wide != narrow and holds(wide, narrow))
