"""Spark's type names: how large a decimal is, which type holds all values of another, how names are quoted.

Names are those of `DataType.simpleString()`: `bigint`, `decimal(10,2)`, `timestamp_ntz`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_DECIMAL = re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(-?\d{1,3})\s*\)", re.ASCII | re.IGNORECASE)
INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""Digits of the largest value: a decimal needs this many before its point to hold every value; one digit
fewer always fits into the integer."""


class DecimalSize(NamedTuple):
    precision: int
    scale: int

    @property
    def whole(self) -> int:
        """Digits before the point."""
        return self.precision - self.scale


@lru_cache(maxsize=1024)
def parse_decimal(name: str) -> DecimalSize | None:
    """Parse `decimal(p,s)`, in any case and with any spaces; None for every other type."""
    match = _DECIMAL.fullmatch(name)
    return DecimalSize(int(match[1]), int(match[2])) if match else None


def holds(wide: str, narrow: str) -> bool:
    """Whether every value of `narrow` is exactly a value of `wide` too, and means the same.

    `bigint` holds `int` and `decimal(18,0)`; `string` holds only `string`; a `double` is a rounded number,
    so it holds no exact ones; `timestamp_ntz` does not hold `date`. A Delta table takes more, see
    `delta_log.widening`.
    """
    if wide == narrow or (wide, narrow) == ("double", "float"):
        return True
    big, small = parse_decimal(wide), parse_decimal(narrow)
    if wide in INTEGER_DIGITS and narrow in INTEGER_DIGITS:
        return INTEGER_DIGITS[wide] > INTEGER_DIGITS[narrow]
    if big is not None and small is not None:
        return big.scale >= small.scale and big.whole >= small.whole
    if big is not None and narrow in INTEGER_DIGITS:
        return big.whole >= INTEGER_DIGITS[narrow]
    if small is not None and wide in INTEGER_DIGITS:
        return small.scale == 0 and small.precision < INTEGER_DIGITS[wide]
    return False


def quote(name: str) -> str:
    """Quote the name of a column, table or view for Spark's SQL; it may contain dots and backticks."""
    return "`" + name.replace("`", "``") + "`"
