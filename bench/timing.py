"""Measure two things in turns, so that whatever else the machine does falls on both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Stopwatch:
    """Adds up the stretches it is started for, so that preparation in between does not count."""

    seconds: float = field(default=0.0)

    @contextmanager
    def running(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - began


@dataclass(frozen=True)
class Pairs:
    """Seconds of ours and of the reference, turn by turn."""

    ours: tuple[float, ...]
    reference: tuple[float, ...]

    @property
    def median_ours(self) -> float:
        return statistics.median(self.ours)

    @property
    def median_reference(self) -> float:
        return statistics.median(self.reference)

    @property
    def median_difference(self) -> float:
        """Of each turn by itself: a slow moment of the disk falls on both sides of one turn."""
        return statistics.median(a - b for a, b in zip(self.ours, self.reference, strict=True))


def in_turns(
    times: int,
    ours: Callable[[int], float],
    reference: Callable[[int], float],
    *,
    warm_up: int = 1,
) -> Pairs:
    """Each callable gets the number of its turn and answers with its seconds; warm-up turns do not count."""
    a: list[float] = []
    b: list[float] = []
    for turn in range(warm_up + times):
        first, second = ours(turn), reference(turn)
        if turn >= warm_up:
            a.append(first)
            b.append(second)
    return Pairs(tuple(a), tuple(b))
