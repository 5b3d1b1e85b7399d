"""Overrides that die half-way, and runners that wake up in an epoch that was closed over their heads."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.crash.pausing import start_pausing
from tests.support.lake import manifests, rows
from tests.support.nursery import own_nursery
from tests.support.project import Project, end, local, sqlite_database
from tidegauge.run.steps import OverrideStep

ROWS = 45
SYNC = "tables: [t], cursor: at, settle: 1s, batch_rows: 15"
WHY = ("--reason", "a table made anew", "--yes")
BACK = "2025-01-01 00:00:00"
"""Past the first third of the rows."""


@pytest.fixture
def project(tmp_path: Path, connect: str) -> Project:
    """Three batches in SQLite; a lease so long that only the override can take the flow away."""
    database = sqlite_database(tmp_path / "source.db")
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT, at TEXT NOT NULL)")
    database.insert("t", [(n, f"word {n}", f"2025-01-01 00:00:0{n // 15}") for n in range(ROWS)])
    return local(tmp_path, database).write(SYNC, top=f"lease: 10m\nspark: {{master: '{connect}'}}")


def landed(project: Project) -> list[int]:
    return sorted(row["id"] for row in rows(project.lake, "t"))


PLACES = [
    ("before", "plan", 1),
    ("before", "claim", 1),
    ("before", "write", 2),
    ("after", "write", 2),
    ("before", "publish", 2),  # the last look at the lease is behind it
    ("after", "publish", 2),
    ("before", "advance", 2),
    ("before", "advance", 3),  # which would end the attempt too
]


@pytest.mark.parametrize(("side", "step", "times"), PLACES)
def test_b17_a_runner_paused_before_a_reset_and_woken_after_the_next_run_changes_nothing(
    project: Project, side: str, step: str, times: int
) -> None:
    zombie = start_pausing(project, side, step, times)
    [shown] = project.here("watermark", "reset", "-t", "t", "--dry-run", "--json").json["flows"]
    if step not in ("plan", "claim"):
        assert f"process {zombie.pid}" in shown["held_by"]
    reset = project.shell("watermark", "reset", "-t", "t", *WHY, "--json")
    assert reset.code == 0, reset.said
    project.database.execute("DELETE FROM t WHERE id < 5", "UPDATE t SET word = 'new'")
    heir = project.shell("run", "--json")
    assert heir.code == 0, heir.said
    assert heir.flow("t")["rows_read"] == ROWS - 5
    before, table = project.traces(), rows(project.lake, "t")
    marks = project.here("watermark", "list", "--json").json

    zombie.send_signal(signal.SIGCONT)
    ended = end(zombie)
    if step in ("plan", "claim"):
        assert ended.code == 0, ended.said
        assert ended.flow("t")["state"] == "SKIPPED"
    else:
        assert ended.code == 1, ended.said
        assert ended.flow("t")["error"]["type"] in ("LeaseLost", "OutputDisagrees"), ended.said

    assert rows(project.lake, "t") == table
    assert {row["word"] for row in table} == {"new"}
    after = project.traces()
    assert all(after[name] == before[name] for name in before if name.startswith("lake/"))
    assert not [name for name in set(after) - set(before) if name.startswith("lake/t/_tidegauge")]
    now = project.here("watermark", "list", "--json").json
    assert [(one["position"], one["epoch"]) for one in now["watermarks"]] == [
        (one["position"], one["epoch"]) for one in marks["watermarks"]
    ]
    assert project.shell("run", "--json").flow("t")["state"] == "SKIPPED"


def kill(project: Project, kind: str, side: str, step: str) -> None:
    dying = own_nursery().main(project.file, kind, side, step, module="tests.crash.overriding")
    assert end(dying).code == -signal.SIGKILL


DEATHS = [(side, step) for step in OverrideStep for side in ("before", "after")]


@pytest.mark.shown_on("reset")
@pytest.mark.parametrize(("side", "step"), DEATHS)
@pytest.mark.parametrize("kind", ["reset", BACK])
def test_b17_an_override_killed_at_any_step_is_ended_by_the_next_run_or_never_was(
    project: Project, kind: str, side: str, step: OverrideStep
) -> None:
    assert project.shell("run").code == 0
    kill(project, kind, side, step)
    begun = (side, step) != ("before", OverrideStep.BEGIN)
    ran = project.shell("run", "--json")
    assert ran.code == 0, ran.said
    again = (ROWS if kind == "reset" else ROWS - 15) if begun else 0
    assert sum(flow["rows_read"] for flow in ran.json["flows"]) == again
    whole = [*range(ROWS)]
    assert landed(project) == (whole if kind == "reset" or not begun else sorted(whole + whole[15:]))
    [mark] = project.here("watermark", "list", "--json").json["watermarks"]
    assert mark["epoch"] == int(begun)
    numbers = [(one["epoch"], one["seq"]) for one in manifests(project.lake, "t")]
    assert len(numbers) == len(set(numbers))
    words = [one["event"] for one in project.here("history", "--json", "--limit", "50").json["events"]]
    assert words.count("reset" if kind == "reset" else "set") == int(begun)


def test_b17_an_override_that_died_is_ended_before_the_next_one_is_begun(project: Project) -> None:
    assert project.shell("run").code == 0
    kill(project, "reset", "after", OverrideStep.BEGIN)
    words = ("watermark", "set", "-t", "t", "--timestamp", BACK)
    [shown] = project.here(*words, "--dry-run", "--json").json["flows"]
    assert shown["from"] is None, "where the flow will stand once the reset has ended"
    assert "is ended first" in shown["notes"][0]
    done = project.here(*words, *WHY, "--json")
    assert done.code == 0, done.said
    assert done.json["flows"][0]["epoch"] == 2
    assert project.shell("run", "--json").flow("t")["rows_read"] == ROWS - 15
    assert landed(project) == [*range(15, ROWS)]


def test_b17_overrides_and_runs_at_once_leave_a_table_that_is_whole(project: Project) -> None:
    assert project.shell("run").code == 0
    project.write(SYNC, top=project.top.replace("10m", "5s"))
    others = []
    for _ in range(3):
        others += [
            project.start("run", "--json", "--wait", "600s"),
            project.start("watermark", "reset", "-t", "t", *WHY, "--json"),
        ]
    for other in others:
        ended = end(other)
        for flow in ended.json["flows"]:
            error = flow["error"]
            assert error is None or error["type"] in (
                "LeaseLost", "OutputDisagrees", "FlowHeld", "WrongState",
            ), ended.said  # fmt: skip
    last = project.shell("run", "--json", "--wait", "600s")
    assert last.code == 0, last.said
    assert landed(project) == [*range(ROWS)]
