"""A run from a DuckDB file or from Snowflake into a replica in the same database, killed half-way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.nursery import Kill, Nursery
from tests.support.replicas import Pair, make_database
from tidegauge.run.steps import Step

pytestmark = pytest.mark.timeout(300)

KILLS = [("after", Step.WRITE, 1), ("after", Step.PUBLISH, 2)]


@pytest.mark.parametrize(
    ("engine", "kill"),
    [
        ("duckdb", ("before", Step.PUBLISH, 2)),
        ("duckdb", ("within", Step.PUBLISH, 2)),
        # Whoever is killed within a transaction of Snowflake leaves it open until the server ends it; the
        # stand-in never does.
        pytest.param("snowflake", ("before", Step.PUBLISH, 2), marks=pytest.mark.long),
        *(
            pytest.param(engine, kill, marks=pytest.mark.long)
            for engine in ("duckdb", "snowflake")
            for kill in KILLS
        ),
    ],
)
def test_a_replica_is_whole_after_a_kill_and_another_run(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    nursery: Nursery,
    engine: str,
    kill: tuple[str, Step, int],
) -> None:
    one = make_database(engine, request, tmp_path / "one.db")
    pair = Pair(tmp_path, one, one, to="ops", more=", batch_rows: 6")
    pair.insert(range(20), ago=3600)
    side, step, times = kill
    killed = nursery.run(pair.file, Kill(pair.flow, side, step, times))
    assert killed.code == -9, killed
    pair.change(7, ago=60)
    pair.insert(range(100, 103), ago=60)
    pair.delete(15)
    pair.run_all()
    pair.check()
