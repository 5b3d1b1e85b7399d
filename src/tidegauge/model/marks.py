"""How a row is marked with the checks that it fails, and what the marks mean for a batch. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegauge.errors import ExpectationFailed
from tidegauge.model.expectation import Action, CheckCount, Checks, Expectation, ForeignKey, Fresh, RowCount

FAILED = "__tidegauge_failed"
"""The column with one bit for each check that a row fails."""
ROW = "__tidegauge_row"
"""The column with the row as JSON, for rows that are quarantined or shown in a message."""


@dataclass(frozen=True)
class FailedCheckBits:
    """The checks of a flow that apply to single rows, in the order of their bits.

    The bits are ordered by action: first `fail` and `warn`, then `drop`, then `quarantine`. So comparing
    FAILED with two numbers tells what to do with a row, in any database's SQL.
    """

    checks: tuple[Expectation, ...]
    dropped_from: int
    quarantined_from: int

    @classmethod
    def of(cls, expect: Iterable[Expectation]) -> FailedCheckBits:
        by_row = [one for one in expect if one.by_row]
        order = (Action.FAIL, Action.WARN), (Action.DROP,), (Action.QUARANTINE,)
        parts = [[one for one in by_row if one.action in actions] for actions in order]
        stays, dropped, aside = parts
        return cls((*stays, *dropped, *aside), 1 << len(stays), 1 << (len(stays) + len(dropped)))

    @property
    def sets_aside(self) -> bool:
        return any(one.action.sets_aside for one in self.checks)

    @property
    def needs_text(self) -> int:
        """The bits of checks for which a failing row is needed as text, to quarantine or to show it."""
        return sum(
            1 << at
            for at, one in enumerate(self.checks)
            if one.action in (Action.FAIL, Action.QUARANTINE) or one.max_fraction is not None
        )

    @property
    def looks_up(self) -> bool:
        """Whether one of those checks is a foreign key: only the other table tells which rows fail."""
        mask = self.needs_text
        return any(isinstance(one.rule, ForeignKey) and mask >> at & 1 for at, one in enumerate(self.checks))

    def reasons(self, failed: int) -> list[str]:
        return [one.name for at, one in enumerate(self.checks) if failed >> at & 1]

    def judge(self, flow: str, counted: Mapping[int, int], show: Callable[[int], str | None]) -> Checks:
        """Return the result for a batch. `counted`: rows by FAILED; `show`: gives an example row for a bit.

        Raises ExpectationFailed if the batch must not be written.
        """
        rows = sum(counted.values())
        counts = []
        for at, one in enumerate(self.checks):
            failed = sum(many for mask, many in counted.items() if mask >> at & 1)
            counts.append(CheckCount(one.name, one.action, failed))
            refuse(flow, one, failed, rows, partial(show, 1 << at))
        aside = sum(many for mask, many in counted.items() if mask >= self.quarantined_from)
        dropped = sum(
            many for mask, many in counted.items() if self.dropped_from <= mask < self.quarantined_from
        )
        return Checks(rows, tuple(counts), aside, dropped)


def refuse(flow: str, one: Expectation, failed: int, of: int | None, show: Callable[[], Any]) -> None:
    """Raise ExpectationFailed if the expectation does not allow this many failed rows."""
    if not failed:
        return
    many = f"{failed:,} row{'' if failed == 1 else 's'}" if of is None else f"{failed:,} of {of:,} rows"
    said = f"{flow}: {many} {'is' if failed == 1 else 'are'} not as expected, `{one.name}`"
    beyond = one.max_fraction is not None and of and failed / of > one.max_fraction
    if one.action is not Action.FAIL and not beyond:
        return
    row = show()
    example = f", such as {row}" if row else ""
    if one.action is Action.FAIL:
        raise ExpectationFailed(
            f"{said}{example}",
            hint="mend the rows at their source, or let the expectation `quarantine`, `drop` or `warn`;"
            " nothing was written",
            place=one.place,
        )
    raise ExpectationFailed(
        f"{said}, which is more than `max_fraction: {one.max_fraction:g}` allows{example}",
        hint="see what has happened to the input; nothing was written, or set aside",
        place=one.place,
    )


def count_rows(flow: str, one: Expectation, kept: int) -> CheckCount:
    """Check a `row_count` on the number of rows to be written. Raises ExpectationFailed."""
    assert isinstance(one.rule, RowCount)
    least, greatest = one.rule.least, one.rule.greatest
    wrong = (least is not None and kept < least) or (greatest is not None and kept > greatest)
    if wrong and one.action is Action.FAIL:
        ends = f"at least {least:,}" if least is not None and kept < least else f"at most {greatest:,}"
        raise ExpectationFailed(
            f"{flow}: the batch has {kept:,} rows, and {ends} are expected",
            hint="see what has happened to the input, or change `row_count`; nothing was written",
            place=one.place,
        )
    return CheckCount(one.name, one.action, int(wrong))


def count_stale(flow: str, one: Expectation, *, stale: bool) -> CheckCount:
    """Return the result of a `fresh` check. Raises ExpectationFailed."""
    assert isinstance(one.rule, Fresh)
    if stale and one.action is Action.FAIL:
        raise ExpectationFailed(
            f"{flow}: the newest {one.rule.column} of the batch is older than {one.rule.within}",
            hint="see why the input is late, or let `fresh` warn; nothing was written",
            place=one.place,
        )
    return CheckCount(one.name, one.action, int(stale))
