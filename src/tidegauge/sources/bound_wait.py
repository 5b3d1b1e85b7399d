"""Waits for transactions that were open when a bound was taken, and keeps bounds that it did not wait for.

A bound is safe once everything that was open when it was taken has ended: by then every row that is stamped
or numbered at or below it is committed. When that work began need not be known, and on MySQL it cannot be.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Protocol

from tidegauge.model.position import Value
from tidegauge.model.spec import TableOptions
from tidegauge.sources.bound import must_wait_for
from tidegauge.sources.candidate import BoundCandidate, drop_ended, identity
from tidegauge.sources.dialect import ClockReading, OpenWork

SHORT = 1.0
"""Seconds to wait for the newest candidate: most open transactions last milliseconds."""
LONG = 5.0
"""Seconds to wait for a bound of timestamps that is no older than this."""
_OLD = timedelta(minutes=1)
"""Work that has been open for longer is not waited for: it will hardly end within the next seconds."""
_LOOKS = 8
_PAUSES = (0.01, 0.02, 0.05, 0.1)


@dataclass(frozen=True)
class ReadyBound:
    """How far a survey may read, and what it did not wait for."""

    candidate: BoundCandidate | None
    """The newest candidate that is safe."""
    waiting: tuple[BoundCandidate, ...]
    """Newer candidates, which are not safe yet."""
    moment: ClockReading
    """The last look at the source."""
    blockers: tuple[OpenWork, ...]
    """The open work that keeps the newest candidate from being safe."""

    @property
    def age(self) -> float:
        """Seconds from the safe candidate to the last look; infinite if none is safe."""
        return (self.moment.clock - self.candidate.seen).total_seconds() if self.candidate else math.inf


class AskServer(Protocol):
    def __call__(self, *, fresh: bool) -> ClockReading: ...


class BoundWait:
    """Looks at one source, for all of its tables: a look made for one table serves the next."""

    def __init__(self, ask: AskServer) -> None:
        self._ask = ask
        self._last: ClockReading | None = None
        self._known: dict[tuple[str, ...], float] = {}
        """By identity of open work: the monotonic time at which it was first seen."""
        self._looks: tuple[BoundCandidate, ...] = ()

    def look(self, *, fresh: bool) -> ClockReading:
        moment = self._ask(fresh=fresh)
        if moment is self._last:
            return moment
        self._last, now = moment, time.monotonic()
        self._known = {identity(work): self._known.get(identity(work), now) for work in moment.open}
        looks = [drop_ended(one, moment) for one in self._looks]
        safe = max((one.seen for one in looks if not one.open), default=datetime.min)
        looks = [one for one in looks if one.seen >= safe]
        self._looks = (*looks[: _LOOKS - 1], BoundCandidate(None, moment.clock, moment.open))
        return moment

    def moments(self, options: TableOptions, kept: tuple[BoundCandidate, ...]) -> ReadyBound:
        """The bound for a cursor of timestamps, from the looks of this process and the candidates `kept` by
        earlier ones."""
        known: dict[datetime, BoundCandidate] = {one.seen: one for one in kept}

        def choose(moment: ClockReading) -> ReadyBound:
            # `look` has already dropped ended work from the looks of this process.
            known.update({seen: drop_ended(one, moment) for seen, one in known.items()})
            known.update({one.seen: one for one in self._looks})
            # A candidate past the clock was taken while the clock was ahead: it is no bound.
            return _choose([one for one in known.values() if one.seen <= moment.clock], moment, options)

        def is_enough(found: ReadyBound) -> bool:
            waited = self._count_waited(found)
            return waited >= LONG or found.age <= SHORT or (waited >= SHORT and found.age <= LONG)

        found = self._await(self.look(fresh=False), choose, is_enough)
        # Nothing to keep: the next survey finds an equally young bound by itself.
        return replace(found, waiting=()) if found.age <= LONG else found

    def values(self, options: TableOptions, kept: tuple[BoundCandidate, ...], value: Value) -> ReadyBound:
        """The bound for a cursor of values; `value` is the highest just now."""
        # The clock is read after the value, so whatever was open when the value was seen is in the list.
        moment = self.look(fresh=True)
        known = [*kept, BoundCandidate(value, moment.clock, moment.open)]

        def choose(moment: ClockReading) -> ReadyBound:
            known[:] = [drop_ended(one, moment) for one in known]
            return _choose(known, moment, options)

        # Where open work cannot be seen, `settle` has to pass, which is too long to wait for.
        return self._await(
            moment, choose, lambda found: moment.blind is not None or self._count_waited(found) >= SHORT
        )

    def _await(
        self,
        moment: ClockReading,
        choose: Callable[[ClockReading], ReadyBound],
        is_enough: Callable[[ReadyBound], bool],
    ) -> ReadyBound:
        pauses = chain(_PAUSES, repeat(_PAUSES[-1]))
        while (found := choose(moment)).blockers and not is_enough(found):
            time.sleep(next(pauses))
            moment = self.look(fresh=True)
        return found

    def _count_waited(self, found: ReadyBound) -> float:
        """Seconds since the first of the blockers was first seen; infinite if waiting is of no use."""
        clock, now = found.moment.now, time.monotonic()
        if any(clock - work.started > _OLD for work in found.blockers):
            return math.inf
        return max(now - self._known[identity(work)] for work in found.blockers)


def _choose(candidates: Iterable[BoundCandidate], moment: ClockReading, options: TableOptions) -> ReadyBound:
    """Choose the newest safe candidate, and keep the newer ones: if those were dropped too, in a steady
    stream of transactions none would ever become safe."""
    ordered = sorted(candidates, key=lambda one: one.seen)
    safe = None
    for place, one in enumerate(ordered):
        # A bound of timestamps is `settle` below its candidate already.
        old_enough = moment.blind is None or one.value is None or moment.clock - one.seen >= options.settle
        if old_enough and not any(must_wait_for(work, moment, options) for work in one.open):
            safe = place
    blockers = tuple(work for work in ordered[-1].open if must_wait_for(work, moment, options))
    if safe is None:
        return ReadyBound(None, tuple(ordered), moment, blockers)
    return ReadyBound(ordered[safe], tuple(ordered[safe + 1 :]), moment, blockers)
