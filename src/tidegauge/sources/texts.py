"""Which texts count as a decimal, date or timestamp under `types:`, parsed in Python and in Spark SQL."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal, localcontext

from tidegauge.model.types import parse_decimal

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
_ZONE = "(Z|[+]00:00)"
_INSTANT = f"{_DAY}({_CLOCK})?{_ZONE}?"
_MOMENT = {"date": _DAY, "timestamp": _INSTANT, "timestamp_ntz": _INSTANT}


def parse_text(text: str, arrives: str) -> Decimal | date | datetime:
    """The value that a text arrives as. Raises ValueError for a text that is none."""
    size = parse_decimal(arrives)
    if size is not None:
        return _parse_number(text, size.precision, size.scale)
    if not re.fullmatch(_MOMENT[arrives], text):
        raise ValueError(text)
    if arrives == "date":
        return date.fromisoformat(text)
    whole, point, fraction = re.sub(f"{_ZONE}$", "", text).partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction:0<6}" if point else whole)


def _parse_number(text: str, precision: int, scale: int) -> Decimal:
    if not re.fullmatch(_number(precision, scale), text) or not re.search("[0-9]", text):
        raise ValueError(text)
    with localcontext() as context:
        context.prec = 2 * precision + len(text)
        return Decimal(text).quantize(Decimal(1).scaleb(-scale))


def _number(precision: int, scale: int) -> str:
    return f"[-+]?0*[0-9]{{0,{precision - scale}}}([.][0-9]{{0,{scale}}}0*)?"


def finish_decimal(precision: int, scale: int, what: str) -> str:
    """Spark SQL from text to a decimal; it fails for any other text."""
    pattern = _match_whole(_number(precision, scale))
    wrong = f"raise_error({spark_text(f'tidegauge: {what}: not a decimal({precision},{scale}): ')} || {{}})"
    return (
        f"CASE WHEN {{}} IS NULL THEN NULL WHEN {{}} RLIKE {pattern} AND {{}} RLIKE '[0-9]'"
        f" THEN CAST({{}} AS decimal({precision},{scale})) ELSE {wrong} END"
    )


def finish_moment(arrives: str, what: str) -> str:
    """Spark SQL from text to a date or timestamp; it fails for a zone other than UTC, and for more than six
    digits after the seconds."""
    wrong = f"raise_error({spark_text(f'tidegauge: {what}: not a {arrives}: ')} || {{}})"
    if arrives == "date":
        value = "TRY_CAST({} AS date)"
    else:
        bare = f"REGEXP_REPLACE({{}}, '{_ZONE}$', '')"
        value = f"TRY_CAST({bare} AS timestamp_ntz)"
        if arrives == "timestamp":
            whole = f"CASE WHEN LENGTH({bare}) = 10 THEN {bare} || ' 00:00:00' ELSE {bare} END"
            value = f"TRY_CAST({whole} || 'Z' AS timestamp)"
    return (
        f"CASE WHEN {{}} IS NULL THEN NULL WHEN {{}} RLIKE {_match_whole(_MOMENT[arrives])}"
        f" THEN COALESCE({value}, {wrong}) ELSE {wrong} END"
    )


def _match_whole(pattern: str) -> str:
    # Java's `$` would let the line end that may follow pass.
    return spark_text(rf"^{pattern}\z")


def spark_text(text: str) -> str:
    """A literal of Spark SQL that means exactly this text, whatever is in it."""
    return "DECODE(UNHEX('" + text.encode().hex() + "'), 'UTF-8')"
