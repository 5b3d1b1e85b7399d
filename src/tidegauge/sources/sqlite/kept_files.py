"""SQLite files that stay open for a moment after a split was read from them.

Why: opening a file begins with reading the definitions of all its tables. If each of many tables is read by
itself, that grows with the square of their number.
Gain: 4 ms of processor time for each table of a file that has 1,000; the more tables, the more.
Switch: `TIDEGAUGE_KEEP_FILES_OPEN=off` in the environment closes each file at once.

No content is kept: without a running statement a connection holds no lock, and the next statement sees the
file as it is then. If another file was put in its place, that one is opened.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidegauge.model.canonical import add_functions
from tidegauge.sources.sqlite.engine import uri
from tidegauge.storage.kept_open import LINGER, may_stay_open

_WAIT = 30.0
"""Seconds to wait for a writer that has locked the file."""


@dataclass(frozen=True)
class _IdleFile:
    path: Path
    identity: tuple[int, int]
    connection: sqlite3.Connection
    since: float


_AGE = LINGER
"""Seconds after which an unused file is closed."""
_guard = threading.Lock()
_idle: list[_IdleFile] = []
_watching = False


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection, which gives text as bytes. Raises sqlite3's own errors."""
    identity = _identify(path)
    connection = _take(path, identity) or _open(path)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    _keep(path, identity, connection)


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


def _take(path: Path, identity: tuple[int, int] | None) -> sqlite3.Connection | None:
    with _guard:
        found = next((one for one in _idle if (one.path, one.identity) == (path, identity)), None)
        if found is None:
            return None
        _idle.remove(found)
    return found.connection


def _keep(path: Path, identity: tuple[int, int] | None, connection: sqlite3.Connection) -> None:
    global _watching
    if identity is None or identity != _identify(path) or not may_stay_open():
        connection.close()
        return
    with _guard:
        _idle.append(_IdleFile(path, identity, connection, time.monotonic()))
        starts, _watching = not _watching, True
    if starts:
        threading.Thread(target=_watch, name="tidegauge-idle-files", daemon=True).start()


def _watch() -> None:
    """Close files that nobody has used for a moment, until none is open."""
    global _watching
    while _watching:
        time.sleep(LINGER)
        with _guard:
            over = [one for one in _idle if one.since <= time.monotonic() - _AGE]
            _idle[:] = [one for one in _idle if one not in over]
            _watching = bool(_idle)
        for one in over:
            one.connection.close()


def _forget() -> None:
    """In a forked process: forget the open files, which belong to its parent."""
    global _guard, _watching
    _guard, _watching = threading.Lock(), False
    _idle.clear()


os.register_at_fork(after_in_child=_forget)
