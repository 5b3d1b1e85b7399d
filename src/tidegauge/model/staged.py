"""Rows that an output has written and not yet committed."""

from __future__ import annotations

from dataclasses import dataclass

from tidegauge.model.expectation import Checks


@dataclass(frozen=True)
class DataFile:
    path: str
    """Relative to the table's folder."""
    rows: int
    bytes: int
    """Of the whole file."""
    first: int | None = None
    """Only `rows` of its rows are meant, from this one on; None: all are."""


@dataclass(frozen=True)
class Staged:
    """What `Output.commit` makes visible, and nobody sees yet: one of `files`, `table` and `change`, or
    none of them where a batch has no rows."""

    rows: int
    files: tuple[DataFile, ...] = ()
    """In a lake."""
    table: str = ""
    """In a warehouse: the staging table of this attempt."""
    change: str = ""
    """For a Delta table: the change that this process keeps in memory, and computes when it is committed."""
    checks: Checks | None = None
    """In a warehouse: what the expectations found in the rows; None where nothing is expected."""
    notes: tuple[str, ...] = ()
    """What a person should know of the table, or of what became of the rows."""
