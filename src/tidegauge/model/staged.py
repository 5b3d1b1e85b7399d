"""What an output has prepared for a commit."""

from __future__ import annotations

from dataclasses import dataclass

from tidegauge.model.expectation import Checks


@dataclass(frozen=True)
class DataFile:
    path: str
    """Relative to the table's folder."""
    rows: int
    bytes: int
    """Size of the whole file."""
    first: int | None = None
    """Index of the first row of the batch, if only `rows` of the file's rows belong to it; None: all do."""


@dataclass(frozen=True)
class Staged:
    """What `Output.commit` will make visible: one of `files`, `table` and `change`, or none of them if the
    batch has no rows."""

    rows: int
    files: tuple[DataFile, ...] = ()
    """For a lake: the data files that were written."""
    table: str = ""
    """For a warehouse: the staging table of this attempt."""
    change: str = ""
    """For a Delta table: names the change that this process keeps in memory and computes in `commit`."""
    checks: Checks | None = None
    """For a warehouse: what the expectations found in the rows; None if there are no expectations."""
    notes: tuple[str, ...] = ()
    """Notes for people about the table or the rows."""
