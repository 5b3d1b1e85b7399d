"""A command that kills itself with SIGKILL, or stops itself with SIGSTOP, at a function call inside it.

It runs as a task of the nursery (`call`): everything is imported, and it can be given the tests' Spark.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

from tests.crash.attached import attach
from tests.support.project import here
from tidegauge.ledger.sql_ledger import SqlLedger

if TYPE_CHECKING:
    from tests.support.nursery import Ended, Nursery
    from tidegauge.model.claim import Claim


@dataclass(frozen=True)
class Death:
    """Kill before or after the n-th call, counted over all functions, given as `module:attribute`."""

    places: tuple[str, ...]
    side: str = "after"
    times: int = 1


@dataclass(frozen=True)
class Stop:
    """Stop the process when each function has been entered so often, each time in another thread."""

    places: dict[str, int]


def start(
    nursery: Nursery,
    at: Death | Stop | None,
    spark: dict[str, Any] | None,
    *words: object,
    seconds: float = 600,
) -> int:
    """Start a process that runs this command; return its id. `nursery.end()` returns how it ended."""
    given = {
        "words": [str(word) for word in words],
        "death": asdict(at) if isinstance(at, Death) else None,
        "stop": at.places if isinstance(at, Stop) else None,
        "spark": spark,
    }
    return nursery.start("call", function="tests.crash.dying:command", given=given, seconds=seconds)


def run(nursery: Nursery, at: Death | None, spark: dict[str, Any] | None, *words: object) -> Ended:
    start(nursery, at, spark, *words)
    return nursery.end()


def command(
    words: list[str], death: dict[str, Any] | None, stop: dict[str, int] | None, spark: dict[str, Any] | None
) -> tuple[int, str]:
    if spark is not None:
        attach(**spark)
    if death is not None:
        _die_at(Death(**death))
    if stop is not None:
        _stop_at(stop)
    ran = here(*words)
    sys.stderr.write(ran.err)
    return ran.code, ran.out or ran.err


def _die_at(death: Death) -> None:
    left = death.times

    def arrive() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for place in death.places:
        _wrap(place, **{death.side: arrive})


def _stop_at(places: dict[str, int]) -> None:
    quiet = threading.Lock()
    renew = SqlLedger.renew

    def renew_in_turn(
        ledger: SqlLedger, claim: Claim, lease: timedelta, *, least: timedelta | None = None
    ) -> None:
        # A heartbeat stopped inside its transaction would hold SQLite's lock on the whole file.
        with quiet:
            renew(ledger, claim, lease, least=least)

    def stand_still() -> None:
        with quiet:
            os.kill(os.getpid(), signal.SIGSTOP)
            # Any thread may take the signal; this one must not run on until all threads have stopped.
            time.sleep(0.3)

    setattr(SqlLedger, "renew", renew_in_turn)  # noqa: B010
    together = threading.Barrier(sum(places.values()), action=stand_still)
    for place, times in places.items():
        tickets = iter(range(times))

        def arrive(tickets: Any = tickets) -> None:
            if next(tickets, None) is not None:
                together.wait(600)

        _wrap(place, before=arrive)


def _wrap(
    place: str, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None
) -> None:
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for one in owners:
        owner = getattr(owner, one)
    real = getattr(owner, name)

    @wraps(real)
    def wrapped(*given: Any, **named: Any) -> Any:
        if before is not None:
            before()
        answer = real(*given, **named)
        if after is not None:
            after()
        return answer

    setattr(owner, name, wrapped)
