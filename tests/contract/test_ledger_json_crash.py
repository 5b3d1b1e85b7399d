"""A JSON ledger whose writers are killed between any two calls to the file system, or paused there."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_ledger_races import CALLS, _stage
from tests.support import processes
from tests.support.drafts import ME, OTHER, draft, receipt
from tidegauge.errors import FlowHeld, LedgerUnreachable
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.model.state import State
from tidegauge.storage import lock

MINUTE = timedelta(minutes=1)
TOUCHES = ("fsync", "link", "replace", "unlink", "mkdir", "utime", "open")
"""All that a ledger on a folder does to it."""

Seen = dict[str, tuple[object, ...]]


def killed_at(number: int) -> None:
    """Die just before this process touches the file system for the number-th time."""
    seen = 0

    def counting(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **options)

        return call

    for name in TOUCHES:
        setattr(os, name, counting(getattr(os, name)))


def seen_by_all(folder: Path) -> Seen:
    """Each flow as the ledger tells it, without names and times that differ from try to try."""
    with open_ledger(f"json:{folder}", create=True) as ledger:
        marks = {mark.flow: (mark.position, mark.checked, mark.seq) for mark in ledger.watermarks("shop")}
        ticks = ledger.ticks("shop").schedules.items()
        schedules = tuple((name, one.ran, one.runner) for name, one in ticks)
        return ({"*": schedules} if schedules else {}) | {
            one.flow: (
                one.state,
                one.suspended is not None,
                one.fence,
                one.owner,
                one.plan and one.plan.done,
                one.last_run and (one.last_run.state, one.last_run.rows_written),
                marks.get(one.flow),
                tuple(event.event for event in ledger.history("shop", flow=one.flow)),
            )
            for one in ledger.status("shop")
        }


@pytest.mark.shown_on("plan", "advance", "forget")
@pytest.mark.parametrize("call", CALLS)
def test_b6_a_writer_killed_at_any_touch_leaves_each_flow_as_it_was_or_as_it_should_be(
    tmp_path: Path, call: str
) -> None:
    start, folder = tmp_path / "start", tmp_path / "ledger"
    with open_ledger(f"json:{start}", create=True) as ledger:
        work = _stage(ledger, call)
    before = seen_by_all(start)

    def victim(number: int) -> None:
        with open_ledger(f"json:{folder}", create=True) as mine:
            killed_at(number)
            work(mine)

    tries: list[Seen] = []
    deaths = 0
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(start, folder)
        killed = processes.run(partial(victim, deaths + 1)) is processes.KILLED
        tries.append(seen_by_all(folder))
        _goes_on(folder)
        if not killed:
            break
        deaths += 1
    after = tries[-1]
    unseen = call in ("renew", "begin")  # they change nothing that one can ask for
    assert (after == before) is unseen
    assert deaths >= 5
    for found in tries:
        for flow in after:
            assert found.get(flow) in (before.get(flow), after[flow])
    if call != "plan":
        assert before in tries, "no death came before the change"


def _goes_on(folder: Path) -> None:
    """Whatever the dead left, the next runner ends it."""
    with open_ledger(f"json:{folder}", create=True) as ledger:
        ledger.resume("shop", "orders", owner=OTHER, reason="next")
        plan = ledger.plan([draft(batches=1)], owner=OTHER, run_id="next")["orders"]
        [status] = ledger.status("shop", ["orders"])
        claim = ledger.claim(plan, owner=OTHER, run_id="next", lease=MINUTE, dead=status.owner)
        for index in range(claim.plan.done, len(plan.draft.batches)):
            ledger.begin(claim, index)
            ledger.advance(claim, index, receipt(plan, index))
        ledger.finish(claim, State.SUCCESS)
        told = [event.event for event in ledger.history("shop", flow="orders", limit=1000)]
        assert told.count("finished") + told.count("forgotten") == told.count("planned")


def test_b8_a_writer_paused_inside_a_save_holds_nobody_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.5)
    address = f"json:{tmp_path}/ledger"
    with open_ledger(address, create=True) as ledger:
        plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]

        def paused() -> None:
            with open_ledger(address, create=True) as mine:
                replace = os.replace

                def stop(*arguments: Any) -> None:
                    os.kill(os.getpid(), signal.SIGSTOP)
                    replace(*arguments)

                os.replace = stop  # type: ignore[assignment]
                mine.claim(plan, owner=ME, run_id="run", lease=MINUTE)

        child = processes.start(paused)
        os.waitpid(child.pid, os.WUNTRACED)
        try:
            with pytest.raises(LedgerUnreachable, match=r"orders\.json\.lock is held") as caught:
                ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE)
            assert caught.value.retryable
            # Readers are not held up at all.
            assert ledger.status("shop")[0].state is State.PLANNED
        finally:
            os.kill(child.pid, signal.SIGCONT)
            child.answer()
        with pytest.raises(FlowHeld, match="me@here"):
            ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE)


def test_b8_a_writer_paused_between_look_and_save_has_lost(tmp_path: Path) -> None:
    """It looked while its lease still ran, and saves after another has taken the flow."""
    address = f"json:{tmp_path}/ledger"
    with open_ledger(address, create=True) as ledger:
        plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]
        claim = ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
        ledger.begin(claim, 0)

        def paused() -> str:
            with open_ledger(address, create=True) as mine:
                _stop_before_save(mine)
                try:
                    mine.advance(claim, 0, receipt(plan, 0))
                except Exception as error:
                    return type(error).__name__
                return "advanced"

        child = processes.start(paused)
        os.waitpid(child.pid, os.WUNTRACED)
        second = ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE, dead=ME)
        os.kill(child.pid, signal.SIGCONT)
        assert child.answer() == "LeaseLost"
        assert ledger.watermarks("shop")[0].position is None
        ledger.begin(second, 0)
        ledger.advance(second, 0, receipt(plan, 0))


def _stop_before_save(ledger: Ledger) -> None:
    documents: Any = ledger._documents  # type: ignore[union-attr]
    save = documents.save

    def stop(*arguments: Any) -> None:
        documents.save = save
        os.kill(os.getpid(), signal.SIGSTOP)
        save(*arguments)

    documents.save = stop
