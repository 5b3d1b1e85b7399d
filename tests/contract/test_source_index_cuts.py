"""Hopping along an index finds the same batch ends as numbering every row does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.servers import MariaDB
from tests.support.source_parts import Place, asked, mysql_place
from tidegauge.sources.open import open_source


@pytest.fixture
def place(mariadb: MariaDB) -> Place:
    return mysql_place(mariadb)


@pytest.mark.long
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moments=st.lists(st.integers(0, 3), max_size=25),
    step=st.integers(1, 9),
)
def test_a1_hops_of_any_length_end_where_numbering_does(place: Place, moments: list[int], step: int) -> None:
    place.run("DROP TABLE IF EXISTS t")
    place.run("CREATE TABLE t (id int PRIMARY KEY, at datetime NOT NULL, KEY by_time (at))")
    for number, second in enumerate(moments):
        place.run(f"INSERT INTO t VALUES ({number}, '2025-01-01 00:00:0{second}')")
    source = open_source(place.database)
    source_table = source.describe(place.table("t"), asked())
    assert "by_time" in source_table.along
    along_index = source.survey(source_table, None, step, None)
    numbered = source.survey(replace(source_table, along=""), None, step, None)
    source.close()
    assert [cut.rows for cut in along_index.cuts] == [cut.rows for cut in numbered.cuts]
    assert [cut.position for cut in along_index.cuts[:-1]] == [cut.position for cut in numbered.cuts[:-1]]
    assert sum(cut.rows for cut in along_index.cuts) == len(moments)


@pytest.mark.parametrize(
    ("index", "key", "used"),
    [
        ("KEY i (at, id)", "id", True),
        ("KEY i (at)", "id", True),
        ("KEY i (at, other)", "id", False),
        ("KEY i (at, other)", "other", True),
        ("KEY i (other, at)", "id", False),
        ("KEY i (at)", "other", False),
    ],
)
def test_only_an_index_in_the_order_of_cursor_and_key_is_hopped_along(
    place: Place, index: str, key: str, used: bool
) -> None:
    place.run(f"CREATE TABLE t (id int PRIMARY KEY, at datetime NOT NULL, other int NOT NULL, {index})")
    source = open_source(place.database)
    source_table = source.describe(place.table("t"), asked(key=(key,)))
    source.close()
    assert bool(source_table.along) is used
