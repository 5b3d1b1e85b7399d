"""Turns the block `health:` into the limits beyond which `health` reports a flow."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field

from tidegauge.config import values
from tidegauge.config.check import Problems
from tidegauge.config.forms import Duration, Keys, Mapped, MaybeDuration, ValueParser
from tidegauge.config.problems import InvalidValue, KeyPath, quoted
from tidegauge.model.health import HealthLimits, HealthSettings

_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_PLAIN, _WHOLE = HealthLimits(), HealthSettings()
_OF_PIPELINE = ("override", "ledger_rows", "missed")


def _parse_multiple(value: Any) -> float:
    written = values.text(value)
    if not _NUMBER.fullmatch(written) or float(written) <= 0:
        raise InvalidValue(
            f"{quoted(written)} is not a multiple", hint="write a number above 0, such as `3` or `0.1`"
        )
    return float(written)


PositiveInt = Annotated[int, ValueParser(values.whole(1), "whole number above 0")]
Multiple = Annotated[float, ValueParser(_parse_multiple, "number above 0")]


class LimitKeys(Keys):
    fresh: Duration = Field(default=_PLAIN.fresh, description="Rows that came less than this ago are FRESH.")
    stale: Duration = Field(
        default=_PLAIN.stale,
        description="Up to here they are STALE, a warning, and from then on VERY_STALE, which is critical.",
    )
    watermark: Duration = Field(
        default=_PLAIN.watermark, description="A watermark this far behind the clock is a warning."
    )
    lag: MaybeDuration = Field(
        default=None,
        description="The target for a flow with a timestamp cursor: a watermark further behind is critical.",
    )
    stuck: Duration = Field(
        default=_PLAIN.stuck, description="A plan that was made so long ago and is not done is critical."
    )
    slower: Multiple = Field(
        default=_PLAIN.slower,
        description="A run that took so many times the median of the flow's own runs is a warning.",
    )
    fewer: Multiple = Field(
        default=_PLAIN.fewer, description="So is one that wrote less than this multiple of their median rows,"
    )
    more: Multiple = Field(default=_PLAIN.more, description="or more than this.")


class HealthKeys(LimitKeys):
    ledger_rows: PositiveInt = Field(
        default=_WHOLE.ledger_rows,
        description="More runs and events of this pipeline in the ledger are a warning.",
    )
    missed: PositiveInt = Field(
        default=_WHOLE.missed,
        description="So many times of a schedule in a row that nobody ran for are critical; one is a "
        "warning.",
    )
    override: Mapped = Field(
        default={},
        description="By a flow's name, a pattern or `tag:WORD`: any other key of this table, for the flows "
        "that match. The first that does holds.",
    )


def make_health(check: Problems, written: Any) -> HealthSettings:
    if not isinstance(written, dict):
        return HealthSettings()
    keys = check.keys(HealthKeys, written, ("health",))
    own = {key: value for key, value in written.items() if key not in _OF_PIPELINE}
    limits = _make_limits(check, keys, ("health",))
    override: dict[str, HealthLimits] = {}
    bodies = written.get("override")
    for name, body in bodies.items() if isinstance(bodies, dict) else ():
        trail = ("health", "override", name)
        merged = {**own, **body} if isinstance(body, dict) else body
        override[name] = _make_limits(check, check.keys(LimitKeys, merged, trail), trail)
    found = keys or HealthKeys()
    return HealthSettings(limits, override, found.ledger_rows, found.missed)


def _make_limits(check: Problems, keys: LimitKeys | None, trail: KeyPath) -> HealthLimits:
    if keys is None:
        return _PLAIN
    if keys.stale < keys.fresh:
        check.add(
            "`stale` ends before `fresh` does",
            check.first_written((*trail, "stale"), (*trail, "fresh")),
            hint="`stale` is the longer of the two",
        )
    return HealthLimits(
        keys.fresh,
        keys.stale,
        keys.watermark,
        keys.lag,
        keys.stuck,
        keys.slower,
        keys.fewer,
        keys.more,
    )
