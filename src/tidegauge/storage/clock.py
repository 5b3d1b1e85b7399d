"""The time by the clock of a store, for callers that ask often."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta

from tidegauge.storage.store import Store

_EVERY = timedelta(minutes=10)
_SLACK = timedelta(seconds=5)
_TICK = timedelta(seconds=1)
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that nobody can set, and that goes on while the machine sleeps, if the system has one."""


class Clock:
    """The store's clock. Never ahead of it, and behind it by at most the delay of the store's answer and the
    second to which S3 rounds down. A store on the network is asked only now and then; in between, a clock
    that nobody can set counts on. This machine's wall clock is used only for a store on this machine."""

    def __init__(self, store: Store, *, every: timedelta = _EVERY) -> None:
        self._store = store
        self._every = every
        self._lock = threading.Lock()
        self._asked: tuple[datetime, float] | None = None
        self._last: datetime | None = None

    def now(self) -> datetime:
        """The time in UTC. Raises OutputUnreachable if the store has to be asked and does not answer."""
        if not self._store.remote:
            found = self._store.now()
            with self._lock:
                # A file system's clock ticks in hundredths of a second; a later answer shall still be larger.
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
        # Both times are behind by less than the slack, so the later one is better, and time does not go back.
        # A larger difference means that somebody set the store's clock.
        if carried is not None and timedelta(0) < carried - found < _SLACK:
            found = carried
        # Read after the answer: the time that the answer took is not counted, so we are never ahead.
        self._asked = (found, steady())


def steady() -> float:
    return time.clock_gettime(_STEADY)
