"""Files and connections that stay open for a moment after their last use: opening costs more than using.

Others may wait for a file, so the moment is short, and a switch closes each at once.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

SWITCH = "TIDEGAUGE_KEEP_FILES_OPEN"
LINGER = 0.5
"""Seconds that an unused file stays open. Then a process that waits gets it, even while this one goes on."""
_NAP = 0.5

Item = TypeVar("Item")


def may_stay_open() -> bool:
    return os.environ.get(SWITCH) != "off"


class _Idle(NamedTuple, Generic[Item]):
    key: object
    item: Item
    since: float


class IdlePool(Generic[Item]):
    """Open things that nobody uses just now, each under a key. Any thread may use it.

    A forked process begins with none: those of its parent are neither used nor closed there.
    """

    def __init__(self, close: Callable[[Item], None]) -> None:
        self._close = close
        self._guard = threading.Lock()
        self._idle: list[_Idle[Item]] = []
        self._watching = False
        self._of_parent: list[_Idle[Item]] = []
        os.register_at_fork(after_in_child=self._begin_anew)

    def take(self, key: object) -> Item | None:
        """Take out the item that was kept last under this key; None: there is none."""
        with self._guard:
            for place in reversed(range(len(self._idle))):
                if self._idle[place].key == key:
                    return self._idle.pop(place).item
        return None

    def keep(self, key: object, item: Item) -> None:
        """Keep an item until it is taken; after `LINGER` seconds it is closed."""
        with self._guard:
            self._idle.append(_Idle(key, item, time.monotonic()))
            starts, self._watching = not self._watching, True
        if starts:
            threading.Thread(target=self._watch, name="tidegauge-idle", daemon=True).start()

    def close(self, key: object = None) -> None:
        """Close the items under this key; None: all."""
        self._close_idle(key=key)

    def _watch(self) -> None:
        """Close what nobody has used for a moment, until nothing is left."""
        while True:
            time.sleep(_NAP)
            self._close_idle(until=time.monotonic() - LINGER)
            with self._guard:
                if not self._idle:
                    self._watching = False
                    return

    def _close_idle(self, *, key: object = None, until: float = math.inf) -> None:
        """Close what was last used `until` then, under this key or any."""
        with self._guard:
            over = [one for one in self._idle if one.since <= until and key in (None, one.key)]
            self._idle = [one for one in self._idle if one not in over]
        for one in over:
            self._close(one.item)

    def _begin_anew(self) -> None:
        self._of_parent += self._idle  # never freed: that would close them
        self._guard, self._idle, self._watching = threading.Lock(), [], False
