"""SQLite files that stay open for a moment after a split was read from them.

Why: opening a file begins with reading the definitions of all its tables. If each of many tables is read by
itself, that grows with the square of their number.
Gain: 4 ms of processor time for each table of a file that has 1,000; the more tables, the more.
Switch: `TIDEGAUGE_KEEP_FILES_OPEN=off` in the environment closes each file at once.

No content is kept: without a running statement a connection holds no lock, and the next statement sees the
file as it is then. If another file was put in its place, that one is opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegauge.model.canonical import add_functions
from tidegauge.sources.sqlite.engine import uri
from tidegauge.storage.kept_open import IdlePool, may_stay_open

_WAIT = 30.0
"""Seconds to wait for a writer that has locked the file."""


_idle = IdlePool[sqlite3.Connection](sqlite3.Connection.close)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection, which gives text as bytes. Raises sqlite3's own errors."""
    identity = _identify(path)
    connection = _idle.take((path, identity)) or _open(path)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    if identity is not None and identity == _identify(path) and may_stay_open():
        _idle.keep((path, identity), connection)
    else:
        connection.close()


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri(path),
        uri=True,
        timeout=_WAIT,
        isolation_level=None,
        # Another thread may fetch the rows, as DuckDB does.
        check_same_thread=False,
    )
    # Text as bytes, so that the error for text that is not UTF-8 can name its column.
    connection.text_factory = bytes
    add_functions(connection)
    return connection


def _identify(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file that is at this path now; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
