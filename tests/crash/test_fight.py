"""Eight processes fight for one flow, on each store; one is killed every second, one paused past its lease.

Seconds by the environment: `TIDEGAUGE_FIGHT_SECONDS=60 pytest tests/crash/test_fight.py -s`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.crash import fighter
from tidegauge.ledger.open import open_ledger

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

FIGHTERS = 8
SECONDS = float(os.environ.get("TIDEGAUGE_FIGHT_SECONDS", "6"))
PAUSE = 2 * fighter.LEASE.total_seconds()


def test_b7_b8_eight_processes_fight_for_one_flow_and_nothing_is_lost(
    store_address: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "clock").mkdir()
    with open_ledger(store_address, create=True) as ledger:
        ledger.now()

    def start(name: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.crash.fighter", store_address, str(tmp_path), str(name)]
        return subprocess.Popen(command, stderr=(tmp_path / f"stderr-{name}").open("wb"))

    chance, kills, pauses = random.Random(7), 0, 0
    fighters = [start(name) for name in range(FIGHTERS)]
    until, paused, wakes = time.monotonic() + SECONDS, 0, time.monotonic() + PAUSE
    try:
        time.sleep(1.5)
        os.kill(fighters[paused].pid, signal.SIGSTOP)
        while time.monotonic() < until:
            time.sleep(1)
            for name, one in enumerate(fighters):
                assert one.poll() is None, (tmp_path / f"stderr-{name}").read_text()
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
        time.sleep(0.5)
    finally:
        for one in fighters:
            one.kill()
            one.wait()
    upto = fighter.head(tmp_path / "clock")
    with open_ledger(store_address, create=True) as ledger:
        deadline = time.monotonic() + 30
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
        f"\n{request.node.callspec.id}: {SECONDS:.0f} s, {kills} killed, {pauses} paused past the lease;"
        f" {len(batches)} batches, {claims['claimed']} claims, {claims['taken_over']} taken over;"
        f" {dict(words)}"
    )
    assert kills >= SECONDS / 2
    assert words["done"] > 0


def _position(ledger: object) -> object:
    marks = ledger.watermarks(fighter.PIPELINE)  # type: ignore[attr-defined]
    return marks[0].position if marks else None


def _batches(output: Path) -> list[tuple[int, dict[str, int]]]:
    found = [
        (int(path.stem.partition("-")[2]), json.loads(path.read_text())) for path in output.glob("*.json")
    ]
    return sorted(found, key=lambda one: one[0])
