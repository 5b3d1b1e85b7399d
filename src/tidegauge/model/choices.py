"""The words that are allowed for some keys of a table's configuration."""

from __future__ import annotations

from enum import StrEnum


class Execution(StrEnum):
    """Where the rows of a sync are moved: through Spark, or inside the database that has both ends."""

    AUTO = "auto"
    """Through Spark if there is enough to move to be worth its start, else by processes on this machine."""
    SPARK = "spark"
    DATABASE = "database"


class NullCursor(StrEnum):
    FAIL = "fail"
    INCLUDE = "include"
    EXCLUDE = "exclude"


class FutureGuard(StrEnum):
    """What to do with a cursor number that lies far beyond all others."""

    NOTE = "note"
    FAIL = "fail"


class Drift(StrEnum):
    """What to do when the source's columns change."""

    EVOLVE = "evolve"
    FREEZE = "freeze"
    FAIL = "fail"


class ReadMethod(StrEnum):
    AUTO = "auto"
    DIRECT = "direct"
    JDBC = "jdbc"


class DeleteMode(StrEnum):
    NONE = "none"
    SOFT = "soft"
    HARD = "hard"


class WithoutCursor(StrEnum):
    """What to do with a table that has no usable cursor."""

    FAIL = "fail"
    SKIP = "skip"
    SNAPSHOT = "snapshot"
    """Read the whole table each time, and commit what differs from the target."""
