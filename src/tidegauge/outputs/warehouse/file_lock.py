"""Who may write to a database file. The engines that live in one let one transaction write at a time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_locks: dict[str, threading.Lock] = {}
_guard = threading.Lock()


class FileLock:
    """Lets one session of this process write to a file at a time. It waits as long as the others take, for
    they are sure to end; other processes are kept out by the engine."""

    def __init__(self, path: Path) -> None:
        with _guard:
            self._lock = _locks.setdefault(os.path.realpath(path), threading.Lock())
        self._locked = False

    def acquire(self) -> None:
        """Take the lock; do nothing where this session has it already."""
        if not self._locked:
            self._lock.acquire()
            self._locked = True

    def release(self) -> None:
        if self._locked:
            self._locked = False
            self._lock.release()
