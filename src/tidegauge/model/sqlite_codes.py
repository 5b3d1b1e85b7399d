"""The codes of SQLite's errors: the lowest byte is the plain code. Others are extended ones, such as
SQLITE_BUSY_SNAPSHOT."""

from __future__ import annotations

import sqlite3


def read_plain_code(error: BaseException) -> int:
    """The code without what extends it; 0 for an error that is not SQLite's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether another connection has a lock on the file, so that the same may succeed later."""
    return read_plain_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
