"""Runners that compete for one flow, and runners that wake up after they were given up for dead."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.crash.pausing import start_pausing
from tests.support.lake import manifests, rows
from tests.support.nursery import Forked
from tests.support.project import Project, end, local, postgres_database, sqlite_database, until
from tests.support.servers import Postgres

ROWS = 45
SYNC = "tables: [t], cursor: at, settle: 1s, batch_rows: 15"
EXPECTED = [(n, f"word {n}") for n in range(ROWS)]


@pytest.fixture
def project(tmp_path: Path, connect: str) -> Project:
    """Three batches in SQLite, and a lease as short as it may be."""
    database = sqlite_database(tmp_path / "source.db")
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT, at TEXT NOT NULL)")
    database.insert("t", [(n, f"word {n}", f"2025-01-01 00:00:0{n % 3}") for n in range(ROWS)])
    return local(tmp_path, database).write(SYNC, top=f"lease: 3s\nspark: {{master: '{connect}'}}")


def landed(project: Project) -> list[tuple[int, str]]:
    return sorted((row["id"], row["word"]) for row in rows(project.lake, project.name("t")))


def go_on(process: Forked) -> None:
    process.send_signal(signal.SIGCONT)


PLACES = [
    ("before", "write", 2),  # nothing of the batch is written yet
    ("after", "write", 2),  # its files are there, and nobody sees them
    ("before", "publish", 2),  # the last look at the lease is behind it
    ("before", "advance", 2),  # rows and tag are committed
    ("before", "advance", 3),  # which would end the attempt too
]


@pytest.mark.parametrize(("side", "step", "times"), PLACES)
def test_b8_a_runner_stopped_for_longer_than_its_lease_changes_nothing_when_it_wakes(
    project: Project, side: str, step: str, times: int
) -> None:
    zombie = start_pausing(project, side, step, times)
    time.sleep(3.5)
    heir = project.shell("run", "--json")
    assert heir.code == 0, heir.said
    assert [(one["resumed"], one["state"]) for one in heir.json["flows"]] == [
        (True, "SUCCESS"),
        (False, "SKIPPED"),
    ]
    before = project.traces()
    marks = project.here("watermark", "list", "--json").json

    go_on(zombie)
    ended = end(zombie)
    assert ended.code == 1, ended.said
    [flow] = ended.json["flows"]
    assert flow["error"]["type"] == "LeaseLost", ended.said
    assert flow["error"]["retryable"] is True
    assert flow["state"] == "RUNNING", "it is not this runner that can say how the flow ended"

    after = project.traces()
    assert {name for name in after if "_tidegauge" in name} == {n for n in before if "_tidegauge" in n}
    assert all(after[name] == before[name] for name in before if name.startswith("lake/"))
    assert project.here("watermark", "list", "--json").json == marks
    assert landed(project) == EXPECTED


def test_b8_a_zombie_that_wakes_beside_its_heir_does_not_publish(project: Project) -> None:
    zombie = start_pausing(project, "before", "write", 2)
    time.sleep(3.5)
    # The heir's own lease must outlast the zombie's end.
    project.write(SYNC, top=project.top.replace("3s", "60s"))
    heir = start_pausing(project, "before", "write", 1)
    go_on(zombie)
    ended = end(zombie)
    assert ended.code == 1, ended.said
    assert ended.flow("t")["error"]["type"] == "LeaseLost"
    assert len(manifests(project.lake, "t")) == 1, "the zombie made its batch visible"

    go_on(heir)
    finished = end(heir)
    assert finished.code == 0, finished.said
    assert landed(project) == EXPECTED
    runs = [one["run_id"] for one in manifests(project.lake, "t")]
    assert runs == [ended.json["run_id"]] + [finished.json["run_id"]] * 2


def test_b8_a_stopped_runner_that_nobody_replaced_goes_on_where_it_stood(project: Project) -> None:
    sleeper = start_pausing(project, "before", "publish", 2)
    time.sleep(3.5)
    go_on(sleeper)
    ended = end(sleeper)
    assert ended.code == 0, ended.said
    assert landed(project) == EXPECTED


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"])
def test_b7_eight_runners_at_once_move_every_row_exactly_once(
    project: Project, ledger: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_PASSWORD", postgres.password)
    if ledger == "postgresql":
        login = f"{postgres.user}:${{env:LEDGER_PASSWORD}}@{postgres.host}:{postgres.port}"
        project.write(SYNC, ledger=f"postgresql://{login}/{postgres.create_database()}")
    runners = [project.start("run", "--json") for _ in range(8)]
    ended = [end(runner) for runner in runners]
    for ran in ended:
        for flow in ran.json["flows"]:
            assert flow["error"] is None or flow["error"]["type"] == "FlowHeld", ran.said
        held = any(flow["error"] for flow in ran.json["flows"])
        assert ran.code == (1 if held else 0), ran.said
    assert sum(flow["rows_written"] for ran in ended for flow in ran.json["flows"]) == ROWS
    assert landed(project) == EXPECTED


def test_b7_eight_runners_that_wait_all_end_well(project: Project) -> None:
    runners = [project.start("run", "--json", "--wait", "600s") for _ in range(8)]
    ended = [end(runner) for runner in runners]
    assert [ran.code for ran in ended] == [0] * 8, [ran.said for ran in ended if ran.code]
    assert landed(project) == EXPECTED


def test_b7_a_runner_overtaken_between_its_look_and_its_plan_reads_nothing_twice(project: Project) -> None:
    late = start_pausing(project, "before", "plan", 1)
    assert project.shell("run", "--json").code == 0
    go_on(late)
    ended = end(late)
    assert ended.code == 0, ended.said
    assert ended.flow("t")["state"] == "SKIPPED", ended.said
    assert landed(project) == EXPECTED


def test_b7_a_runner_overtaken_between_its_plan_and_its_claim_ends_well(project: Project) -> None:
    late = start_pausing(project, "before", "claim", 1)
    assert project.shell("run", "--json").code == 0
    go_on(late)
    ended = end(late)
    assert ended.code == 0, ended.said
    assert landed(project) == EXPECTED


def test_a_flow_that_another_runner_holds_is_refused_at_once_and_waited_for_when_asked(
    project: Project,
) -> None:
    project.write(SYNC, top=project.top.replace("3s", "60s"))
    holder = start_pausing(project, "before", "write", 2)

    refused = project.shell("run", "--json")
    assert refused.code == 1, refused.said
    [flow] = refused.json["flows"]
    assert flow["state"] == "RUNNING"
    assert flow["error"]["type"] == "FlowHeld"
    assert flow["error"]["retryable"] is True
    assert f"process {holder.pid}" in flow["error"]["message"]

    [standing] = project.here("status", "--json").json["flows"]
    assert standing["state"] == "RUNNING"
    assert f"process {holder.pid}" in standing["lease"]["owner"]

    waiting = project.start("run", "--json", "--wait", "600s")
    time.sleep(4)
    assert waiting.poll() is None, "it did not wait"
    go_on(holder)
    assert end(holder).code == 0
    patient = end(waiting)
    assert patient.code == 0, patient.said
    assert all(one["error"] is None for one in patient.json["flows"]), patient.said
    assert landed(project) == EXPECTED


def test_a_holder_whose_process_is_gone_is_replaced_before_its_lease_ends(project: Project) -> None:
    project.write(SYNC, top=project.top.replace("3s", "10m"))
    holder = start_pausing(project, "before", "write", 2)
    holder.kill()
    holder.wait()
    heir = project.shell("run", "--json")
    assert heir.code == 0, heir.said
    assert landed(project) == EXPECTED


def lease_of(project: Project) -> datetime:
    [standing] = project.here("status", "--json").json["flows"]
    assert standing["state"] == "RUNNING"
    return datetime.fromisoformat(standing["lease"]["until"])


def test_a_batch_that_takes_longer_than_the_lease_keeps_it(
    tmp_path: Path, connect: str, postgres: Postgres
) -> None:
    database = postgres_database(postgres)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, word text, at timestamp NOT NULL)")
    database.insert("t", [(n, f"word {n}", "2025-01-01 00:00:00") for n in range(ROWS)])
    project = local(tmp_path, database).write(SYNC, top=f"lease: 9s\nspark: {{master: '{connect}'}}")
    slow = start_pausing(project, "before", "write", 2)
    with closing(database.connect()) as lock, lock.transaction():
        lock.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        go_on(slow)
        waits = (
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        until(lambda: database.rows(waits))
        first = lease_of(project)
        # Renewed, and again: a lease that ends later than one whole lease after the batch stood still.
        until(lambda: lease_of(project) > first + timedelta(seconds=9))
        rival = project.shell("run", "--json")
        assert (rival.code, rival.flow("public.t")["error"]["type"]) == (1, "FlowHeld"), rival.said
    ended = end(slow)
    assert ended.code == 0, ended.said
    assert landed(project) == EXPECTED
    history = project.here("history", "--json", "--limit", "100").json["events"]
    assert not [event for event in history if event["event"] == "taken_over"]
