"""Who may write to a database file. The engines that live in one let one transaction write at a time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_locks: dict[str, threading.Lock] = {}
_guard = threading.Lock()


class Turn:
    """One session's place in the queue of this process. Others of the process end, so it waits for them as
    long as they take; other processes are the engine's business."""

    def __init__(self, path: Path) -> None:
        with _guard:
            self._lock = _locks.setdefault(os.path.realpath(path), threading.Lock())
        self._held = False

    def take(self) -> None:
        if not self._held:
            self._lock.acquire()
            self._held = True

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._lock.release()
