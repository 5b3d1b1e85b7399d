"""What a flow expects of the rows it writes, and what was found: one check each, as the user asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tidegauge.errors import Place

if TYPE_CHECKING:
    from tidegauge.model.delta_flow import TableRef


NOT_AS_EXPECTED = "not_as_expected"
"""The event of the history that has what checks found, with the number of rows that were set aside."""


class Action(StrEnum):
    """What becomes of rows that are not as expected."""

    FAIL = "fail"
    """The batch fails, and nothing of it is written."""
    QUARANTINE = "quarantine"
    """They go to the table beside the target, with the reasons."""
    DROP = "drop"
    """They are left out, and counted."""
    WARN = "warn"
    """They are written, and counted."""

    @property
    def sets_aside(self) -> bool:
        return self in (Action.QUARANTINE, Action.DROP)


@dataclass(frozen=True)
class NotNull:
    column: str


@dataclass(frozen=True)
class Accepted:
    column: str
    values: tuple[str, ...]
    """As text; each is cast to the column's type."""


@dataclass(frozen=True)
class InRange:
    column: str
    least: str | None = None
    greatest: str | None = None


@dataclass(frozen=True)
class Matches:
    column: str
    pattern: str
    """A regular expression of Java's, for the whole value."""


@dataclass(frozen=True)
class Predicate:
    sql: str


@dataclass(frozen=True)
class ForeignKey:
    columns: tuple[str, ...]
    table: TableRef
    to: tuple[str, ...]
    input: str
    """The pinned input of the flow that the table is read as."""


@dataclass(frozen=True)
class Unique:
    columns: tuple[str, ...]


@dataclass(frozen=True)
class RowCount:
    least: int | None = None
    greatest: int | None = None


@dataclass(frozen=True)
class Fresh:
    column: str
    within: timedelta


RowRule = NotNull | Accepted | InRange | Matches | Predicate | ForeignKey
"""One row alone tells whether it is kept."""
BatchRule = Unique | RowCount | Fresh
"""Only all rows of a batch together tell."""
Rule = RowRule | BatchRule


@dataclass(frozen=True)
class Expectation:
    name: str
    """As reports and reasons have it; no two of a flow have one name."""
    rule: Rule
    action: Action = Action.FAIL
    max_fraction: float | None = None
    """A greater part of a batch's rows fails the batch, whatever the action."""
    place: Place | None = None

    @property
    def by_row(self) -> bool:
        return isinstance(self.rule, RowRule)

    def __str__(self) -> str:
        most = f", at most {self.max_fraction:g} of the rows" if self.max_fraction is not None else ""
        return f"{self.name} ({self.action}{most})"


@dataclass(frozen=True)
class CheckCount:
    """What a batch came to under one expectation."""

    name: str
    action: Action
    failed: int
    """Rows; of a check on the batch as a whole, 1 where it is not as expected."""

    def to_json(self) -> dict[str, Any]:
        return {"check": self.name, "action": self.action.value, "failed": self.failed}


@dataclass(frozen=True)
class Checks:
    """What a batch came to under all of them."""

    checked: int | None
    """Rows that were looked at; None, in a commit: as many as it writes."""
    counts: tuple[CheckCount, ...] = ()
    quarantined: int = 0
    """Rows, however many checks each of them failed."""
    dropped: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "checked": self.checked,
            "quarantined": self.quarantined,
            "dropped": self.dropped,
            "checks": [one.to_json() for one in self.counts],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Checks:
        return cls(
            None if body["checked"] is None else int(body["checked"]),
            tuple(
                CheckCount(str(one["check"]), Action(one["action"]), int(one["failed"]))
                for one in body["checks"]
            ),
            int(body["quarantined"]),
            int(body["dropped"]),
        )

    def and_also(self, counts: Iterable[CheckCount]) -> Checks:
        return replace(self, counts=(*self.counts, *counts))

    @property
    def passed(self) -> int:
        """Rows that are not set aside, of those that were looked at."""
        return (self.checked or 0) - self.quarantined - self.dropped

    @property
    def warned(self) -> int:
        """How often a row was written that is not as expected."""
        return sum(one.failed for one in self.counts if one.action is Action.WARN)

    def tell(self) -> str | None:
        """For people; None where all was as expected."""
        said = [f"{one.name}: {one.failed:,} ({one.action})" for one in self.counts if one.failed]
        return f"of {self.checked or 0:,} rows not as expected: {'; '.join(said)}" if said else None


def add_up(found: Iterable[Checks]) -> Checks | None:
    """Of several batches; None where none was checked."""
    every = list(found)
    if not every:
        return None
    failed: dict[tuple[str, Action], int] = {}
    for one in every:
        for count in one.counts:
            failed[count.name, count.action] = failed.get((count.name, count.action), 0) + count.failed
    return Checks(
        sum(one.checked or 0 for one in every),
        tuple(CheckCount(name, action, many) for (name, action), many in failed.items()),
        sum(one.quarantined for one in every),
        sum(one.dropped for one in every),
    )
