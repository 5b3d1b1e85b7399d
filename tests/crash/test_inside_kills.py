"""Runs of `execute: database` that are killed, stopped or overtaken around the commit."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.crash.pausing import start_pausing
from tests.support.lake import LocalLake
from tests.support.nursery import Kill, Nursery
from tests.support.project import Project, end
from tests.support.replicas import REPLICA, Pair, make_database
from tidegauge.run.steps import Step

pytestmark = pytest.mark.timeout(300)

KILLS = [
    ("before", Step.WRITE, 2),
    ("after", Step.WRITE, 2),
    ("within", Step.PUBLISH, 2),
    ("after", Step.PUBLISH, 2),
    ("before", Step.ADVANCE, 2),
]
SHOWN = {
    ("sqlite", ("after", Step.WRITE, 2)),
    ("sqlite", ("after", Step.PUBLISH, 2)),
    ("postgresql", ("after", Step.WRITE, 2)),
    ("postgresql", ("within", Step.PUBLISH, 2)),
    ("mysql", ("before", Step.ADVANCE, 2)),
    ("duckdb", ("within", Step.PUBLISH, 2)),
}
INSIDE = ", execute: database, batch_rows: 6"


def _pair(folder: Path, request: pytest.FixtureRequest, engine: str, more: str = "") -> Pair:
    one = make_database(engine, request, folder / "one.db")
    return Pair(folder, one, one, to="ops", more=INSIDE + more)


def _project(pair: Pair) -> Project:
    """As much of one as `start_pausing` asks for."""
    return Project(pair.file.parent, pair.ops, LocalLake(pair.file.parent / "lake"))


def _counted(pair: Pair) -> list[tuple[int, int, int]]:
    """Rows inserted, updated and deleted by each batch that was ever committed."""
    names = ", ".join(map(pair.ops.quote, ("inserted", "updated", "deleted")))
    found = pair.ops.rows(f"SELECT {names} FROM tidegauge_commits WHERE seq > 0 ORDER BY epoch, seq")
    return [(int(one), int(two), int(three)) for one, two, three in found]


def _stages(pair: Pair) -> list[str]:
    where, name = "information_schema.tables", "table_name"
    if pair.ops.engine == "sqlite":
        where, name = "sqlite_master", "name"
    here = " AND table_schema = DATABASE()" if pair.ops.engine == "mysql" else ""
    return [
        one for (one,) in pair.ops.rows(f"SELECT {name} FROM {where} WHERE {name} LIKE 'tidegauge_st%'{here}")
    ]


@pytest.mark.parametrize(
    ("engine", "kill"),
    [
        pytest.param(engine, kill, marks=() if (engine, kill) in SHOWN else pytest.mark.long)
        for engine in ("sqlite", "duckdb", "postgresql", "mysql")
        for kill in KILLS
    ],
)
def test_a_killed_run_leaves_nothing_half_done_and_the_next_one_ends_it(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    nursery: Nursery,
    engine: str,
    kill: tuple[str, Step, int],
) -> None:
    pair = _pair(tmp_path, request, engine)
    pair.insert(range(20), ago=3600)
    side, step, times = kill
    killed = nursery.run(pair.file, Kill(pair.flow, side, step, times))
    assert killed.code == -9, killed
    # What readers see is whole batches: one, or two where the commit was through.
    seen = pair.ops.rows(f"SELECT * FROM {pair.ops.quote(REPLICA)}")
    assert len(seen) == (12 if (side, step) in (("after", Step.PUBLISH), ("before", Step.ADVANCE)) else 6)
    pair.change(7, ago=60)
    pair.insert(range(100, 103), ago=60)
    pair.delete(15)
    pair.run_all()
    pair.check()
    batches = _counted(pair)
    inserted, updated, deleted = (sum(counts) for counts in zip(*batches, strict=True))
    assert inserted - deleted == len(pair.expected)
    assert updated <= 7


@pytest.mark.parametrize("engine", ["postgresql", pytest.param("sqlite", marks=pytest.mark.long)])
@pytest.mark.parametrize(("side", "step"), [("after", "write"), ("before", "publish")])
def test_b17_a_runner_that_wakes_in_a_closed_life_lands_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, nursery: Nursery, engine: str, side: str, step: str
) -> None:
    pair = _pair(tmp_path, request, engine)
    pair.insert(range(12), ago=3600)
    zombie = start_pausing(_project(pair), side, step, 2)
    reset = nursery.command(
        *("watermark", "reset", "-t", pair.flow, "--reason", "a table made anew", "--yes"),
        *("--project", pair.file),
    )
    assert reset.code == 0, reset
    pair.change(6, ago=60)
    pair.run_all()
    pair.check()
    there = _counted(pair)

    zombie.send_signal(signal.SIGCONT)
    ended = end(zombie)
    assert ended.code == 1, ended.said
    assert ended.flow(pair.flow)["error"]["type"] in ("LeaseLost", "OutputDisagrees"), ended.said
    assert _counted(pair) == there
    pair.check()
    assert _stages(pair) == [], "who wakes up clears away what it staged"


def test_b8_a_runner_stopped_for_longer_than_its_lease_changes_nothing_when_it_wakes(
    tmp_path: Path, request: pytest.FixtureRequest, nursery: Nursery
) -> None:
    pair = _pair(tmp_path, request, "postgresql")
    pair.file.write_text(f"lease: 3s\n{pair.file.read_text()}")
    pair.insert(range(12), ago=3600)
    zombie = start_pausing(_project(pair), "before", "publish", 2)
    time.sleep(3.2)
    pair.change(6, ago=60)
    pair.run_all()
    pair.check()
    there = _counted(pair)
    zombie.send_signal(signal.SIGCONT)
    assert end(zombie).code == 1
    assert _counted(pair) == there
    pair.check()
