"""What time it is by the clock of a store, for those who ask often."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta

from tidegauge.storage.store import Store

_EVERY = timedelta(minutes=10)
_SLACK = timedelta(seconds=5)
_TICK = timedelta(seconds=1)
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps, and nobody can set it."""


class Clock:
    """The store's clock. Never ahead of it, and behind it by at most the answer's own delay and the second to
    which S3 rounds down. Asked for over the network only now and then, and carried on in between by a clock
    that nobody can set. This machine's wall clock has no part in it, unless the store is on this machine."""

    def __init__(self, store: Store, *, every: timedelta = _EVERY) -> None:
        self._store = store
        self._every = every
        self._lock = threading.Lock()
        self._asked: tuple[datetime, float] | None = None
        self._last: datetime | None = None

    def now(self) -> datetime:
        """In UTC. Raises OutputUnreachable when the store has to be asked and does not answer."""
        if not self._store.remote:
            found = self._store.now()
            with self._lock:
                # A file system counts in hundredths of a second; the later of two answers shall be larger.
                if self._last is not None and timedelta(0) <= self._last - found < _TICK:
                    found = self._last + timedelta(microseconds=1)
                self._last = found
                return found
        with self._lock:
            if self._asked is None:
                self._ask(None)
            elif self._since() >= self._every:
                self._ask(self._asked[0] + self._since())
            assert self._asked is not None
            return self._asked[0] + self._since()

    def _since(self) -> timedelta:
        assert self._asked is not None
        return timedelta(seconds=steady() - self._asked[1])

    def _ask(self, carried: datetime | None) -> None:
        found = self._store.now()
        # Both are early by less than the slack, so the later one is better, and time does not go back. A
        # larger difference is a store whose clock was set.
        if carried is not None and timedelta(0) < carried - found < _SLACK:
            found = carried
        # Read after the answer: the time that the answer took counts as not having passed.
        self._asked = (found, steady())


def steady() -> float:
    return time.clock_gettime(_STEADY)
