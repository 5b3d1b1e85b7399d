"""A window as a Spark predicate and as SQL; what an import of the tracker brings with it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegauge
from tidegauge.errors import ConfigError
from tidegauge.model.position import ValueKind
from tidegauge.tracker import TimeWindow
from tidegauge.tracker.moment import from_position, read_moment, to_position

START = datetime(2025, 8, 14, 12, 0, 0, 123456, tzinfo=UTC)
END = datetime(2025, 8, 14, 15, 0, tzinfo=timezone(timedelta(hours=2)))
HOSTILE = ["a b", 'x"; DROP TABLE t; --', "it's", "a`b", "🌊", "100%", ":start", "?", "a.b", "x" * 200]


def test_a_window_is_a_pair() -> None:
    start, end = TimeWindow(START, END)
    assert (start, end) == (START, END) == TimeWindow(START, END)


def test_a_predicate_is_open_below_closed_above_and_in_utc() -> None:
    assert TimeWindow(START, END).predicate("updated_at") == (
        "(`updated_at` > TIMESTAMP '2025-08-14 12:00:00.123456Z'"
        " AND `updated_at` <= TIMESTAMP '2025-08-14 13:00:00Z')"
    )
    assert TimeWindow(None, END).predicate("c") == "(`c` <= TIMESTAMP '2025-08-14 13:00:00Z')"
    assert TimeWindow(None, END).predicate(("t", "a`b")).startswith("(`t`.`a``b` <= ")


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("paramstyle", ["named", "qmark"])
def test_sql_is_safe_under_any_column_name(name: str, paramstyle: str) -> None:
    window = TimeWindow(datetime(2025, 1, 1), datetime(2025, 1, 3))
    text, values = window.sql(name, paramstyle=paramstyle)  # type: ignore[arg-type]
    with sqlite3.connect(":memory:") as connection:
        quoted = '"' + name.replace('"', '""') + '"'
        connection.execute(f"CREATE TABLE t ({quoted})")
        connection.executemany(
            "INSERT INTO t VALUES (?)", [(f"2025-01-0{day} 00:00:00",) for day in range(1, 5)]
        )
        texts = (
            {key: str(value) for key, value in values.items()}
            if paramstyle == "named"
            else [str(v) for v in values]
        )
        rows = connection.execute(f"SELECT * FROM t WHERE {text}", texts).fetchall()
    assert rows == [("2025-01-02 00:00:00",), ("2025-01-03 00:00:00",)]


def test_sql_binds_as_the_driver_wants() -> None:
    window = TimeWindow(START, END)
    assert window.sql("c") == ('("c" > :start AND "c" <= :end)', {"start": START, "end": END})
    assert window.sql("a%b", paramstyle="format", quote="`") == (
        "(`a%%b` > %s AND `a%%b` <= %s)",
        (START, END),
    )
    assert TimeWindow(None, END).sql("c") == ('("c" <= :end)', {"end": END})
    assert TimeWindow(None, END).sql("c", paramstyle="qmark") == ('("c" <= ?)', (END,))


def test_what_is_no_column_or_style_is_refused() -> None:
    window = TimeWindow(None, END)
    for wrong in ("", "a\0b", (), ("t", "")):
        with pytest.raises(ConfigError):
            window.predicate(wrong)
    with pytest.raises(ConfigError, match="pyformat"):
        window.sql("c", paramstyle="pyformat")  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        window.sql("c", quote="'")


@given(st.datetimes(timezones=st.none() | st.timezones()))
def test_a_time_comes_back_as_it_was(moment: datetime) -> None:
    try:
        back = from_position(to_position(moment))
    except OverflowError:
        return  # an offset past the first or last year
    # In UTC: an hour that the clocks leave out, or show twice, equals nothing in another zone.
    assert back == (moment if moment.tzinfo is None else moment.astimezone(UTC))
    assert back is not None
    assert (back.tzinfo is None) == (moment.tzinfo is None)


def test_a_pipeline_keeps_the_kind_of_time_that_it_has() -> None:
    aware, naive = to_position(START), to_position(START.replace(tzinfo=None))
    assert aware.cursor.kind is ValueKind.TIMESTAMPTZ
    assert to_position(END, like=naive).cursor.kind is ValueKind.TIMESTAMP
    assert to_position(START.replace(tzinfo=None), like=aware) == aware


def test_times_are_read_from_dates_and_text() -> None:
    assert read_moment(date(2025, 8, 14), what="x") == datetime(2025, 8, 14)
    assert read_moment("2025-08-14T12:00:00.5Z", what="x") == datetime(
        2025, 8, 14, 12, 0, 0, 500000, tzinfo=UTC
    )
    with pytest.raises(ConfigError, match="the end"):
        read_moment("soon", what="the end")


def test_the_tracker_is_imported_only_when_asked_for_and_never_brings_spark() -> None:
    script = (
        "import sys, tidegauge; assert not {'sqlalchemy', 'pyspark', 'tidegauge.tracker'} & set(sys.modules);"
        "from tidegauge import WatermarkTracker; assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    with pytest.raises(AttributeError, match="nothing_else"):
        tidegauge.nothing_else  # noqa: B018
