"""Timestamps that are kept as text: which notation a column uses, and how a bound is written in it.

Text is compared as text. That is the order of time only while every value is written the same way, so
the notation is checked before any comparison.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegauge.model.position import Value, ValueKind

_PATTERN = re.compile(
    r"0000-00-00(?:(?P<between>[ T])00:00(?P<seconds>:00(?P<fraction>\.0+)?)?)?(?P<zone>Z|\+00:00)?"
)
_DIGIT = re.compile(r"[0-9]")
_OFFSET = re.compile(r"[+-][0-9]{2}:[0-9]{2}$")


@dataclass(frozen=True)
class Notation:
    between: str
    """What stands between day and time; empty where there are only days."""
    seconds: bool
    digits: int
    """The largest number of digits after the seconds that was seen."""
    zone: str

    @property
    def scale(self) -> int:
        """Digits after the seconds, at most 6 (microseconds)."""
        return min(self.digits, 6)

    def follows(self, text: str) -> bool:
        """Whether text order is the order of time between this earlier text and texts in this notation."""
        other = notation_of(text)
        if other is None:
            return False
        # A bare day is the beginning of every text of that day, and sorts before it.
        bare = not other.between and not other.zone
        return bare or (other.between, other.seconds, other.zone) == (self.between, self.seconds, self.zone)

    def write(self, moment: Value) -> Value:
        """A moment in this notation; digits that it has no place for are cut off, never rounded up."""
        day, _, clock = moment.text.partition(" ")
        if not self.between:
            return Value(ValueKind.TEXT, day + self.zone)
        whole, _, fraction = clock.partition(".")
        if not self.seconds:
            whole = whole[:5]
        tail = f".{fraction[: self.digits].ljust(self.digits, '0')}" if self.digits else ""
        return Value(ValueKind.TEXT, f"{day}{self.between}{whole}{tail}{self.zone}")

    def write_bound(self, moment: Value) -> Value:
        """A bound that is safe at its own precision, in this notation.

        A day or minute that has begun can still get rows, so in a notation without seconds the bound is the
        last day or minute that is over.
        """
        if self.seconds:
            return self.write(moment)
        unit = timedelta(minutes=1) if self.between else timedelta(days=1)
        earlier = datetime.fromisoformat(moment.text) - unit
        return self.write(Value(ValueKind.TIMESTAMP, earlier.isoformat(sep=" ", timespec="seconds")))


def notation_of(text: str) -> Notation | None:
    """The notation of one timestamp; None if the text is not one."""
    kept = 6 if _OFFSET.search(text) else 0
    end = len(text) - kept
    return read_patterns([_DIGIT.sub("0", text[:end]) + text[end:]])


def read_patterns(patterns: list[str]) -> Notation | None:
    """The one notation of these patterns (values with every digit replaced by 0); None if they have several.

    Different numbers of digits after the second are one notation as long as nothing follows them: the
    shorter text is the start of the longer, and sorts before it as the moment does.
    """
    found: set[Notation] = set()
    for pattern in patterns:
        match = _PATTERN.fullmatch(pattern)
        if match is None:
            return None
        between, fraction = match["between"] or "", match["fraction"] or ""
        found.add(
            Notation(between, match["seconds"] is not None, max(0, len(fraction) - 1), match["zone"] or "")
        )
    if len(found) == 1:
        return found.pop()
    widest = max(found, key=lambda notation: notation.digits, default=None)
    if widest is None or widest.zone:
        return None
    same = {(notation.between, notation.seconds, notation.zone) for notation in found}
    return widest if len(same) == 1 else None
