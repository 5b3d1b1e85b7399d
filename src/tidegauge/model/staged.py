"""Rows that an output has written and not yet committed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataFile:
    path: str
    """Relative to the table's folder."""
    rows: int
    bytes: int


@dataclass(frozen=True)
class Staged:
    """Rows that are written and durable, and that nobody sees yet."""

    rows: int
    files: tuple[DataFile, ...] = ()
    """In a lake."""
    table: str = ""
    """In a warehouse: the staging table of this attempt."""
    notes: tuple[str, ...] = ()
    """What a person should know of the table, or of what was made of the rows."""
