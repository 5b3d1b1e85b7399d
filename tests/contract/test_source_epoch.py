"""Numbers that are times: bounded by the source's clock with `epoch`, and noticed without it (A28)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.source_parts import Place, batches, mysql_place, postgresql_place, sqlite_place
from tidegauge.errors import CursorUnsuitable
from tidegauge.model.position import RowPosition, Value, ValueKind
from tidegauge.model.spec import FutureGuard
from tidegauge.model.table import Survey
from tidegauge.model.unix_times import UnixUnit

YEARS = 5 * 365 * 86_400


@pytest.fixture(params=["sqlite", "mysql", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "sqlite":
            made = sqlite_place(tmp_path)
        case "mysql":
            made = mysql_place(request.getfixturevalue("mariadb"))
        case _:
            made = postgresql_place(request.getfixturevalue("postgres"))
    made.run("CREATE TABLE t (id integer PRIMARY KEY, ts bigint NOT NULL)")
    made.run("CREATE INDEX by_time ON t (ts)")
    return made


def put(place: Place, *numbers: int) -> None:
    ((first,),) = place.run("SELECT COUNT(*) FROM t")
    for number, ts in enumerate(numbers, first + 1):
        place.run(f"INSERT INTO t VALUES ({number}, {ts})")


def got(place: Place, found: tuple[Any, Survey], after: RowPosition | None = None) -> list[int]:
    source_table, survey = found
    return sorted(row[0] for batch in batches(survey, after) for row in place.read(source_table, batch, "ts"))


@pytest.mark.parametrize("epoch", UnixUnit)
def test_a28_a_row_of_the_future_waits_and_later_rows_arrive(place: Place, epoch: UnixUnit) -> None:
    each, now = epoch.each, int(time.time())
    put(place, (now - 60) * each, (now + YEARS) * each)
    first = place.survey("t", cursor="ts", epoch=epoch)
    source_table, survey = first
    assert source_table.cursor_kind == "timestamp"
    assert (got(place, first), survey.rows_waiting) == ([(now - 60) * each], 1)
    put(place, (now - 5) * each)
    assert survey.upto is not None
    assert survey.upto.cursor.kind is ValueKind.INT
    assert now - 10 <= int(survey.upto.cursor.text) // each <= time.time()
    after = RowPosition(Value(ValueKind.INT, str((now - 60) * each)))
    second = place.survey("t", cursor="ts", epoch=epoch, after=after)
    assert got(place, second, after) == [(now - 5) * each]
    assert not any("risk" in note for note in (*survey.notes, *second[1].notes))


def test_a28_a_watermark_that_was_carried_away_is_said(place: Place) -> None:
    now = int(time.time())
    put(place, now - 60, now + YEARS)
    there = RowPosition(Value(ValueKind.INT, str(now + YEARS)))
    _, survey = place.survey("t", cursor="ts", epoch=UnixUnit.SECONDS, after=there)
    assert survey.upto is None
    assert any("past the source's clock" in note for note in survey.notes)


def test_a28_epoch_is_for_whole_numbers(place: Place) -> None:
    text = "text" if place.engine.value != "mysql" else "varchar(30)"
    place.run(f"CREATE TABLE u (id integer PRIMARY KEY, at {text} NOT NULL)")
    place.run("INSERT INTO u VALUES (1, '2025-01-01 00:00:00')")
    with pytest.raises(CursorUnsuitable, match="`epoch` is for whole numbers"):
        place.survey("u", cursor="at", epoch=UnixUnit.SECONDS)


@pytest.mark.parametrize("epoch", UnixUnit)
def test_a28_without_epoch_a_number_past_the_clock_is_noted_or_stops(place: Place, epoch: UnixUnit) -> None:
    each, now = epoch.each, int(time.time())
    put(place, *((now - 60 * n) * each for n in range(1, 20)), (now + YEARS) * each)
    (note,) = (note for note in place.survey("t", cursor="ts")[1].notes if note.startswith("risk:"))
    assert f"`cursor: {{column: ts, epoch: {epoch.value}}}`" in note
    with pytest.raises(CursorUnsuitable, match="past the clock"):
        place.survey("t", cursor="ts", future_guard=FutureGuard.FAIL)
    # Also when it has carried the watermark away, and nothing new is to be seen.
    there = RowPosition(Value(ValueKind.INT, str((now + YEARS) * each)))
    _, later = place.survey("t", cursor="ts", after=there)
    assert any(note.startswith("risk:") for note in later.notes)


def test_a28_a_number_far_beyond_all_others_is_noted_or_stops(place: Place) -> None:
    put(place, *range(1, 50), 90_000_000)
    (note,) = (note for note in place.survey("t", cursor="ts")[1].notes if note.startswith("risk:"))
    assert "jumps from 49 to 90000000" in note
    with pytest.raises(CursorUnsuitable, match="jumps from 49"):
        place.survey("t", cursor="ts", future_guard=FutureGuard.FAIL)


@pytest.mark.parametrize(
    "numbers",
    [
        (),
        (7,),
        (1, 5_000_000_000_000),
        tuple(range(1, 30)),
        # Ordinary numbers that happen to be as large as the clock's.
        tuple(range(2_000_000_000, 2_000_000_030)),
        tuple(range(int(time.time()) - 20, int(time.time()) + 10)),
        tuple(2**62 + n * 2**40 for n in range(20)),
    ],
)
def test_a28_ordinary_numbers_are_left_alone(place: Place, numbers: tuple[int, ...]) -> None:
    put(place, *numbers)
    _, survey = place.survey("t", cursor="ts", future_guard=FutureGuard.FAIL)
    assert not any("risk" in note for note in survey.notes)
