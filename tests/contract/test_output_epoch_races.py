"""Writers that are paused anywhere, or race, while somebody else opens the table's next epoch."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from typing import Any

import pytest

from tests.contract.test_output_races import Where, open_lake, where
from tests.support.output_parts import LAYOUT, batch, staged, tag
from tidegauge.errors import OutputDisagrees
from tidegauge.model.staged import DataFile
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.outputs.lake.table import load_committed
from tidegauge.storage.store import Store, open_store

__all__ = ["where"]  # a fixture

WINDOW = batch("2025-08-14 15:30:22.123456")
FILES = (DataFile("data/old/part-0.parquet", 1, 1),)

_processes = multiprocessing.get_context("spawn")

PAUSES = ["before publish", "before the put", "after the put", "between the two looks of the receipt"]


class Sleeper:
    """A store at which this process stops, once, just before a call."""

    def __init__(self, store: Store, pause: str) -> None:
        self.store = store
        self.pause = pause
        self.landed = False
        self.looks = 0

    def put_if_absent(self, path: str, body: bytes) -> bool:
        self._maybe("before the put")
        won = self.store.put_if_absent(path, body)
        self.landed = True
        self._maybe("after the put")
        return won

    def get(self, path: str, *, durable: bool = False) -> bytes | None:
        if self.landed:
            self.looks += 1
            if self.looks == 2:
                self._maybe("between the two looks of the receipt")
        return self.store.get(path, durable=durable)

    def _maybe(self, here: str) -> None:
        if here == self.pause:
            os.kill(os.getpid(), signal.SIGSTOP)

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)


def paused_writer(where: Where, pause: str, answers: Any) -> None:
    """The end of a batch as a walk does it: publish, and then ask before the watermark may move."""
    lake = open_lake(where)
    sleeper = Sleeper(open_store(lake), pause)
    output = LakeOutput(lake, "t", store=sleeper)  # type: ignore[arg-type]
    if pause == "before publish":
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        output.commit(tag(2), WINDOW, staged(FILES), layout=LAYOUT, run_id="zombie")
        answers.put(("advances", str(output.receipt(tag(2)))))
    except OutputDisagrees as error:
        answers.put((type(error).__name__, error.message))


@pytest.mark.parametrize("continues", [None, (0, 1)], ids=["reset", "set"])
@pytest.mark.parametrize("pause", PAUSES)
def test_b17_a_writer_paused_while_the_next_life_is_opened_cannot_advance(
    where: Where, pause: str, continues: tuple[int, int] | None
) -> None:
    lake = open_lake(where)
    output = LakeOutput(lake, "t")
    output.commit(tag(1), WINDOW, staged(), layout=LAYOUT, run_id="first")
    answers = _processes.Queue()
    writer = _processes.Process(target=paused_writer, args=(where, pause, answers))
    writer.start()
    assert writer.pid
    _, status = os.waitpid(writer.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    output.open_epoch("shop", "shop.orders", 1, continues, "reset by hand")
    output.commit(tag(1, epoch=1), WINDOW, staged(), layout=LAYOUT, run_id="new epoch")
    there = [one.tag for one in load_committed(lake, "t")]
    os.kill(writer.pid, signal.SIGCONT)
    assert answers.get(timeout=600)[0] == "OutputDisagrees"
    writer.join(60)
    assert [one.tag for one in load_committed(lake, "t")] == there
    assert there == ([tag(1)] if continues else []) + [tag(1, epoch=1)]


def write_until_refused(where: Where, started: Any, lock: Any, fence: Any, counted: Any, ends: Any) -> None:
    """A runner whose ledger is two numbers under a lock: the fence it claimed, and the batches counted."""
    output = LakeOutput(open_lake(where), "t")
    started.set()
    for seq in range(1, 100_000):
        try:
            output.commit(tag(seq), WINDOW, staged(), layout=LAYOUT, run_id="old")
            receipt = output.receipt(tag(seq))
        except OutputDisagrees:
            ends.put("the output refused")
            return
        assert receipt is not None
        with lock:
            if fence.value:
                ends.put("the ledger refused")
                return
            counted.value = seq


def test_b17_what_the_ledger_counted_is_what_readers_of_the_next_life_see(where: Where) -> None:
    lake = open_lake(where)
    started, lock, ends = _processes.Event(), _processes.Lock(), _processes.Queue()
    fence, counted = _processes.Value("i", 0), _processes.Value("i", 0)
    writer = _processes.Process(target=write_until_refused, args=(where, started, lock, fence, counted, ends))
    writer.start()
    assert started.wait(60)
    until = time.monotonic() + 0.3 + random.random() / 5
    while time.monotonic() < until:
        numbers = [one.tag.seq for one in load_committed(lake, "t")]
        assert numbers == list(range(1, len(numbers) + 1))
    with lock:
        fence.value = 1
        upto = counted.value
    LakeOutput(lake, "t").open_epoch("shop", "shop.orders", 1, (0, upto), "set by hand")
    assert [one.tag.seq for one in load_committed(lake, "t")] == list(range(1, upto + 1))
    assert ends.get(timeout=600) in ("the output refused", "the ledger refused")
    writer.join(60)
    assert upto > 0
    assert [one.tag.seq for one in load_committed(lake, "t")] == list(range(1, upto + 1))


def open_at_once(where: Where, name: str, barrier: Any, answers: Any) -> None:
    output = LakeOutput(open_lake(where), "t")
    for epoch in range(1, 6):
        barrier.wait(60)
        try:
            # Every other epoch has two meanings; those who agree with the first are let in.
            reason = "the same" if epoch % 2 else f"of {name}"
            output.open_epoch("shop", "shop.orders", epoch, None, reason)
            answers.put((epoch, True))
        except OutputDisagrees:
            answers.put((epoch, False))


def test_b7_of_many_who_open_a_life_all_agree_on_its_meaning(where: Where) -> None:
    barrier, answers = _processes.Barrier(4), _processes.Queue()
    openers = [
        _processes.Process(target=open_at_once, args=(where, name, barrier, answers)) for name in "abcd"
    ]
    for opener in openers:
        opener.start()
    told: dict[int, list[bool]] = {}
    for _ in range(4 * 5):
        epoch, opened = answers.get(timeout=600)
        told.setdefault(epoch, []).append(opened)
    for opener in openers:
        opener.join(60)
    assert {epoch: sum(opened) for epoch, opened in told.items()} == {1: 4, 2: 1, 3: 4, 4: 1, 5: 4}
