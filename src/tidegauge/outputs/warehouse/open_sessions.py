"""Connections to a server that are kept for the next who needs one, while a run goes on.

Why: a small batch takes less time than the nine connections that a run would open for it.
Gain: bench/results/pair.json.
Switch: `TIDEGAUGE_KEEP_SESSIONS_OPEN=off` in the environment closes each at once, as outside a run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

SWITCH = "TIDEGAUGE_KEEP_SESSIONS_OPEN"

_guard = threading.Lock()
_runs = 0
_kept: dict[Hashable, list[KeptSession]] = {}


@dataclass(frozen=True)
class KeptSession:
    connection: Any
    shut: Callable[[], None]
    is_alive: Callable[[], bool]


@contextmanager
def kept_sessions() -> Iterator[None]:
    """Nothing stays open when the block ends."""
    global _runs
    with _guard:
        _runs += 1
    try:
        yield
    finally:
        with _guard:
            _runs -= 1
            over = [] if _runs else [one for kept in _kept.values() for one in kept]
            if not _runs:
                _kept.clear()
        for one in over:
            one.shut()


def take(key: Hashable) -> Any:
    """A connection that was given back under this key, and that its server has not closed since; or None."""
    while True:
        with _guard:
            kept = _kept.get(key)
            found = kept.pop() if kept else None
        if found is None or found.is_alive():
            return found.connection if found else None
        found.shut()


def give_back(key: Hashable, session: KeptSession) -> None:
    """One that has no transaction open: kept inside `kept_sessions`, and closed elsewhere."""
    with _guard:
        keeps = _runs > 0 and os.environ.get(SWITCH) != "off"
        if keeps:
            _kept.setdefault(key, []).append(session)
    if not keeps:
        session.shut()
