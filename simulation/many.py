"""Runs many schedules, in one or more processes."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from simulation.schedule import Schedule
from simulation.world import Violation

_CHUNK = 250


@dataclass(frozen=True)
class Broken:
    """A schedule in which an invariant did not hold."""

    seed: int
    invariant: str
    message: str

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.invariant}: {self.message}"


@dataclass
class Outcome:
    tally: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Outcome) -> None:
        self.tally.update(other.tally)
        self.broken += other.broken


def trace(seed: int, *, documents: bool = False) -> list[str]:
    """Return one line for each step of a schedule, with the violation or the verdict as the last line."""
    schedule = Schedule(seed, trace=True, documents=documents)
    lines = schedule.world.trace
    assert lines is not None
    try:
        schedule.run()
    except Violation as violation:
        return [f"seed {seed}", *lines, f"VIOLATED  {violation}"]
    return [f"seed {seed}", *lines, "every invariant holds"]


def simulate(
    seeds: range,
    *,
    jobs: int = 1,
    documents: bool = False,
    tell: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Run the schedule of each seed; `tell` is called with the outcome so far after each chunk."""
    began = time.monotonic()
    total = Outcome()
    for part in _simulate_chunks(seeds, jobs, documents):
        total.add(part)
        total.seconds = time.monotonic() - began
        if tell is not None:
            tell(total)
    total.broken.sort(key=lambda one: one.seed)
    total.seconds = time.monotonic() - began
    return total


def first_broken(seeds: range) -> Broken | None:
    """Find the first schedule that breaks an invariant; None if none does."""
    return next((broken for seed in seeds for broken in _simulate_chunk(range(seed, seed + 1)).broken), None)


def _simulate_chunks(seeds: range, jobs: int, documents: bool) -> Iterator[Outcome]:
    chunks = [seeds[start : start + _CHUNK] for start in range(0, len(seeds), _CHUNK)]
    if jobs == 1:
        yield from map(partial(_simulate_chunk, documents=documents), chunks)
        return
    # Spawned, not forked: the calling process may have threads.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(partial(_simulate_chunk, documents=documents), chunks)


def _simulate_chunk(seeds: range, *, documents: bool = False) -> Outcome:
    outcome = Outcome()
    for seed in seeds:
        schedule = Schedule(seed, documents=documents)
        try:
            outcome.tally.update(schedule.run())
        except Violation as violation:
            outcome.broken.append(Broken(seed, violation.invariant, violation.message))
    return outcome
