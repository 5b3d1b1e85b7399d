"""What to do with a table that has nothing to page by."""

from enum import StrEnum


class WithoutCursor(StrEnum):
    FAIL = "fail"
    SKIP = "skip"
    SNAPSHOT = "snapshot"
    """Read it whole each time, and commit what differs from the target."""
