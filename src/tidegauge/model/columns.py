"""Which columns and rows of a source table are taken, and what becomes of a column that is masked.

Names of columns are compared without regard to case, on every engine: a column that nobody wanted to move
must not get through because somebody wrote its name in small letters.
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
    """`columns:`, by patterns; one of the two is empty."""

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
    """What every value becomes, of the kind TEXT."""
    salt: Secret | None = None
    """What is put before the text that is hashed."""
    place: Place | None = None

    @property
    def shown(self) -> str:
        return repr(self.text) if self.kind is MaskKind.TEXT else self.kind.value

    @property
    def digest(self) -> str:
        """Changes with what the mask makes of a value."""
        facts = [self.kind.value, self.text, self.salt.reveal() if self.salt else None]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:8]


def find_mask(masks: Iterable[ColumnMask], column: str) -> ColumnMask | None:
    """The mask of a column: the one that names it, or else the first pattern that does."""
    found = [one for one in masks if covers(one.pattern, column)]
    exact = [one for one in found if one.pattern.casefold() == column.casefold()]
    return next(iter(exact or found), None)


@dataclass(frozen=True)
class RowFilter:
    """`where:`, in the source's SQL."""

    sql: str
    place: Place | None = None
