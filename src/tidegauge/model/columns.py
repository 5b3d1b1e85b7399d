"""Which columns and rows of a source table are read, and how columns are masked.

Column names are compared without regard to case on every engine: a column that must not move has to be caught
also if its name was written in lower case.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from tidegauge.errors import Place
from tidegauge.model.secret import Secret


def covers(pattern: str, column: str) -> bool:
    wanted, name = pattern.casefold(), column.casefold()
    return wanted == name or fnmatchcase(name, wanted)


@dataclass(frozen=True)
class ColumnChoice:
    """The patterns of `columns:`; `include` or `exclude` is empty."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    place: Place | None = None

    def takes(self, column: str) -> bool:
        if self.include:
            return any(covers(pattern, column) for pattern in self.include)
        return not any(covers(pattern, column) for pattern in self.exclude)


EVERY_COLUMN = ColumnChoice()


class MaskKind(StrEnum):
    SHA256 = "sha256"
    NULL = "null"
    TEXT = "text"


@dataclass(frozen=True)
class ColumnMask:
    """One entry of `mask:`."""

    pattern: str
    kind: MaskKind
    text: str = ""
    """For the kind TEXT: what every value is replaced by."""
    salt: Secret | None = None
    """Put before the text before hashing."""
    place: Place | None = None

    @property
    def shown(self) -> str:
        return repr(self.text) if self.kind is MaskKind.TEXT else self.kind.value

    @property
    def digest(self) -> str:
        """A digest that changes whenever the mask would give other values."""
        facts = [self.kind.value, self.text, self.salt.reveal() if self.salt else None]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:8]


def find_mask(masks: Iterable[ColumnMask], column: str) -> ColumnMask | None:
    """Find the mask of a column: one with exactly its name, or else the first whose pattern matches."""
    found = [one for one in masks if covers(one.pattern, column)]
    exact = [one for one in found if one.pattern.casefold() == column.casefold()]
    return next(iter(exact or found), None)


@dataclass(frozen=True)
class RowFilter:
    """`where:`, in the source's SQL."""

    sql: str
    place: Place | None = None
