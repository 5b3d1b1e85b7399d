"""Many who replace one file at once, and those who die at it: none is lost, and nobody sees half a file."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.contract.test_output_races import Where, open_lake
from tests.support.output_parts import s3_lake
from tests.support.servers import S3
from tidegauge.errors import OutputUnreachable
from tidegauge.storage import lock
from tidegauge.storage.local import LocalFiles
from tidegauge.storage.store import open_store

PATH = "watermarks/orders.json"
FILLER = b"." * 200_000
"""Enough for more than one page and one packet."""
RUNNERS, WINS = 8, 12

_processes = multiprocessing.get_context("spawn")


@pytest.fixture(params=["local", "s3"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    if request.param == "local":
        return (str(tmp_path), None, None, "", "")
    server: S3 = request.getfixturevalue("s3")
    return (s3_lake(server).path, server.endpoint, server.region, server.access_key, server.secret_key)


def body(number: int, name: str) -> bytes:
    return f"{number} {name} ".encode() + FILLER + b" end"


def number_in(found: tuple[bytes, str] | None) -> int:
    """Fails for a file that is torn."""
    if found is None:
        return 0
    number, _, filler, end = found[0].split(b" ")
    assert (filler, end) == (FILLER, b"end")
    return int(number)


def count_up(where: Where, name: str, wins: int, won: Any) -> None:
    """Add one to the number in the file, as often as one wins."""
    store = open_store(open_lake(where))
    while wins:
        found = store.read(PATH)
        number = number_in(found) + 1
        if store.replace(PATH, body(number, name), found[1] if found else None) is not None:
            won.put(number)
            wins -= 1


@pytest.mark.shown_on("s3")
def test_b7_of_eight_processes_exactly_one_replaces_each_version(where: Where) -> None:
    won = _processes.Queue()
    runners = [
        _processes.Process(target=count_up, args=(where, f"runner-{number}", WINS, won))
        for number in range(RUNNERS)
    ]
    for runner in runners:
        runner.start()
    numbers = [won.get(timeout=600) for _ in range(RUNNERS * WINS)]
    for runner in runners:
        runner.join(600)
    assert sorted(numbers) == list(range(1, RUNNERS * WINS + 1))
    store = open_store(open_lake(where))
    assert number_in(store.read(PATH)) == RUNNERS * WINS
    assert [entry.path for entry in store.list("watermarks")] == [PATH]


def slow_import(frame: FrameType, *_: object) -> Any:
    """Stay a while at each line of the package's own file."""
    if not frame.f_code.co_filename.endswith("obstore/__init__.py"):
        return None
    time.sleep(0.1)
    return slow_import


def put_first(where: Where, won: Any) -> None:
    assert "obstore" not in sys.modules
    threading.settrace(slow_import)

    def put(number: int) -> bool:
        time.sleep(number * 0.08)
        return open_store(open_lake(where)).put_if_absent(PATH, body(number, "first"))

    with ThreadPoolExecutor(RUNNERS) as pool:
        won.put(list(pool.map(put, range(RUNNERS))))


def test_threads_that_are_the_first_to_need_s3_all_get_it_whole(s3: S3) -> None:
    where = (s3_lake(s3).path, s3.endpoint, s3.region, s3.access_key, s3.secret_key)
    won = _processes.Queue()
    first = _processes.Process(target=put_first, args=(where, won))
    first.start()
    first.join(600)
    assert first.exitcode == 0
    assert won.get(timeout=600).count(True) == 1


def count_for_ever(where: Where, told: Any) -> None:
    store = open_store(open_lake(where))
    while True:
        found = store.read(PATH)
        number = number_in(found) + 1
        if store.replace(PATH, body(number, "killed"), found[1] if found else None) is not None:
            told.value = number


@pytest.mark.shown_on("s3")
def test_b6_a_process_killed_inside_a_replacement_leaves_the_old_or_the_new(where: Where) -> None:
    store = open_store(open_lake(where))
    last = 0
    for attempt in range(6):
        told = _processes.Value("i", last, lock=False)
        runner = _processes.Process(target=count_for_ever, args=(where, told))
        runner.start()
        while told.value == last:
            assert runner.is_alive()
            time.sleep(0.001)
        time.sleep(random.Random(attempt).random() / 5)
        assert runner.pid
        os.kill(runner.pid, signal.SIGKILL)
        runner.join(600)
        before, last = told.value, number_in(store.read(PATH))
        # What was told is there; one more may be, whose answer the dead never heard.
        assert before <= last <= before + 1
    found = store.read(PATH)
    assert found is not None
    assert store.replace(PATH, b"next", found[1]) is not None


def hold(path: str, ready: Any) -> None:
    with lock.locked(Path(path)):
        ready.set()
        time.sleep(600)


def start_holder(tmp_path: Path) -> Any:
    ready = _processes.Event()
    holder = _processes.Process(target=hold, args=(str(tmp_path / PATH), ready))
    holder.start()
    assert ready.wait(600)
    return holder


def test_a_lock_ends_with_its_holder_when_that_is_killed(tmp_path: Path) -> None:
    store = LocalFiles(str(tmp_path))
    token = store.replace(PATH, b"one", None)
    holder = start_holder(tmp_path)
    os.kill(holder.pid, signal.SIGKILL)
    holder.join(600)
    assert store.replace(PATH, b"two", token) is not None
    assert [entry.path for entry in store.list("watermarks")] == [PATH]


def test_a_holder_that_was_paused_is_waited_for_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.5)
    store = LocalFiles(str(tmp_path))
    token = store.replace(PATH, b"one", None)
    holder = start_holder(tmp_path)
    os.kill(holder.pid, signal.SIGSTOP)
    try:
        assert store.read(PATH) == (b"one", token)  # who only reads does not wait
        with pytest.raises(OutputUnreachable, match=r"\.orders\.json\.lock is held by another") as caught:
            store.replace(PATH, b"two", token)
        assert caught.value.retryable
        assert store.read(PATH) == (b"one", token)
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.join(600)
    assert store.replace(PATH, b"two", token) is not None


def test_a_lock_that_its_holder_removed_is_not_taken_for_a_lock(tmp_path: Path) -> None:
    """Who opened the lock's file before it was removed must not believe that he holds the new one's."""
    target = tmp_path / "x"
    left = tmp_path / ".x.lock"
    handle = os.open(left, os.O_RDWR | os.O_CREAT)
    left.unlink()
    fcntl.flock(handle, fcntl.LOCK_EX)  # holds a file that nobody finds any more
    with lock.locked(target):
        assert left.exists()
    os.close(handle)
    assert not left.exists()
