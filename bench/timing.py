"""Measures two things in turns, so that other load on the machine affects both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Stopwatch:
    """Adds up the time inside its `with` blocks, so that preparation between them does not count."""

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
    """Seconds of ours and of the reference, one of each per turn."""

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
        """The median of the differences within a turn: a slow disk affects both sides of one turn."""
        return statistics.median(a - b for a, b in zip(self.ours, self.reference, strict=True))


def in_turns(
    times: int,
    ours: Callable[[int], float],
    reference: Callable[[int], float],
    *,
    warm_up: int = 1,
) -> Pairs:
    """Call both in turns; each gets the turn's number and returns seconds. Warm-up turns do not count."""
    a: list[float] = []
    b: list[float] = []
    for turn in range(warm_up + times):
        first, second = ours(turn), reference(turn)
        if turn >= warm_up:
            a.append(first)
            b.append(second)
    return Pairs(tuple(a), tuple(b))
