"""One table into its replica, in one stage: from every kind of database into every kind, on one server or on
two.

What has to be in the replica is worked out from what was done to the source.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.replicas import ENGINES, Pair, make_database

SHOWN = {
    ("duckdb", "postgresql"),
    ("duckdb", "sqlite"),
    ("mysql", "duckdb"),
    ("postgresql", "sqlite"),
    ("snowflake", "sqlite"),
    ("sqlite", "duckdb"),
    ("sqlite", "snowflake"),
}
"""The cheap ones: every kind is read, and every new one written. The other pairs are further cases."""


def _keep_in_step(pair: Pair) -> None:
    pair.insert(range(20), ago=3600)
    assert pair.run() == [20, 0, 0]
    pair.check()
    pair.change(7, ago=60)
    pair.insert(range(100, 103), ago=60)
    pair.delete(15)
    assert pair.run() == [3, 7, 1]
    pair.check()
    assert pair.run() == [0, 0, 0]


@pytest.mark.shown_on("sqlite", "duckdb", "snowflake")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_is_kept_in_its_replica_in_the_same_database(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    one = make_database(engine, request, tmp_path / "one.db")
    _keep_in_step(Pair(tmp_path, one, one, to="ops"))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(source, target, marks=() if (source, target) in SHOWN else pytest.mark.long)
        for source in ENGINES
        for target in ENGINES
    ],
)
def test_a_table_is_kept_in_its_replica_in_another_database(
    tmp_path: Path, request: pytest.FixtureRequest, source: str, target: str
) -> None:
    ops = make_database(source, request, tmp_path / "ops.db")
    _keep_in_step(Pair(tmp_path, ops, make_database(target, request, tmp_path / "replica.db"), to="replica"))
