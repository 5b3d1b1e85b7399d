"""Tells open pages that something has changed; they then fetch their contents again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from tidegauge.errors import TidegaugeError

LOOK_EVERY = 1.0
_WAKE_EVERY = 0.25
_PING_EVERY = 15.0


class LedgerWatch:
    """Looks at the ledger while pages listen, once a second for all of them. `pulse` returns a value that
    changes whenever something on a page has changed."""

    def __init__(self, pulse: Callable[[], object]) -> None:
        self._pulse = pulse
        self._lock = asyncio.Lock()
        self._looked = 0.0
        self._seen: object = None
        self._changes = 0
        self.ended = False
        """Set when the server stops, to end all listening connections."""

    async def listen(self, is_gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
        """Yields server-sent events until the server stops or the listener is gone."""
        await self._look()
        known, said = self._changes, time.monotonic()
        yield "retry: 1000\n\n"
        while not self.ended and not await is_gone():
            await self._look()
            if self._changes != known:
                known, said = self._changes, time.monotonic()
                yield f"event: changed\nid: {known}\ndata: {known}\n\n"
            elif time.monotonic() - said > _PING_EVERY:
                said = time.monotonic()
                yield ": still here\n\n"
            await asyncio.sleep(_WAKE_EVERY)

    async def _look(self) -> None:
        async with self._lock:
            if self._looked and time.monotonic() - self._looked < LOOK_EVERY:
                return
            found = await asyncio.to_thread(self._take_pulse)
            self._looked = time.monotonic()
            if found != self._seen:
                self._seen = found
                self._changes += 1

    def _take_pulse(self) -> object:
        try:
            return self._pulse()
        except TidegaugeError as error:
            return error.sentence
