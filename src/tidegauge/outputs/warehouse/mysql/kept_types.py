"""Columns of types that Spark does not have: a target filled from MySQL keeps them (`Field.through`)."""

from __future__ import annotations

import re

from tidegauge.model.table import Field
from tidegauge.model.types import parse_decimal
from tidegauge.outputs.warehouse import fit

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
