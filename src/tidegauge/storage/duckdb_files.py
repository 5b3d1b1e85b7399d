"""DuckDB files that this process has open.

DuckDB lets one process have a file open for writing, or many for reading; and within a process all
connections to a file have to be opened alike. So a reader opens it for reading, and for writing only if
this process writes to the file too. A file is closed soon after its last use, see `kept_open`: others may
wait for it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_HELD = re.compile(r"Could not set lock|Conflicting lock|being used by another process")
_UNLIKE = "different configuration"
_NAP = 0.2


@dataclass
class _Open:
    writing: bool
    connections: int = 0


_gate = threading.RLock()
"""Held while a file is opened or closed: DuckDB refuses to open one that another thread is just closing."""
_open: dict[str, _Open] = {}
_written: set[str] = set()


@dataclass(frozen=True)
class DuckDBFile:
    """One connection to a file. Close it with `close` of this class, and not by itself."""

    connection: DuckDBPyConnection
    path: str
    foreign: bool = False
    """Code in this process that is not Tidegauge's has the file open for writing."""

    def close(self) -> None:
        with _gate:
            self.connection.close()
            held = _open[self.path]
            held.connections -= 1
            if not held.connections:
                del _open[self.path]


def will_write(path: Path) -> None:
    """Say that this process will write to the file: from now on its readers open it for writing, too."""
    with _gate:
        _written.add(os.path.realpath(path))


def open_duckdb(path: Path, *, writing: bool, patience: float) -> DuckDBFile:
    """Open a file; waits up to `patience` seconds for other processes, and for readers of this one.

    Raises DuckDB's own errors; `is_held` tells which of them mean that somebody else has the file open.
    """
    limit = time.monotonic() + patience
    while True:
        try:
            return _connect(path, writing)
        except Exception as error:
            if not is_held(error) or time.monotonic() > limit:
                raise
        time.sleep(_NAP)


def is_held(error: Exception) -> bool:
    """Whether the error means that another process has the file open, or a reader of this one blocks a
    writer."""
    return _HELD.search(str(error)) is not None or _UNLIKE in str(error)


def _connect(path: Path, writing: bool) -> DuckDBFile:
    import duckdb

    key = os.path.realpath(path)
    with _gate:
        held = _open.get(key)
        # A file that only another user may write to is still read.
        changes = writing or (held.writing if held else key in _written and os.access(path, os.W_OK))
        foreign = False
        try:
            connection = duckdb.connect(str(path), read_only=not changes)
        except duckdb.ConnectionException as error:
            if changes or _UNLIKE not in str(error):
                raise
            connection, changes, foreign = duckdb.connect(str(path)), True, True
        held = _open.setdefault(key, _Open(changes))
        held.connections += 1
        return DuckDBFile(connection, key, foreign)
