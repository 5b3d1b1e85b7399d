"""Many writers at once, and writers that die: exactly one wins, and nobody ever sees half a manifest."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.output_parts import LAYOUT, batch, local_lake, s3_lake, staged, tag
from tests.support.servers import S3
from tidegauge.model.plan import Receipt
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake
from tidegauge.model.staged import DataFile
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.outputs.lake.table import load_committed
from tidegauge.storage.store import open_store

WINDOW = batch("2025-08-14 15:30:22.123456")
ROUNDS = 10
FILES = tuple(DataFile(f"data/a/part-{number}.parquet", 1, 1) for number in range(2000))
"""Enough for a manifest of more than one page and one packet."""

_processes = multiprocessing.get_context("spawn")
Where = tuple[str, str | None, str | None, str, str]


@pytest.fixture(params=["local", "s3"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    """A lake as plain values: a secret does not travel between processes."""
    if request.param == "local":
        return (str(tmp_path), None, None, "", "")
    server: S3 = request.getfixturevalue("s3")
    return (s3_lake(server).path, server.endpoint, server.region, server.access_key, server.secret_key)


def open_lake(where: Where) -> Lake:
    path, endpoint, region, access, secret = where
    if endpoint is None:
        return local_lake(Path(path))
    return Lake("lake", path, endpoint, region, Secret(access), Secret(secret))


def race(where: Where, name: str, barrier: Any, answers: Any) -> None:
    output = LakeOutput(open_lake(where), "t")
    for seq in range(1, ROUNDS + 1):
        barrier.wait(60)
        receipt = output.commit(tag(seq), WINDOW, staged(FILES), layout=LAYOUT, run_id=name)
        answers.put((seq, name, receipt))


@pytest.mark.shown_on("s3")
def test_b7_of_eight_processes_exactly_one_commits_each_batch(where: Where) -> None:
    barrier, answers = _processes.Barrier(8), _processes.Queue()
    runners = [
        _processes.Process(target=race, args=(where, f"runner-{number}", barrier, answers))
        for number in range(8)
    ]
    for runner in runners:
        runner.start()
    told: dict[int, list[Receipt]] = {}
    for _ in range(8 * ROUNDS):
        seq, _, receipt = answers.get(timeout=600)
        told.setdefault(seq, []).append(receipt)
    for runner in runners:
        runner.join(60)
    there = {one.tag.seq: one.receipt for one in load_committed(open_lake(where), "t")}
    assert len(there) == ROUNDS
    for seq, receipts in told.items():
        assert set(receipts) == {there[seq]}
    store = open_store(open_lake(where))
    assert len(list(store.list("t"))) == ROUNDS


def put_for_ever(where: Where, started: Any) -> None:
    output = LakeOutput(open_lake(where), "t")
    started.set()
    for seq in range(1, 1_000_000):
        output.commit(tag(seq), WINDOW, staged(FILES), layout=LAYOUT, run_id="killed")


@pytest.mark.shown_on("s3")
def test_b6_a_process_killed_inside_a_put_leaves_nothing_or_the_whole(where: Where) -> None:
    lake, seen = open_lake(where), 0
    for attempt in range(5):
        started = _processes.Event()
        runner = _processes.Process(target=put_for_ever, args=(where, started))
        runner.start()
        assert started.wait(60)
        time.sleep(0.05 + random.Random(attempt).random() / 4)
        assert runner.pid
        os.kill(runner.pid, signal.SIGKILL)
        runner.join(60)
        manifests = load_committed(lake, "t")  # raises for one that is torn
        assert [one.tag.seq for one in manifests] == list(range(1, len(manifests) + 1))
        assert all(one.files == FILES for one in manifests)
        assert len(manifests) >= seen
        seen = len(manifests)
    assert seen
    output = LakeOutput(lake, "t")
    after = output.commit(tag(seen + 1), WINDOW, staged(FILES), layout=LAYOUT, run_id="next")
    assert after == output.receipt(tag(seen + 1))
