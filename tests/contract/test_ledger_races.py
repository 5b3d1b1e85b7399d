"""Several processes at one ledger: racing, dying, and with clocks of their own."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.support import processes
from tests.support.drafts import ME, OTHER, draft, nothing_new, receipt
from tests.support.ledgers import everything, needs_fresh_process, open_sql
from tests.support.servers import MariaDB, Postgres, ServerMissing
from tidegauge.errors import FlowHeld, LeaseLost, LedgerError, WrongState
from tidegauge.ledger import document_ledger as documents
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.model.claim import Claim, Owner
from tidegauge.model.schedule import Every, FlowSchedule
from tidegauge.model.state import State
from tidegauge.model.ticks import SeenScheduler

MINUTE = timedelta(minutes=1)
RACERS = 8
CALLS = (
    "plan",
    "refuse",
    "claim",
    "take over",
    "renew",
    "begin",
    "advance",
    "finish",
    "fail",
    "release",
    "forget",
    "suspend",
    "take tick",
)


def together(address: str, work: Callable[[Ledger, int], Any], *, create: bool = False) -> list[Any]:
    """The same work in eight processes, each with a ledger of its own, all let go at one moment."""
    if needs_fresh_process(address):
        # They are forked by one that has not opened a ledger yet.
        answers: list[Any] = processes.run(partial(_together, address, work, create=create), fresh=True)
        return answers
    return _together(address, work, create=create)


def _together(address: str, work: Callable[[Ledger, int], Any], *, create: bool) -> list[Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def wait(number: int) -> None:
            (folder / str(number)).touch()
            while not (folder / "go").exists():
                time.sleep(0.001)

        def racer(number: int) -> Any:
            # Eight at once on a machine that has other things to do: it is only a question of time.
            documents._PATIENCE = 600.0
            if create:
                wait(number)
            with open_ledger(address, create=True) as ledger:
                if not create:
                    wait(number)
                return work(ledger, number)

        racers = [processes.start(partial(racer, number)) for number in range(RACERS)]
        deadline = time.monotonic() + 600
        while len(list(folder.iterdir())) < RACERS and time.monotonic() < deadline:
            time.sleep(0.01)
        (folder / "go").touch()
        return [racer.answer() for racer in racers]


def owner(number: int) -> Owner:
    return Owner(f"racer{number}@host", "host", number, str(number))


def all_of(address: str) -> dict[str, list[str]]:
    with open_ledger(address, create=True) as ledger:
        return everything(ledger)


def test_b7_eight_processes_that_plan_and_claim_one_flow_get_one_plan_and_one_holder(
    ledger_address: str,
) -> None:
    open_ledger(ledger_address, create=True).close()

    def work(ledger: Ledger, number: int) -> tuple[str, str, str]:
        plan = ledger.plan([draft(batches=number + 1)], owner=owner(number), run_id=f"run {number}")["orders"]
        try:
            ledger.claim(plan, owner=owner(number), run_id=f"run {number}", lease=MINUTE)
        except FlowHeld as error:
            return plan.plan_id, "held", error.message
        return plan.plan_id, "won", owner(number).actor

    answers = together(ledger_address, work)
    assert len({plan_id for plan_id, _, _ in answers}) == 1
    [winner] = [text for _, outcome, text in answers if outcome == "won"]
    held = [text for _, outcome, text in answers if outcome == "held"]
    assert len(held) == RACERS - 1
    assert all(winner in text for text in held)
    with open_ledger(ledger_address, create=True) as ledger:
        [status] = ledger.status("shop")
        assert (status.fence, status.owner and status.owner.actor) == (1, winner)
        assert [one.event for one in ledger.history("shop")] == ["claimed", "planned"]


def test_b7_eight_processes_that_take_over_one_expired_lease_leave_one_holder(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]
        ledger.claim(plan, owner=ME, run_id="run", lease=timedelta(0))

    def work(ledger: Ledger, number: int) -> bool:
        try:
            ledger.claim(plan, owner=owner(number), run_id=f"run {number}", lease=MINUTE, dead=ME)
        except FlowHeld:
            return False
        return True

    assert sum(together(ledger_address, work)) == 1
    with open_ledger(ledger_address, create=True) as ledger:
        assert ledger.status("shop")[0].fence == 2


@pytest.mark.shown_on("sqlite", "postgres", "json")
def test_b7_eight_planners_of_many_flows_share_one_set_of_plans(ledger_address: str) -> None:
    open_ledger(ledger_address, create=True).close()
    names = [f"flow {number}" for number in range(60)]

    def work(ledger: Ledger, number: int) -> dict[str, str]:
        mixed = list(names)
        random.Random(number).shuffle(mixed)
        answer = ledger.plan([draft(name) for name in mixed], owner=owner(number), run_id="run")
        return {flow: plan.plan_id for flow, plan in answer.items()}

    first, *others = together(ledger_address, work)
    assert set(first) == set(names)
    assert all(other == first for other in others)


def test_b7_eight_processes_that_work_through_plans_commit_each_batch_once(ledger_address: str) -> None:
    """Everyone plans, claims, walks and ends as fast as it can; the history must tell one straight story."""
    open_ledger(ledger_address, create=True).close()

    def work(ledger: Ledger, number: int) -> int:
        committed = 0
        for turn in range(6):
            with_done = ledger.plan([draft(batches=2)], owner=owner(number), run_id=f"run {number}.{turn}")
            plan = with_done["orders"]
            try:
                claim = ledger.claim(plan, owner=owner(number), run_id=f"run {number}.{turn}", lease=MINUTE)
            except (FlowHeld, WrongState):
                continue
            for index in range(claim.plan.done, 2):
                ledger.begin(claim, index)
                ledger.advance(claim, index, receipt(claim.plan, index))
                committed += 1
            ledger.finish(claim, State.SUCCESS)
        return committed

    committed = sum(together(ledger_address, work))
    assert committed > 0
    with open_ledger(ledger_address, create=True) as ledger:
        [mark] = ledger.watermarks("shop")
        assert mark.seq == committed
        told = [one.event for one in reversed(ledger.history("shop", limit=10_000))]
        assert told == ["planned", "claimed", "advanced", "advanced", "finished"] * (committed // 2)


def test_eight_processes_that_make_one_ledger_make_it_once(ledger_address: str) -> None:
    answers = together(ledger_address, lambda ledger, number: ledger.status("shop"), create=True)
    assert answers == [[]] * RACERS


def _stage(ledger: Ledger, call: str) -> Callable[[Ledger], object]:
    """Bring the ledger to where the call has a place, and give back the call."""
    if call == "plan":
        ledger.plan([nothing_new("b"), draft("c")], owner=ME, run_id="run 0")
        drafts = [draft("a"), draft("b"), draft("c"), nothing_new("d")]
        return lambda mine: mine.plan(drafts, owner=ME, run_id="run")
    if call == "refuse":
        return lambda mine: mine.refuse("shop", "orders", {"message": "no"}, owner=ME, run_id="run")
    if call == "take tick":
        yearly = FlowSchedule(Every(timedelta(days=365)), "every 365d")
        ledger.join_schedulers("shop", SeenScheduler(ME, "f00d", "a file", datetime(1970, 1, 1)), [])
        return lambda mine: mine.take_tick("shop", yearly, owner=ME)
    plan = ledger.plan([draft(batches=1)], owner=ME, run_id="run")["orders"]
    if call == "suspend":
        return lambda mine: mine.suspend("shop", "orders", owner=OTHER, reason="wait")
    if call == "claim":
        return lambda mine: mine.claim(plan, owner=ME, run_id="run", lease=MINUTE)
    claim = ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
    match call:
        case "take over":
            return lambda mine: mine.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE, dead=ME)
        case "renew":
            return lambda mine: mine.renew(claim, MINUTE * 2)
        case "begin":
            return lambda mine: mine.begin(claim, 0)
    ledger.begin(claim, 0)
    if call == "forget":
        return lambda mine: mine.forget("shop", "orders", owner=OTHER, reason="gone")
    if call == "advance":
        return lambda mine: mine.advance(claim, 0, receipt(plan, 0))
    ledger.advance(claim, 0, receipt(plan, 0))
    state = {"finish": State.SUCCESS, "fail": State.FAILED, "release": State.PLANNED}[call]
    return lambda mine: mine.finish(claim, state, {"message": "no"} if call == "fail" else None)


def _killed_at(engine: Engine, number: int) -> None:
    """Die just before the number-th statement; BEGIN and COMMIT count."""
    seen = 0

    def tick(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("before_cursor_execute", "begin", "commit"):
        event.listen(engine, name, tick)


@pytest.mark.shown_on(
    "sqlite", *(f"{store}-{call}" for store in ("postgres", "mariadb") for call in ("plan", "advance"))
)
@pytest.mark.parametrize("call", CALLS)
def test_b6_a_process_killed_inside_a_call_leaves_all_of_it_or_nothing(
    sql_ledger_address: str, call: str
) -> None:
    with open_sql(sql_ledger_address) as ledger:
        work = _stage(ledger, call)
    before = all_of(sql_ledger_address)

    def victim(number: int) -> None:
        with open_sql(sql_ledger_address) as mine:
            _killed_at(mine._engine, number)
            work(mine)

    deaths = 0
    while processes.run(partial(victim, deaths + 1)) is processes.KILLED:
        deaths += 1
        assert all_of(sql_ledger_address) == before
    # A call is at least: begin, load, change, commit.
    assert deaths >= 4
    assert all_of(sql_ledger_address) != before


@pytest.fixture(params=["postgres", "mariadb"])
def server_address(request: pytest.FixtureRequest) -> str:
    server: MariaDB | Postgres = request.getfixturevalue(request.param)
    return server.address(server.create_database())


LOCK = "SELECT flows.flow_key"
"""The first words of the statement that takes a flow's row until the transaction ends."""


