"""Eight processes fight for one flow, on each store; some are killed, and one is paused past its lease.

Kills by the environment: `TIDEGAUGE_FIGHT_KILLS=60 pytest tests/crash/test_fight.py -s`.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.crash import fighter
from tests.support.nursery import Forked, Nursery
from tests.support.project import PATIENCE, until
from tidegauge.ledger.open import open_ledger

FIGHTERS = 8
KILLS = int(os.environ.get("TIDEGAUGE_FIGHT_KILLS", "5"))
PAUSE = 2 * fighter.LEASE.total_seconds()


@pytest.mark.shown_on("sqlite", "delta")
def test_b7_b8_eight_processes_fight_for_one_flow_and_nothing_is_lost(
    store_address: str, nursery: Nursery, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "clock").mkdir()
    with open_ledger(store_address, create=True) as ledger:
        ledger.now()

    def start(name: int) -> Forked:
        return nursery.main(store_address, tmp_path, name, module="tests.crash.fighter")

    chance, kills, pauses = random.Random(7), 0, 0
    fighters = [start(name) for name in range(FIGHTERS)]
    paused = 0

    def committed(more: int, before: float = math.inf) -> None:
        """Wait until so many batches have come since, or it is time to go on without."""
        wanted = len(_batches(tmp_path / "out")) + more
        until(
            lambda: (
                _alive(fighters) and (len(_batches(tmp_path / "out")) >= wanted or time.monotonic() > before)
            )
        )

    try:
        committed(1)
        os.kill(fighters[paused].pid, signal.SIGSTOP)
        wakes = time.monotonic() + PAUSE
        while kills < KILLS or not pauses:
            # By somebody who lived long enough: on a slow machine the others are still being born. Who is
            # paused may hold the lock of a file, and then nobody gets on before he does.
            committed(2, before=wakes)
            time.sleep(chance.uniform(0, 0.2))
            if time.monotonic() > wakes:
                os.kill(fighters[paused].pid, signal.SIGCONT)
                pauses += 1
                paused = (paused + 1) % FIGHTERS
                os.kill(fighters[paused].pid, signal.SIGSTOP)
                wakes = time.monotonic() + PAUSE
            victim = chance.choice([name for name in range(FIGHTERS) if name != paused])
            fighters[victim].kill()
            fighters[victim].wait()
            kills += 1
            fighters[victim] = start(victim)
        os.kill(fighters[paused].pid, signal.SIGCONT)
        committed(1)
    finally:
        for one in fighters:
            one.kill()
            one.wait()
    upto = fighter.head(tmp_path / "clock")
    with open_ledger(store_address, create=True) as ledger:
        deadline = time.monotonic() + PATIENCE
        while fighter.number(_position(ledger)) < upto and time.monotonic() < deadline:
            fighter.once(ledger, tmp_path / "out", upto)
        assert fighter.number(_position(ledger)) == upto
        [mark] = ledger.watermarks(fighter.PIPELINE)
        batches = _batches(tmp_path / "out")
        # Every number from 1 on, once, in order, and exactly as far as the ledger says.
        assert [seq for seq, _ in batches] == list(range(1, mark.seq + 1))
        edges = [0, *(body["upto"] for _, body in batches)]
        assert [body["after"] for _, body in batches] == edges[:-1]
        assert edges[-1] == upto
        fences = [body["fence"] for _, body in batches]
        assert fences == sorted(fences)
        events = list(reversed(ledger.history(fighter.PIPELINE, limit=100_000)))
        moved = [event for event in events if event.event == "advanced"]
        assert [fighter.number(event.after) for event in moved] == edges[1:]
        claims = Counter(event.event for event in events if event.event in ("claimed", "taken_over"))
        [status] = ledger.status(fighter.PIPELINE)
        assert status.fence == sum(claims.values()) >= max(fences)
    words = Counter(word for log in tmp_path.glob("*.log") for word in log.read_text().split())
    print(
        f"\n{request.node.callspec.id}: {kills} killed, {pauses} paused past the lease;"
        f" {len(batches)} batches, {claims['claimed']} claims, {claims['taken_over']} taken over;"
        f" {dict(words)}"
    )
    assert words["done"] > 0


def _alive(fighters: list[Forked]) -> bool:
    for one in fighters:
        assert one.poll() is None, one.said()
    return True


def _position(ledger: object) -> object:
    marks = ledger.watermarks(fighter.PIPELINE)  # type: ignore[attr-defined]
    return marks[0].position if marks else None


def _batches(output: Path) -> list[tuple[int, dict[str, int]]]:
    found = [
        (int(path.stem.partition("-")[2]), json.loads(path.read_text())) for path in output.glob("*.json")
    ]
    return sorted(found, key=lambda one: one[0])
