"""A scheduler as a process: its times, suspensions, signals, its death, and others beside it."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest

from tests.support.lake import rows
from tests.support.nursery import Forked
from tests.support.project import (
    Project,
    end,
    local,
    postgres_database,
    refused,
    sqlite_database,
    until,
)
from tests.support.servers import Postgres
from tidegauge.config.load import load_project
from tidegauge.ledger.json_store import JsonDocumentStore
from tidegauge.ledger.open import open_ledger
from tidegauge.model.ticks import SchedulerRecords
from tidegauge.operations.schedule import Scheduler
from tidegauge.run.options import RunOptions

WAREHOUSE = "  warehouse: {type: duckdb, path: warehouse.duckdb}\n"
TIME = re.compile(r"every 1 second: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC: ")

Begin = Callable[..., Forked]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    database = sqlite_database(tmp_path / "source.db")
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")
    database.execute("CREATE TABLE u (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")
    made = local(tmp_path, database)
    return made.write(
        "tables: [t, u], cursor: at, settle: 0s",
        top="schedule: every 1 second",
        route="to: warehouse",
        connections=WAREHOUSE,
    )


@pytest.fixture
def begin(project: Project) -> Iterator[Begin]:
    """Starts a scheduler; those that are left are killed when the test ends."""
    begun: list[Forked] = []

    def start(*words: object, of: Project = project) -> Forked:
        begun.append(of.start("schedule", "start", *words))
        return begun[-1]

    yield start
    for one in begun:
        one.kill()


def add(project: Project, number: int, table: str = "t") -> None:
    project.database.execute(f"INSERT INTO {table} VALUES ({number}, {project.database.ago(1)})")


def landed(project: Project, table: str = "t") -> list[int]:
    """Asks again while a run has the file."""
    file = project.folder / "warehouse.duckdb"
    try:
        with closing(duckdb.connect(str(file), read_only=True)) as warehouse:
            return [
                number for (number,) in warehouse.execute(f"SELECT id FROM {table} ORDER BY id").fetchall()
            ]
    except duckdb.Error:
        return [-1]


def book(project: Project) -> SchedulerRecords:
    with open_ledger(f"sqlite:///{project.ledger_file}", create=True) as ledger:
        return ledger.ticks("test")


def says(process: Forked, words: str, times: int = 1) -> None:
    until(
        lambda: process.said().count(words) >= times or process.poll() is not None,
        tell=process.said,
    )
    assert process.said().count(words) >= times, process.said()


def ask(port: int, path: str = "/health") -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(body) if (body := error.read()).startswith(b"{") else None


def port_of(process: Forked) -> int:
    says(process, "/health")
    found = re.search(r":(\d+)/health", process.said())
    assert found is not None
    return int(found[1])


def test_it_runs_by_the_clock_obeys_suspensions_and_ends_by_a_signal(project: Project, begin: Begin) -> None:
    add(project, 1)
    scheduler = begin("--health-port", 0, "--json")
    until(lambda: landed(project) == [1])
    port = port_of(scheduler)
    until(lambda: ask(port)[1]["ticks"] >= 1)
    code, health = ask(port)
    assert (code, health["ok"], health["failures"]) == (200, True, 0)
    assert health["last_tick"]["errors"] == []
    assert health["next_tick"] > health["last_tick"]["due"]
    assert ask(port, "/")[0] == 404

    suspended = project.here("schedule", "suspend", "t", "--reason", "the table moves", "--json")
    assert [one["flow"] for one in suspended.json["flows"]] == ["t"]
    assert suspended.json["flows"][0]["suspended"]["reason"] == "the table moves"
    says(scheduler, "1 suspended")
    add(project, 2)
    add(project, 2, "u")
    until(lambda: landed(project, "u") == [2])
    assert landed(project) == [1]
    listed = project.here("schedule", "list", "--json").json
    assert [one["flow"] for one in listed["suspended"]] == ["t"]
    assert len(listed["schedulers"]) == 1
    [schedule] = listed["schedules"]
    assert (schedule["schedule"], schedule["flows"]) == ("every 1 second", ["t", "u"])
    assert schedule["ticks"] >= 2
    [_, u] = project.here("run", "--json").json["flows"]
    assert u["flow"] == "u"
    named = project.here("run", "--select", "t")
    refused(named, "the table moves", "schedule resume t")
    assert "t: SUSPENDED: " in named.err
    assert "nothing new" not in named.said
    refused(project.here("backfill", "-t", "t", "--from", "2020-01-01", "--reason", "x", "--yes"), "moves")
    refused(project.here("run", "-t", "t", "--full-refresh", "--reason", "x", "--yes"), "the table moves")
    assert [one["state"] for one in project.here("run", "--json").json["flows"]] == ["SUSPENDED", "SKIPPED"]
    status = {one["flow"]: one for one in project.here("status", "--json").json["flows"]}
    assert status["t"]["suspended"]["reason"] == "the table moves"
    assert "suspended" not in status["u"]

    assert project.here("schedule", "resume", "t", "--reason", "it has moved").code == 0
    until(lambda: landed(project) == [1, 2])
    told = project.here("history", "--select", "t", "--limit", 1000, "--json").json["events"]
    assert [one["event"] for one in told if one["event"] in ("suspended", "resumed")] == [
        "resumed",
        "suspended",
    ]

    scheduler.send_signal(signal.SIGTERM)
    ended = end(scheduler)
    assert ended.code == 143, ended.said
    assert ended.json["failures"] == 0
    assert book(project).schedulers == ()


def test_two_schedulers_share_the_times_and_another_file_is_refused(project: Project, begin: Begin) -> None:
    both = [begin(), begin()]
    for scheduler in both:
        says(scheduler, " UTC: ", times=2)
    other = project.folder / "other"
    other.mkdir()
    text = project.file.read_text().replace("every 1 second", "every 2 seconds")
    (other / "tidegauge.yml").write_text(
        text.replace("sqlite:///ledger.db", f"sqlite:///{project.ledger_file}")
    )
    stranger = begin(of=Project(other, project.database, project.lake))
    said = refused(end(stranger), "give both the same file")
    assert str(project.file) in said
    add(project, 1)
    until(lambda: landed(project) == [1])
    for scheduler in both:
        scheduler.send_signal(signal.SIGINT)
    times: list[str] = []
    cut_short = 0
    for scheduler in both:
        ended = end(scheduler)
        assert ended.code == 130, ended.said
        times += TIME.findall(ended.err)
        cut_short += ended.err.count(" UTC: PLANNED")
    assert len(times) == len(set(times))
    [ticks] = book(project).schedules.values()
    # A time whose run was asked to stop half-way keeps its runner's name, and is due again.
    assert (ticks.ran, ticks.runner is not None) == (len(times), bool(cut_short))
    project.file.write_text(text)
    assert end(begin("--ticks", 1)).code == 0


def test_what_was_missed_while_nobody_was_there_follows_catch_up(project: Project, begin: Begin) -> None:
    text = project.file.read_text()
    for catch_up, said in (("one", "missed; catch_up: one"), ("all", None)):
        project.file.write_text(text.replace("every 1 second", f"{{every: 1 second, catch_up: {catch_up}}}"))
        scheduler = begin()
        says(scheduler, " UTC: ")
        scheduler.kill()
        scheduler.wait()
        before = next(iter(book(project).schedules.values()))

        def is_late(fired: datetime = before.fired) -> bool:
            with open_ledger(f"sqlite:///{project.ledger_file}", create=True) as ledger:
                return (ledger.now() - fired).total_seconds() > 4

        until(is_late)
        again = end(begin("--ticks", 3))
        assert again.code == 0, again.said
        assert said is None or said in again.err
        times = [re.search(r"\d\d:\d\d:(\d\d) UTC: ", line) for line in again.err.splitlines()]
        seconds = [int(one[1]) for one in times if one]
        steps = [(after - first) % 60 for first, after in pairwise(seconds)]
        # One run for all that was missed, or one for each, however late.
        assert catch_up == "one" or steps == [1, 1], again.said


def test_a_run_whose_scheduler_is_killed_is_taken_up_by_the_other(
    tmp_path: Path, postgres: Postgres, begin: Begin
) -> None:
    database = postgres_database(postgres)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL)")
    shop = local(tmp_path, database).write(
        "tables: [t], cursor: at, settle: 0s",
        top="schedule: every 1 second",
        route="to: warehouse",
        connections=WAREHOUSE,
    )
    add(shop, 1)
    with closing(database.connect()) as lock, lock.transaction():
        # Whoever reads the table waits.
        lock.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        first = begin(of=shop)
        until(lambda: any(one.runner for one in book(shop).schedules.values()))
        second = begin(of=shop)
        says(second, "passed over: the run before is still under way", times=2)
        first.kill()
        until(
            lambda: any(one.runner and one.runner.pid == second.pid for one in book(shop).schedules.values())
        )
        # It waits in its turn, and a signal ends it once it can go on.
        says(second, "passed over", times=3)
    until(lambda: landed(shop) == [1])
    second.send_signal(signal.SIGTERM)
    assert end(second).code == 143


def test_a_failure_is_told_and_the_next_time_comes(project: Project, begin: Begin) -> None:
    project.database.execute("ALTER TABLE t RENAME TO away")
    scheduler = begin("--health-port", 0)
    says(scheduler, "TableMissing", times=2)
    port = port_of(scheduler)
    code, health = ask(port)
    assert (code, health["ok"]) == (503, False)
    assert health["last_tick"]["errors"][0]["type"] == "TableMissing"
    assert health["failing"]["every 1 second"] >= 1
    project.database.execute("ALTER TABLE away RENAME TO t")
    until(lambda: ask(port)[0] == 200)
    scheduler.send_signal(signal.SIGTERM)
    assert end(scheduler).code == 143


def test_a_spark_that_died_is_begun_anew(project: Project, begin: Begin) -> None:
    project.write("tables: [t], cursor: at, settle: 0s, read: jdbc", route="to: lake")
    add(project, 1)
    scheduler = begin()

    def ids() -> list[int]:
        there = (project.folder / "lake").exists()
        return sorted(row["id"] for row in rows(project.lake, "t")) if there else []

    until(lambda: ids() == [1] or scheduler.poll() is not None)
    [java] = [pid for pid in children(scheduler.pid) if Path(f"/proc/{pid}/comm").read_text() == "java\n"]
    os.kill(java, signal.SIGKILL)
    says(scheduler, "ended with code -9: it is begun anew")
    add(project, 2)
    until(lambda: ids() == [1, 2] or scheduler.poll() is not None)
    scheduler.send_signal(signal.SIGTERM)
    ended = end(scheduler)
    assert ended.code == 143, ended.said
    assert ended.err.count("starting Spark") == 2, ended.said


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] + [
        int(one)
        for task in Path(f"/proc/{pid}/task").iterdir()
        if task.name != str(pid)
        for one in (task / "children").read_text().split()
    ]


def test_a_flow_suspended_between_its_plan_and_its_claim_is_not_run(project: Project) -> None:
    add(project, 1)
    assert project.here("schedule", "suspend", "t", "--reason", "stop").code == 0
    # As if it had been looked at before.
    with patch("tidegauge.run.ready.find_suspension", return_value=None):
        ran = project.here("run", "--json")
        assert (ran.code, ran.flow("t")["state"]) == (0, "SUSPENDED"), ran.said
        with patch("tidegauge.run.claim.find_suspension", return_value=None):
            ran = project.here("run", "--json")
            assert (ran.code, ran.flow("t")["state"]) == (0, "SUSPENDED"), ran.said
    assert landed(project) == [-1]
    assert project.here("schedule", "resume", "t").code == 0
    assert project.here("run").code == 0
    assert landed(project) == [1]


def test_a_clock_that_is_set_an_hour_either_way_stops_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = timedelta(0)
    real = JsonDocumentStore.now
    monkeypatch.setattr(JsonDocumentStore, "now", lambda self: real(self) + ahead)
    project.write("tables: [t], cursor: at, settle: 0s", ledger="json:ledger")
    stop, said = threading.Event(), list[str]()
    scheduler = Scheduler(
        load_project(project.file), options=RunOptions(remarks=False), say=said.append, stop=stop
    )

    def has_said(words: str) -> bool:
        return any(words in line for line in said) or running.done()

    def has_run(times: int) -> bool:
        return scheduler.state.ticks >= times or running.done()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(scheduler.run)
        try:
            until(partial(has_run, 2))
            for jump, words in ((1, "forward by"), (-1, "back by")):
                ahead += timedelta(hours=jump)
                until(partial(has_said, words))
                until(partial(has_run, scheduler.state.ticks + 3))
        finally:
            stop.set()
        state = running.result()
    assert state.failed == 0, said
    # An hour that nobody was there for; and none that is waited for again.
    assert state.missed >= 3_500


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("suspend", "odrers", "--reason", "x"), 2, "odrers"),
        (("resume", "odrers"), 2, "odrers"),
        (("suspend", "t"), 2, "needs a reason"),
        (("suspend", "t*", "--reason", "x"), 2, "is not a name"),
    ],
)
def test_bad_input_is_refused(project: Project, words: tuple[str, ...], code: int, said: str) -> None:
    refused(project.here("schedule", *words), said, code=code)


def test_a_file_without_a_schedule_is_refused(project: Project) -> None:
    project.file.write_text(project.file.read_text().replace("schedule: every 1 second", ""))
    refused(project.here("schedule", "start"), "has no schedule", "every 5 minutes", code=2)
    assert project.here("schedule", "list").code == 0


def test_a_pipeline_and_what_is_known_can_be_suspended_while_its_database_is_away(project: Project) -> None:
    add(project, 1)
    assert project.here("run").code == 0
    source = project.folder / "source.db"
    source.rename(project.folder / "away.db")
    assert project.here("schedule", "suspend", "test", "--reason", "a day off").code == 0
    assert project.here("schedule", "suspend", "t", "--reason", "not this one").code == 0
    again = project.here("schedule", "suspend", "t", "--reason", "another")
    assert "suspended already" in again.out
    assert "not this one" in again.out
    (project.folder / "away.db").rename(source)
    add(project, 2)
    ran = project.here("run", "--json")
    assert (ran.code, [one["state"] for one in ran.json["flows"]]) == (0, ["SUSPENDED", "SUSPENDED"])
    assert project.here("retry").code == 0
    assert project.here("schedule", "resume", "t").code == 0
    refused(project.here("run", "-t", "t"), "the pipeline test was suspended", "a day off")
    assert project.here("schedule", "resume", "test", "--reason", "back").code == 0
    assert "was not suspended" in project.here("schedule", "resume", "*").out
    assert project.here("run").code == 0
    assert landed(project) == [1, 2]
