"""What the ledger costs a run: every call of one flow with ten batches, besides what the disk takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy import Connection, Engine, event
from tests.support.drafts import ME, draft, receipt

from bench.result import Result
from bench.stores import Store, run, stores
from bench.timing import Pairs, Stopwatch, in_turns
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.model.state import State

BATCHES = 10
BUDGET = 20.0
"""Milliseconds besides the disk's own, on SQLite."""
_TIMES = 25
_LEASE = timedelta(seconds=60)


def measure() -> list[Result]:
    with stores() as found:
        return [_measured(store) for store in found]


def _measured(store: Store) -> Result:
    pairs, commits = _pairs(store)
    besides, whole = 1000 * pairs.median_difference, 1000 * pairs.median_ours
    on_sqlite = store.name == "sqlite"
    return Result(
        name=f"bookkeeping of {BATCHES} batches besides commits, {store.name}",
        ours=besides,
        reference=BUDGET,
        goal=1.0 if on_sqlite else None,
        unit="ms",
        against=f"the budget of {BUDGET:.0f} ms" + ("" if on_sqlite else ", which is SQLite's"),
        more={
            "whole": round(whole, 3),
            "bare_commits": round(1000 * pairs.median_reference, 3),
            "commits": commits,
            "times": _TIMES,
            "store": f"{store.name} {store.version}",
        },
    )


def _pairs(store: Store) -> tuple[Pairs, int]:
    """Seconds of the calls, and of as many commits of one small row by the driver alone."""
    place, empty = store.place(), store.place()
    with open_ledger(place.address, create=True) as ledger, empty.bare() as bare:
        run(bare, "CREATE TABLE bare (n INTEGER NOT NULL)", "INSERT INTO bare VALUES (0)")
        begin = "BEGIN IMMEDIATE" if store.name == "sqlite" else "BEGIN"
        with counted() as commits:
            _one_flow(ledger, "counted")
            wanted = commits[0]

        def theirs(_: int) -> float:
            watch = Stopwatch()
            with watch.running():
                for _ in range(wanted):
                    run(bare, begin, "UPDATE bare SET n = n + 1", "COMMIT")
            return watch.seconds

        pairs = in_turns(_TIMES, lambda turn: _one_flow(ledger, f"flow {turn}"), theirs, warm_up=3)
        return pairs, wanted


def _one_flow(ledger: Ledger, flow: str) -> float:
    """The calls of `engine.run` for one flow, in its order, with nothing between them."""
    drafted = draft(flow, batches=BATCHES)
    watch = Stopwatch()
    with watch.running():
        ledger.status(drafted.pipeline, [flow])
        ledger.watermarks(drafted.pipeline, [flow])
        plan = ledger.plan([drafted], owner=ME, run_id="bench")[flow]
        ledger.status(drafted.pipeline, [flow])
        claim = ledger.claim(plan, owner=ME, run_id="bench", lease=_LEASE)
        for index in range(BATCHES):
            ledger.begin(claim, index)
            ledger.renew(claim, _LEASE)
            ledger.advance(claim, index, receipt(plan, index))
        ledger.finish(claim, State.SUCCESS)
    return watch.seconds


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many commits SQLAlchemy makes in the meantime."""
    commits = [0]

    def seen(_: Connection) -> None:
        commits[0] += 1

    event.listen(Engine, "commit", seen)
    try:
        yield commits
    finally:
        event.remove(Engine, "commit", seen)
