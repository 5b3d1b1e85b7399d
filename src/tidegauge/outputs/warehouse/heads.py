"""The heads of a target's epochs, and their kinds that `tidegauge_commits` keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegauge.model.override import show_continued

HEAD, REFRESH = "head", "refresh"
"""Kinds of heads."""


@dataclass(frozen=True)
class Counts:
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Head:
    epoch: int
    last_seq: int
    closed: bool
    continues: tuple[int, int] | None
    reason: str
    empties: bool = False
    """Whether the epoch's first batch removes the rows that earlier epochs left."""
    written: str | None = field(default=None, compare=False, repr=False)
    """Names of the columns that the epoch's batches wrote, as JSON; None where none are kept or were read."""

    @property
    def is_pending(self) -> bool:
        """Whether the target still has the rows of earlier epochs, and the first batch is to remove them."""
        return self.empties and not self.last_seq

    def __str__(self) -> str:
        return f"epoch {self.epoch}, continuing {show_continued(self.continues)} ({self.reason})"


HEAD_COLUMNS = ("epoch", "last_seq", "closed", "continues_epoch", "continues_upto", "reason", "kind")


def head_of(row: Sequence[Any], written: str | None = None) -> Head:
    """The head that a row of `HEAD_COLUMNS` describes."""
    epoch, last, closed, of, upto, reason, kind = row
    return Head(
        int(epoch),
        int(last),
        bool(closed),
        None if of is None else (int(of), int(upto)),
        reason or "",
        empties=kind == REFRESH,
        written=written,
    )


def find_followed(heads: Sequence[Head], epoch: int) -> tuple[int, ...]:
    """The epochs whose batches make up the target in this epoch, newest first; empty where there are none."""
    by_epoch = {head.epoch: head for head in heads}
    found: list[int] = []
    head, upto = by_epoch.get(epoch), None
    while head is not None and not head.is_pending:
        if head.last_seq if upto is None else upto:
            found.append(head.epoch)
        if head.continues is None:
            break
        before, upto = head.continues
        head = by_epoch.get(before)
    return tuple(found)
