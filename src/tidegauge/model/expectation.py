"""The checks that a user asks for on the rows that a flow writes, and what they found."""

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
"""The history event that records what checks found, with the number of rows that were set aside."""


class Action(StrEnum):
    """What to do with rows that are not as expected."""

    FAIL = "fail"
    """Fail the batch, and write none of it."""
    QUARANTINE = "quarantine"
    """Write the rows to the table beside the target, with the reasons."""
    DROP = "drop"
    """Leave the rows out, and count them."""
    WARN = "warn"
    """Write the rows, and count them."""

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
    """The accepted values as text; each is cast to the column's type."""


@dataclass(frozen=True)
class InRange:
    column: str
    least: str | None = None
    greatest: str | None = None


@dataclass(frozen=True)
class Matches:
    column: str
    pattern: str
    """A regular expression that the whole value has to match: Java's in flows, RE2 in syncs."""


@dataclass(frozen=True)
class Predicate:
    sql: str


@dataclass(frozen=True)
class ForeignKey:
    columns: tuple[str, ...]
    table: TableRef
    to: tuple[str, ...]
    input: str
    """Name of the flow's pinned input that reads the table."""


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
"""Rules that can be checked on each row by itself."""
BatchRule = Unique | RowCount | Fresh
"""Rules that need all rows of a batch."""
Rule = RowRule | BatchRule


@dataclass(frozen=True)
class Expectation:
    name: str
    """The name in reports and reasons, unique within a flow."""
    rule: Rule
    action: Action = Action.FAIL
    max_fraction: float | None = None
    """The share of a batch's rows that may fail; a larger share fails the batch, whatever the action."""
    place: Place | None = None

    @property
    def by_row(self) -> bool:
        return isinstance(self.rule, RowRule)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the check names; none for a predicate, which only an engine can read."""
        match self.rule:
            case ForeignKey(columns=columns) | Unique(columns=columns):
                return columns
            case Predicate() | RowCount():
                return ()
            case rule:
                return (rule.column,)

    def __str__(self) -> str:
        most = f", at most {self.max_fraction:g} of the rows" if self.max_fraction is not None else ""
        return f"{self.name} ({self.action}{most})"


@dataclass(frozen=True)
class CheckCount:
    """The result of one expectation for a batch."""

    name: str
    action: Action
    failed: int
    """Number of rows that failed; for a check on the whole batch 1 if it failed."""

    def to_json(self) -> dict[str, Any]:
        return {"check": self.name, "action": self.action.value, "failed": self.failed}


@dataclass(frozen=True)
class Checks:
    """The result of all expectations for a batch."""

    checked: int | None
    """Number of rows that were checked; None, in a commit: as many as the commit writes."""
    counts: tuple[CheckCount, ...] = ()
    quarantined: int = 0
    """Number of quarantined rows; a row that fails several checks counts once."""
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
        """Number of checked rows that were neither quarantined nor dropped."""
        return (self.checked or 0) - self.quarantined - self.dropped

    def tell(self) -> str | None:
        """Describe the failures for people; None if there are none."""
        said = [f"{one.name}: {one.failed:,} ({one.action})" for one in self.counts if one.failed]
        return f"of {self.checked or 0:,} rows not as expected: {'; '.join(said)}" if said else None


def add_up(found: Iterable[Checks]) -> Checks | None:
    """Add up the results of several batches; None if there are no results."""
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
