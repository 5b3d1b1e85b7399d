"""Database files that stay open for a moment after their last use, while a run goes on.

Why: to open and close a DuckDB file costs as much as a small batch, and a run asks it many things of each
table.
Gain: not measured by itself.
Switch: `TIDEGAUGE_KEEP_FILES_OPEN=off` in the environment closes each file at once, as outside a run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SWITCH = "TIDEGAUGE_KEEP_FILES_OPEN"
LINGER = 0.5
"""Seconds. Another process that waits for the file gets it then, also while the run reads something else."""

_guard = threading.Lock()
_runs = 0
_kept: dict[str, tuple[Callable[[], None], threading.Timer]] = {}


@contextmanager
def kept_open() -> Iterator[None]:
    """Nothing stays open when the block ends."""
    global _runs
    with _guard:
        _runs += 1
    try:
        yield
    finally:
        with _guard:
            _runs -= 1
            over = [] if _runs else list(_kept)
        for path in over:
            _close_kept(path)


def close(path: str, shut: Callable[[], None]) -> None:
    """Close a connection: now, or, inside `kept_open`, when nobody has used the file for a moment."""
    with _guard:
        before = _kept.pop(path, None)
        keeps = _runs > 0 and os.environ.get(SWITCH) != "off"
        if keeps:
            timer = threading.Timer(LINGER, _close_kept, (path,))
            timer.daemon = True
            _kept[path] = (shut, timer)
            timer.start()
    if before is not None:
        before[1].cancel()
        before[0]()
    if not keeps:
        shut()


def _close_kept(path: str) -> None:
    with _guard:
        kept = _kept.pop(path, None)
    if kept is not None:
        kept[1].cancel()
        kept[0]()
