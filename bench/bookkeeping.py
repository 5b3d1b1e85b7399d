"""What the ledger costs a run: all calls for one flow with ten batches, minus as many bare commits."""

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
"""Milliseconds that the calls may take on SQLite, minus the time of the bare commits."""
_TIMES = 25
_LEASE = timedelta(seconds=60)


def measure() -> list[Result]:
    with stores() as found:
        return [_measure_one(store) for store in found]


def _measure_one(store: Store) -> Result:
    pairs, commits = _measure_pairs(store)
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


def _measure_pairs(store: Store) -> tuple[Pairs, int]:
    """Time the calls against as many bare commits of one small row; also return how many commits."""
    place, empty = store.place(), store.place()
    with open_ledger(place.address, create=True) as ledger, empty.bare() as bare:
        run(bare, "CREATE TABLE bare (n INTEGER NOT NULL)", "INSERT INTO bare VALUES (0)")
        begin = "BEGIN IMMEDIATE" if store.name == "sqlite" else "BEGIN"
        with counted() as commits:
            _time_one_flow(ledger, "counted")
            wanted = commits[0]

        def theirs(_: int) -> float:
            watch = Stopwatch()
            with watch.running():
                for _ in range(wanted):
                    run(bare, begin, "UPDATE bare SET n = n + 1", "COMMIT")
            return watch.seconds

        pairs = in_turns(_TIMES, lambda turn: _time_one_flow(ledger, f"flow {turn}"), theirs, warm_up=3)
        return pairs, wanted


def _time_one_flow(ledger: Ledger, flow: str) -> float:
    """Make the ledger calls that a run makes for one flow, in the same order; return their seconds."""
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
    """Count the commits that SQLAlchemy makes inside the `with` block."""
    commits = [0]

    def seen(_: Connection) -> None:
        commits[0] += 1

    event.listen(Engine, "commit", seen)
    try:
        yield commits
    finally:
        event.remove(Engine, "commit", seen)
