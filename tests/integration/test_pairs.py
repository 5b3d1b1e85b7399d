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


@pytest.mark.shown_on("sqlite", "duckdb")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_is_kept_in_its_replica_in_the_same_database(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    one = make_database(engine, request, tmp_path / "one.db")
    Pair(tmp_path, one, one, to="ops").keep_in_step()


@pytest.mark.shown_on("snowflake-sqlite", "duckdb-postgresql", "mysql-duckdb", "postgresql-sqlite")
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
    replica = make_database(target, request, tmp_path / "replica.db")
    Pair(tmp_path, ops, replica, to="replica").keep_in_step()
