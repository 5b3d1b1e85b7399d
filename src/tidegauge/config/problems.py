"""Problems of a project file, gathered so that several mistakes are reported at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tidegauge.errors import ConfigError, Place

KeyPath = tuple[str | int, ...]
"""The path from the top of the file to a value: keys and list indexes."""

SHOWN = 5


@dataclass(frozen=True)
class Problem:
    message: str
    place: Place
    hint: str | None = None


class InvalidValue(ValueError):
    """A wrong value, raised by code that does not know where in the file the value is.

    `trail` leads from the value to the part of it that is wrong. `at_key` says that the key itself is wrong.
    `expected` is what the value must be, in words that quote nothing of it; see `must`.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        trail: KeyPath = (),
        at_key: bool = False,
        expected: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.trail = trail
        self.at_key = at_key
        self.expected = expected


def must(
    expected: str, *, found: str | None = None, hint: str | None = None, trail: KeyPath = ()
) -> InvalidValue:
    """An InvalidValue that says what the value must be. `found` is what it is instead, and is not shown where
    a reference brought the value in."""
    message = f"this must {expected}" if found is None else f"this must {expected}, not {found}"
    return InvalidValue(message, hint=hint, trail=trail, expected=expected)


@contextmanager
def below(*parts: str | int) -> Iterator[None]:
    """In this block a part of a value is read: its errors get these names in front of their trail."""
    try:
        yield
    except InvalidValue as complaint:
        raise InvalidValue(
            complaint.message,
            hint=complaint.hint,
            trail=(*parts, *complaint.trail),
            at_key=complaint.at_key,
            expected=complaint.expected,
        ) from None


def as_error(problems: Sequence[Problem]) -> ConfigError:
    """One error for all problems: first the one that comes first in the file, then a few more with places."""
    files = list(dict.fromkeys(problem.place.file for problem in problems))
    ordered = sorted(
        dict.fromkeys(problems),
        key=lambda problem: (files.index(problem.place.file), problem.place.line, problem.place.column),
    )
    first, *others = ordered
    lines = [first.message]
    lines += [
        f"  {other.place}: {other.message}{f' ({other.hint})' if other.hint else ''}"
        for other in others[: SHOWN - 1]
    ]
    if len(ordered) > SHOWN:
        lines.append(f"  and {len(ordered) - SHOWN} more")
    return ConfigError("\n".join(lines), hint=first.hint, place=first.place)


def nearest(word: str, valid: Iterable[str]) -> str | None:
    by_lower = {candidate.lower(): candidate for candidate in valid}
    close = difflib.get_close_matches(word.lower()[:200], by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def suggest(word: str, valid: Iterable[str]) -> str:
    """A hint that names the nearest valid word, or all of them when none is near."""
    words = list(valid)
    close = nearest(word, words)
    if close is not None:
        return f"did you mean `{close}`?"
    if not words:
        return "there is none to choose from"
    return f"{'one of' if len(words) > 1 else 'it is'}: " + ", ".join(f"`{item}`" for item in words)


def quoted(text: str) -> str:
    """The user's text as errors quote it: in backticks, on one line, cut if long, nothing unprintable."""
    shown = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text[:60])
    return f"`{shown}{'…' if len(text) > 60 else ''}`"