def _just_before(ledger: SqlLedger, statement: str, work: Callable[[], object]) -> None:
    """Once, between what a call has read and what it is about to change."""
    waiting = [work]

    def meddle(_c: object, _k: object, sql: str, *_: object) -> None:
        if waiting and sql.startswith(statement):
            waiting.pop()()

    event.listen(ledger._engine, "before_cursor_execute", meddle)


def test_b8_a_holder_that_renews_at_the_last_moment_keeps_the_flow(server_address: str) -> None:
    with (
        open_sql(server_address) as mine,
        open_sql(server_address) as theirs,
    ):
        plan = mine.plan([draft()], owner=ME, run_id="run")["orders"]
        held = mine.claim(plan, owner=ME, run_id="run", lease=timedelta(0))
        _just_before(theirs, LOCK, lambda: mine.renew(held, MINUTE))
        with pytest.raises(FlowHeld, match="me@here"):
            theirs.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE)
        mine.begin(held, 0)


@pytest.mark.parametrize("call", ["renew", "begin", "advance", "finish", "fail", "release"])
def test_b8_a_flow_taken_over_between_look_and_change_is_lost(server_address: str, call: str) -> None:
    with (
        open_sql(server_address) as mine,
        open_sql(server_address) as theirs,
    ):
        work = _stage(mine, call)
        [status] = mine.status("shop")
        assert status.plan is not None
        plan = status.plan
        _just_before(
            mine, LOCK, lambda: theirs.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE, dead=ME)
        )
        with pytest.raises(LeaseLost, match="other@there"):
            work(mine)
        [status] = mine.status("shop")
        assert (status.owner, status.fence) == (OTHER, 2)
        assert [one.event for one in mine.history("shop", limit=1)] == ["taken_over"]


