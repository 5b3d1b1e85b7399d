"""Spark's type names: how large a decimal is, which type holds all values of another, how names are quoted.

Names are those of `DataType.simpleString()`: `bigint`, `decimal(10,2)`, `timestamp_ntz`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_DECIMAL = re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(-?\d{1,3})\s*\)", re.ASCII | re.IGNORECASE)
INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""Of the largest value: a decimal needs as many before its point; one fewer always fit into the integer."""


class DecimalSize(NamedTuple):
    precision: int
    scale: int

    @property
    def whole(self) -> int:
        """Digits before the point."""
        return self.precision - self.scale


@lru_cache(maxsize=1024)
def parse_decimal(name: str) -> DecimalSize | None:
    """Of `decimal(p,s)`, in any letters and with any spaces; None for every other type."""
    match = _DECIMAL.fullmatch(name)
    return DecimalSize(int(match[1]), int(match[2])) if match else None


def holds(wide: str, narrow: str) -> bool:
    """Whether every value of `narrow` is exactly a value of `wide` too, and means the same.

    `bigint` holds `int` and `decimal(18,0)`; `string` holds nothing but `string`; a `double` stands for
    rounded numbers, so it holds no exact ones, and a `timestamp_ntz` is no `date`.
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
    """A name of a column, table or view for Spark's SQL, whatever letters, dots and backticks it has."""
    return "`" + name.replace("`", "``") + "`"
