"""SIGTERM and Ctrl-C: the first stops after the batch in hand, the second at once; nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.crash.pausing import await_stop, pausing, start_pausing
from tests.support.lake import manifests, rows
from tests.support.nursery import Forked
from tests.support.project import PATIENCE, ROOT, Project, end, local, postgres_database, until
from tests.support.servers import Postgres

ROWS = 60
SYNC = "tables: [t], cursor: at, settle: 1s, batch_rows: 20"
EXPECTED = [(n, f"word {n}") for n in range(ROWS)]


@pytest.fixture
def project(tmp_path: Path, connect: str, postgres: Postgres) -> Project:
    """Three batches in PostgreSQL, where a lock makes a batch as slow as a test needs; and a lease of ten
    minutes, so that only a lease that was let go lets the next run go on."""
    database = postgres_database(postgres)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, word text, at timestamp NOT NULL)")
    database.insert("t", [(n, f"word {n}", "2025-01-01 00:00:00") for n in range(ROWS)])
    return local(tmp_path, database).write(SYNC, top=f"lease: 10m\nspark: {{master: '{connect}'}}")


def landed(project: Project) -> list[tuple[int, str]]:
    return sorted((row["id"], row["word"]) for row in rows(project.lake, project.name("t")))


@contextmanager
def locked(project: Project) -> Iterator[None]:
    """Nobody can read the table meanwhile."""
    with closing(project.database.connect()) as lock, lock.transaction():
        lock.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        yield


def say_until(process: Forked, words: str) -> None:
    until(lambda: words in process.said() or process.poll() is not None)
    assert words in process.said(), f"it never said '{words}'"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_one_signal_stops_after_the_batch_in_hand_and_lets_the_flow_go(
    project: Project, number: signal.Signals, code: int
) -> None:
    running = start_pausing(project, "before", "write", 2)
    running.send_signal(number)
    running.send_signal(signal.SIGCONT)
    stopped = end(running)
    assert stopped.code == code, stopped.said
    [flow] = stopped.json["flows"]
    assert (flow["state"], flow["batches"], flow["rows_written"]) == ("PLANNED", 2, 40), stopped.said
    assert stopped.json["state"] == "PLANNED"
    assert flow["error"]["type"] == "Stopped"
    assert "stopping after the batch in hand" in stopped.err
    assert len(manifests(project.lake, "public.t")) == 2

    [standing] = project.here("status", "--json").json["flows"]
    assert (standing["state"], standing["lease"]) == ("PLANNED", None)

    following = project.shell("run", "--json")
    assert following.code == 0, following.said
    assert [one["rows_written"] for one in following.json["flows"]] == [20, 0], following.said
    assert following.json["flows"][0]["resumed"] is True
    assert landed(project) == EXPECTED


def test_a_second_signal_stops_at_once_and_nothing_is_lost(project: Project) -> None:
    running = start_pausing(project, "before", "write", 2)
    with locked(project):
        running.send_signal(signal.SIGCONT)
        running.send_signal(signal.SIGINT)
        say_until(running, "once more stops at once")
        time.sleep(0.5)
        assert running.poll() is None, "it did not wait for the batch in hand"
        running.send_signal(signal.SIGINT)
        # While the batch in hand still waits for the lock.
        assert running.wait(PATIENCE) == 130

    following = project.shell("run", "--json")
    assert following.code == 0, following.said
    assert landed(project) == EXPECTED


@pytest.mark.parametrize("step", ["plan", "claim", "finish"])
def test_a_signal_outside_of_a_batch_stops_as_cleanly(project: Project, step: str) -> None:
    running = start_pausing(project, "before", step, 1)
    running.send_signal(signal.SIGTERM)
    running.send_signal(signal.SIGCONT)
    stopped = end(running)
    assert stopped.code == 143, stopped.said
    assert stopped.json["schema"] == "tidegauge/run/1"
    assert "Traceback" not in stopped.err
    [standing] = project.here("status", "--json").json["flows"]
    assert standing["lease"] is None
    following = project.shell("run", "--json")
    assert following.code == 0, following.said
    assert landed(project) == EXPECTED


def test_a_signal_while_sources_are_asked_stops_with_its_own_exit_code(project: Project) -> None:
    """Two tables: the signal comes while the first one's survey waits for a lock."""
    project.database.execute("CREATE TABLE u (id int PRIMARY KEY, at timestamp NOT NULL)")
    project.write("tables: [t, u], cursor: at, settle: 1s")
    with locked(project):
        running = project.start("run", "--json")
        say_until(running, "planning 2 flows")
        waiting = (
            "SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE NOT granted AND datname = current_database()"
        )
        until(lambda: project.database.rows(waiting))
        running.send_signal(signal.SIGTERM)
        say_until(running, "once more stops at once")
    stopped = end(running)
    assert stopped.code == 143, stopped.said
    assert "Traceback" not in stopped.err
    assert not (project.folder / "lake" / "public.t").exists()


def test_ctrl_c_reaches_the_whole_group_of_a_terminal_and_spark_survives_it(
    project: Project, tmp_path: Path
) -> None:
    """A shell sends the signal to every process of the group; the batch in hand needs its Spark."""
    project.write(SYNC, top="spark: {conf: {spark.driver.memory: 1g}, master: 'local[1]'}")
    with (tmp_path / "err").open("w") as err:
        running = subprocess.Popen(
            pausing("before", "write", 2, "run", "--json", "--project", str(project.file)),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            start_new_session=True,
        )
        await_stop(running)
        os.killpg(running.pid, signal.SIGINT)
        os.killpg(running.pid, signal.SIGCONT)
        stopped = end(running)
    assert stopped.code == 130, stopped.said
    # The second batch was still to be read when the signal came.
    assert stopped.flow("public.t")["rows_written"] >= 40, stopped.said
    assert len(landed(project)) == stopped.flow("public.t")["rows_written"]