@pytest.mark.parametrize("call", ["renew", "begin", "advance", "finish", "fail", "release"])
def test_b8_who_wants_a_flow_waits_for_the_call_that_changes_it(server_address: str, call: str) -> None:
    with (
        open_sql(server_address) as mine,
        open_sql(server_address) as theirs,
        ThreadPoolExecutor(1) as pool,
    ):
        work = _stage(mine, call)
        [status] = mine.status("shop")
        assert status.plan is not None
        plan = status.plan
        wanting: list[Future[Claim]] = []

        def want() -> None:
            claim = pool.submit(theirs.claim, plan, owner=OTHER, run_id="run 2", lease=MINUTE, dead=ME)
            wanting.append(claim)
            time.sleep(0.3)
            assert not claim.done()

        _just_before(mine, "UPDATE plans", want)
        work(mine)
        [claim] = wanting
        if call == "finish":
            with pytest.raises(WrongState, match="has ended"):
                claim.result()
        else:
            assert claim.result().fence == 2


def test_b7_a_planner_overtaken_between_look_and_change_gets_the_others_plan(server_address: str) -> None:
    with (
        open_sql(server_address) as mine,
        open_sql(server_address) as theirs,
    ):
        plans: list[str] = []
        _just_before(
            mine,
            "INSERT INTO flows",
            lambda: plans.append(theirs.plan([draft()], owner=OTHER, run_id="run 2")["orders"].plan_id),
        )
        mine_now = mine.plan([draft("another"), draft()], owner=ME, run_id="run")
        assert [mine_now["orders"].plan_id] == plans
        assert set(mine_now) == {"orders", "another"}


RUNNER = """
import json, sys
from datetime import datetime, timedelta, UTC
from tests.support.drafts import OTHER, draft
from tidegauge.errors import FlowHeld
from tidegauge.ledger.open import open_ledger
with open_ledger(sys.argv[1], create=True) as ledger:
    plan = ledger.plan([draft()], owner=OTHER, run_id="faked")["orders"]
    try:
        until = str(ledger.claim(plan, owner=OTHER, run_id="faked", lease=timedelta(minutes=1)).lease_until)
    except FlowHeld as error:
        until = None
    print(json.dumps({"clock": str(datetime.now(UTC).replace(tzinfo=None)), "until": until}))
"""


