"""Secrets that never print, and the mask that hides them wherever text leaves the process."""

from __future__ import annotations

from urllib.parse import quote, quote_plus

MASK = "***"
_known: set[str] = set()


class Secret:
    """A value that shows as `***` in every repr, str, format and error; `reveal` gives it to a driver."""

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
    """From now on `mask` hides this value, also as it looks inside an address."""
    if value:
        _known.update({value, quote(value, safe=""), quote_plus(value)})


def mask(text: str) -> str:
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text
