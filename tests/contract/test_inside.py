"""`execute: database`: a table into its replica in the same database, by that database alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.replicas import ENGINES, Pair, make_database

INSIDE = ", execute: database"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_is_kept_in_its_replica_inside_the_database(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    one = make_database(engine, request, tmp_path / "one.db")
    pair = Pair(tmp_path, one, one, to="ops", more=INSIDE)
    pair.insert(range(20), ago=3600)
    assert pair.run() == [20, 0, 0]
    pair.check()
    pair.change(7, ago=60)
    pair.insert(range(100, 103), ago=60)
    pair.delete(15)
    assert pair.run() == [3, 7, 1]
    pair.check()
    assert pair.run() == [0, 0, 0]