def _with_clock(shift: str, address: str) -> dict[str, str | None]:
    found = list(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        raise ServerMissing("libfaketime is not installed: run `make setup`")
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, address],
        env={
            **os.environ,
            "LD_PRELOAD": str(found[0]),
            "FAKETIME": shift,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, str | None] = json.loads(done.stdout)
    assert answer["clock"] is not None
    shifted = datetime.fromisoformat(answer["clock"]) - datetime.now(UTC).replace(tzinfo=None)
    assert abs(shifted) > timedelta(hours=12), "the runner's clock was not shifted"
    return answer


@pytest.fixture(params=["postgres", "mariadb", "s3"])
def clocked_address(request: pytest.FixtureRequest) -> str:
    """A ledger whose store has a clock of its own, which nobody shifts."""
    if request.param == "s3":
        return f"json:{request.getfixturevalue('_s3_ledger')}"
    server: MariaDB | Postgres = request.getfixturevalue(request.param)
    return server.address(server.create_database())


@pytest.mark.parametrize("shift", ["+1d", "-1d"])
def test_b9_a_lease_runs_on_the_stores_clock_and_not_on_the_runners(clocked_address: str, shift: str) -> None:
    answer = _with_clock(shift, clocked_address)
    assert answer["until"] is not None
    with open_ledger(clocked_address, create=True) as ledger:
        left = datetime.fromisoformat(answer["until"]) - ledger.now()
        # Each process knows the clock of S3 to a second or two; how long ago it was is the machine's affair.
        assert timedelta(minutes=-10) < left <= MINUTE + timedelta(seconds=2)


@pytest.mark.shown_on("postgres")
def test_b9_a_runner_whose_clock_is_ahead_takes_no_live_lease(clocked_address: str) -> None:
    with open_ledger(clocked_address, create=True) as ledger:
        plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]
        ledger.claim(plan, owner=ME, run_id="run", lease=timedelta(hours=1))
        assert _with_clock("+1d", clocked_address)["until"] is None
        assert ledger.status("shop")[0].owner == ME


@pytest.mark.shown_on("postgres")
def test_b9_a_runner_whose_clock_is_behind_sees_that_a_lease_is_over(clocked_address: str) -> None:
    with open_ledger(clocked_address, create=True) as ledger:
        plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]
        ledger.claim(plan, owner=ME, run_id="run", lease=timedelta(0))
        assert _with_clock("-1d", clocked_address)["until"] is not None
        assert ledger.status("shop")[0].owner == OTHER


def test_b8_a_process_stopped_inside_a_transaction_does_not_hold_the_others_for_ever(
    sql_ledger_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.ledger.sql_connect.BUSY_SECONDS", 1)
    with open_sql(sql_ledger_address) as ledger:
        plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]

    def stopped() -> None:
        with open_sql(sql_ledger_address) as mine:
            event.listen(mine._engine, "commit", lambda _: os.kill(os.getpid(), signal.SIGSTOP))
            mine.claim(plan, owner=ME, run_id="run", lease=MINUTE)

    child = processes.start(stopped)
    os.waitpid(child.pid, os.WUNTRACED)
    try:
        with open_sql(sql_ledger_address) as ledger:
            with pytest.raises(LedgerError, match="locked") as caught:
                ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE)
            assert caught.value.retryable
            # Readers are not held up at all.
            assert ledger.status("shop")[0].state is State.PLANNED
    finally:
        os.kill(child.pid, signal.SIGCONT)
        child.answer()
    with open_sql(sql_ledger_address) as ledger:
        with pytest.raises(FlowHeld, match="me@here"):
            ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE)
        assert ledger.status("shop")[0].plan == replace(plan, done=0)


def test_b8_a_server_ends_the_transaction_of_a_stopped_process_before_others_give_up(
    server_address: str,
) -> None:
    with open_sql(server_address) as ledger:
        plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]

    def stopped() -> str:
        with open_sql(server_address) as mine:
            event.listen(mine._engine, "commit", lambda _: os.kill(os.getpid(), signal.SIGSTOP))
            try:
                mine.claim(plan, owner=ME, run_id="run", lease=MINUTE)
            except LedgerError as error:
                return error.type
            return "it went through"

    child = processes.start(stopped)
    os.waitpid(child.pid, os.WUNTRACED)
    try:
        with open_sql(server_address) as ledger:
            assert ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE).fence == 1
    finally:
        os.kill(child.pid, signal.SIGCONT)
        answer = child.answer()
    assert answer == "LedgerUnreachable"
    with open_sql(server_address) as ledger:
        assert ledger.status("shop")[0].owner == OTHER
