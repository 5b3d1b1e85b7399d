"""What moved the rows of a batch, as reports show it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class MovedBy(StrEnum):
    PROCESS = "process"
    """The run's own process, or a database that loads the files it is pointed to."""
    PROCESSES = "processes"
    """Child processes of the run, on the same machine."""
    SPARK = "spark"
    DATABASE = "database"
    """The database that is both source and target: no row leaves it."""


_SHOWN = {
    MovedBy.PROCESS: "this process",
    MovedBy.PROCESSES: "local processes",
    MovedBy.SPARK: "Spark",
    MovedBy.DATABASE: "the database",
}


def show_movers(movers: Iterable[MovedBy]) -> str | None:
    """Name the movers for people; None if nothing was moved."""
    return ", ".join(_SHOWN[one] for one in movers) or None
