"""Secrets that are never printed, and the mask that hides them in all text that leaves the process."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from urllib.parse import quote, quote_plus

MASK = "***"
SERVE_TOKEN = "TIDEGAUGE_SERVE_TOKEN"  # noqa: S105 - the environment variable with the dashboard's token
_known: set[str] = set()
_open: set[str] = set()
_WORD = re.compile(r"\w+")
_LONG, _SHORTEST = 8, 3
_PLACE = (
    r"(?:passw(?:or)?d|pwd|passphrase|secret|token|api_?key|access_?key(?:_id)?|identified\s+by)"
    r"[\"']?\s*[=:]?\s*[\"'(]*|://[^\s/@]*:"
)
"""Matches the text that comes right before a secret."""


class Secret:
    """A value that shows as `***` in every repr, str, format and error; `reveal` returns it, for a driver."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        remember(value)

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _: object) -> Secret:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret is not pickled")


def remember(value: str) -> None:
    """Make `mask` hide this value from now on, also in its forms in a URL and in JSON."""
    if value:
        _known.update({value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1]})


def name_openly(text: str) -> None:
    """Register the words of this text as public names: of tables, schemas, users, connections.

    A secret that equals such a word is not hidden everywhere, which would make messages unreadable, but only
    in places for secrets: after `password=`, in the login of an address, and the like.
    """
    _open.update(_WORD.findall(text))


def mask(text: str) -> str:
    for value in sorted(_known, key=len, reverse=True):
        if value in text:
            text = _pattern(value, value in _open).sub(lambda found: f"{found[1] or ''}{MASK}", text)
    return text


@lru_cache(maxsize=4096)
def _pattern(value: str, is_name: bool) -> re.Pattern[str]:
    """Match a public name only in a secret's place, a short word only by itself, any other everywhere."""
    hidden = re.escape(value)
    if is_name or len(value) < _SHORTEST:
        return re.compile(f"({_PLACE}){hidden}", re.IGNORECASE)
    if len(value) < _LONG and _WORD.fullmatch(value):
        return re.compile(rf"()(?<!\w){hidden}(?!\w)")
    return re.compile(f"(){hidden}")
