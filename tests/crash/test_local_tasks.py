"""Rows that local processes move: killed, stopped or cut off, none is lost and none comes twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.crash.pausing import await_stop
from tests.support.lake import manifests, rows
from tests.support.nursery import Forked, Nursery
from tests.support.project import PATIENCE, ROOT, Project, Ran, end, local, postgres_database, until
from tests.support.servers import Postgres
from tidegauge.run.steps import Step

ROWS = 60
SYNC = "tables: [t], cursor: at, settle: 1s, batch_rows: 20, parallel: 2"
EXPECTED = [(n, f"word {n}") for n in range(ROWS)]
SHOWN = [(Step.WRITE, "before"), (Step.WRITE, "after"), (Step.PUBLISH, "after")]


@pytest.fixture
def project(tmp_path: Path, postgres: Postgres) -> Project:
    """Three batches of two splits in PostgreSQL, and a Spark that would be this machine's."""
    database = postgres_database(postgres)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, word text, at timestamp NOT NULL)")
    database.insert("t", [(n, f"word {n}", "2025-01-01 00:00:00") for n in range(ROWS)])
    return local(tmp_path, database).write(SYNC, top="spark: {master: 'local[2]'}")


def child(nursery: Nursery, *words: object, env: dict[str, str] | None = None) -> Ran:
    return end(nursery.main(*words, module="tests.crash.by_processes", env=env))


def landed(project: Project) -> list[tuple[int, str]]:
    return sorted((row["id"], row["word"]) for row in rows(project.lake, project.name("t")))


def workers_of(pid: int) -> list[int]:
    """The processes that it has started, or that are left of them."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"tidegauge.spark.local_worker" in words and str(pid).encode() in words:
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("step", "side"),
    [
        pytest.param(step, side, marks=[] if (step, side) in SHOWN else pytest.mark.long)
        for step in Step
        for side in ("before", "after")
    ],
)
def test_b1_b2_a_run_killed_at_any_step_loses_and_doubles_nothing(
    project: Project, nursery: Nursery, step: Step, side: str
) -> None:
    times = 1 if step in (Step.PLAN, Step.CLAIM, Step.FINISH) else 2
    killed = child(nursery, "tests.crash.child", project.file, side, step, str(times))
    assert killed.code == -9, killed.said
    again = child(nursery, "tests.crash.child", project.file)
    assert again.code == 0, again.said
    assert landed(project) == EXPECTED
    assert again.out.splitlines()[-1].strip().endswith("SKIPPED 0"), again.said


def waiting(project: Project) -> int:
    """How many statements wait for a lock."""
    found = project.database.rows(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND wait_event_type = 'Lock'"
    )
    return int(found[0][0])


@contextmanager
def hold_in_write(project: Project, nursery: Nursery, batch: int) -> Iterator[Forked]:
    """A run whose workers wait for the server, in the middle of a batch, until the block ends."""
    words = ("before", "write", batch, "run", "--json", "--project", project.file)
    running = nursery.main("tests.crash.pausing", *words, module="tests.crash.by_processes")
    await_stop(running)
    with closing(project.database.connect()) as lock, lock.transaction():
        lock.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        running.send_signal(signal.SIGCONT)
        until(lambda: waiting(project) == 2)
        yield running


def test_b1_workers_end_with_a_run_that_is_killed_though_they_wait_for_the_server(
    project: Project, nursery: Nursery
) -> None:
    with hold_in_write(project, nursery, 1) as running:
        assert len(workers_of(running.pid)) == 2
        running.kill()
        until(lambda: not workers_of(running.pid))
        assert running.wait(PATIENCE) == -9
    again = child(nursery, "tests.crash.child", project.file)
    assert again.code == 0, again.said
    assert landed(project) == EXPECTED


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_whole_group_stops_after_the_batch_in_hand(
    project: Project, number: signal.Signals, code: int
) -> None:
    """A shell's Ctrl-C, and a service manager's SIGTERM, reach every process; the batch needs its workers."""
    words = ["before", "write", "2", "run", "--json", "--project", str(project.file)]
    running = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.by_processes", "tests.crash.pausing", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    await_stop(running)
    workers = workers_of(running.pid)
    assert len(workers) == 2, "the first batch was moved by them"
    for pid in (running.pid, *workers):
        os.kill(pid, number)
    os.kill(running.pid, signal.SIGCONT)
    stopped = end(running)
    assert stopped.code == code, stopped.said
    [flow] = stopped.json["flows"]
    assert (flow["state"], flow["rows_written"], flow["moved_by"]) == ("PLANNED", 40, ["processes"])
    assert not workers_of(running.pid)
    assert len(landed(project)) == 40


def test_a_worker_that_is_killed_fails_the_batch_and_the_next_run_goes_on(
    project: Project, nursery: Nursery
) -> None:
    with hold_in_write(project, nursery, 2) as running:
        os.kill(workers_of(running.pid)[0], signal.SIGKILL)
        time.sleep(0.2)
    failed = end(running)
    assert failed.code == 1, failed.said
    [flow] = failed.json["flows"]
    assert (flow["state"], flow["rows_written"]) == ("FAILED", 20), failed.said
    assert flow["error"]["type"] == "SourceUnreachable"
    assert "ended with -9" in flow["error"]["message"]
    assert flow["error"]["retryable"] is True
    assert len(manifests(project.lake, "public.t")) == 1

    again = child(nursery, "tests.crash.child", project.file)
    assert again.code == 0, again.said
    assert landed(project) == EXPECTED
