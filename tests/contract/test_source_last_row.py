"""A plan ends at the last row that was found, and not at the bound: what comes between them is still read."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.source_parts import Place, batches
from tidegauge.model.position import RowPosition, Value, ValueKind
from tidegauge.sources.open import open_source

INDEX = "CREATE INDEX by_at ON t (at, id)"


def ids(
    place: Place, after: RowPosition | None = None, *, step: int = 3
) -> tuple[list[int], RowPosition | None]:
    """What a plan would read, and where it would end."""
    source_table, survey = place.survey("t", after=after, step=step)
    found: list[int] = []
    end = after
    for batch in batches(survey, after):
        rows = place.read(source_table, batch, "id")
        assert len(rows) == batch.rows
        found += [key for (key,) in rows]
        [window] = batch.windows
        assert isinstance(window.upto, RowPosition)
        end = window.upto
    return sorted(found), end


@pytest.mark.parametrize("indexed", [True, False])
def test_a26_rows_that_come_later_with_a_time_in_the_past_are_read(place: Place, indexed: bool) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL)")
    if indexed:
        place.run(INDEX)
    place.run("INSERT INTO t VALUES " + ", ".join(f"({n}, '2025-01-{n:02} 00:00:00')" for n in range(1, 11)))
    found, end = ids(place)
    assert found == [*range(1, 11)]
    assert end is not None
    assert (end.cursor.text[:19], [part.text for part in end.key]) == ("2025-01-10 00:00:00", ["10"])

    place.run("INSERT INTO t VALUES (5000, '2025-01-10 00:00:00'), (11, '2025-02-01 00:00:00')")
    found, end = ids(place, end)
    assert found == [11, 5000], "the one that ties with the last row has a higher key"
    assert ids(place, end) == ([], end)


@pytest.mark.parametrize("rows", [1, 3, 4, 6])
def test_a26_the_end_is_the_last_row_whatever_the_batches_are(place: Place, rows: int) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL)")
    place.run(INDEX)
    place.run("INSERT INTO t VALUES " + ", ".join(f"({n}, '2025-01-01 00:00:00')" for n in range(rows)))
    found, end = ids(place)
    assert found == [*range(rows)]
    assert end is not None
    assert [part.text for part in end.key] == [str(rows - 1)]


def test_a26_a_value_ends_at_the_last_row_too(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at int NOT NULL)")
    place.run("INSERT INTO t VALUES (1, 5), (2, 5)")
    found, end = ids(place)
    assert found == [1, 2]
    assert end == RowPosition(Value(ValueKind.INT, "5"), (Value(ValueKind.INT, "2"),))
    place.run("INSERT INTO t VALUES (3, 5)")
    assert ids(place, end)[0] == [3]


def test_a26_how_far_was_looked_is_the_bound(place: Place) -> None:
    """Also where nothing is new, and where the column is text that nothing new shows the notation of."""
    place.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01 00:00:00')")
    _, first = place.survey("t", settle=timedelta(seconds=5))
    assert first.upto is not None
    assert first.upto.cursor.text > "2026"
    _, again = place.survey("t", after=first.cuts[-1].position, settle=timedelta(seconds=5))
    assert not again.cuts
    assert again.upto is not None
    assert again.upto.cursor.text >= first.upto.cursor.text


def test_a26_a_window_that_a_person_named_ends_where_he_said(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01 00:00:00'), (2, '2025-01-02 00:00:00')")
    source_table, survey = place.survey("t")
    assert survey.upto is not None
    source = open_source(place.database)
    try:
        [cut] = source.cuts(source_table, None, survey.upto, 10)
    finally:
        source.close()
    assert (cut.position, cut.rows) == (survey.upto, 2)


def test_a25_the_highest_number_is_not_the_highest_text(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at int NOT NULL)")
    place.run("INSERT INTO t VALUES (1, 9), (2, 10)")
    assert ids(place)[0] == [1, 2]
