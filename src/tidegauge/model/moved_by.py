"""Who moved the rows of a batch, as reports say it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class MovedBy(StrEnum):
    PROCESS = "process"
    """The process of the run itself, or a database that takes them from where it says."""
    PROCESSES = "processes"
    """Processes of the run's own, on the same machine."""
    SPARK = "spark"
    DATABASE = "database"
    """The one that has both ends: no row leaves it."""


_SHOWN = {
    MovedBy.PROCESS: "this process",
    MovedBy.PROCESSES: "local processes",
    MovedBy.SPARK: "Spark",
    MovedBy.DATABASE: "the database",
}


def show_movers(movers: Iterable[MovedBy]) -> str | None:
    """For people; None where nothing was moved."""
    return ", ".join(_SHOWN[one] for one in movers) or None
