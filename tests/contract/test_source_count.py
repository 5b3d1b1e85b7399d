"""What a change by hand asks of a source: how many rows lie between two positions, and what is no future."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from tests.support.source_parts import Place, asked, sqlite_place
from tidegauge.model.position import RowPosition, Value, ValueKind
from tidegauge.model.spec import Engine
from tidegauge.sources.open import open_source


def test_rows_between_two_positions_are_counted_by_cursor_and_key(place: Place) -> None:
    kind = "text" if place.engine is Engine.SQLITE else "timestamp(6)"
    if place.engine is Engine.MYSQL:
        kind = "datetime(6)"
    place.run(f"CREATE TABLE t (id int PRIMARY KEY, at {kind} NOT NULL)")
    for n in range(9):
        place.run(f"INSERT INTO t VALUES ({n}, '2025-01-01 00:00:0{n // 3}')")
    source = open_source(place.database)
    source_table = source.describe(place.table("t"), asked())

    def at(second: int, key: int | None = None) -> RowPosition:
        number = (Value(ValueKind.INT, str(key)),) if key is not None else ()
        return RowPosition(Value(source_table.cursor.kind, f"2025-01-01 00:00:0{second}"), number)

    assert source.count(source_table, None, at(2)) == 9
    assert source.count(source_table, at(0), at(1)) == 3
    assert source.count(source_table, at(0, 1), at(1, 3)) == 2
    assert source.count(source_table, at(2), at(1)) == 0
    assert source.count(source_table, at(1, 4), at(1, 4)) == 0
    source.close()


def test_b15_the_latest_moment_is_the_sources_own_clock_as_the_column_writes_it(place: Place) -> None:
    kinds = {
        Engine.SQLITE: ["text"],
        Engine.MYSQL: ["datetime", "timestamp(3)", "date"],
        Engine.POSTGRESQL: ["timestamp", "timestamptz", "date"],
        Engine.DUCKDB: ["timestamp", "timestamptz", "timestamp_ns", "timestamp_s", "date"],
    }[place.engine]
    source = open_source(place.database)
    clock = source.outlook().clock
    for number, kind in enumerate(kinds):
        place.run(f"CREATE TABLE t{number} (id int PRIMARY KEY, at {kind} NOT NULL)")
        place.run(f"INSERT INTO t{number} VALUES (1, '2025-01-01'), (2, '2037-01-01')")
        source_table = source.describe(place.table(f"t{number}"), asked())
        latest = source.latest(source_table)
        assert latest is not None
        assert latest.kind is source_table.cursor.kind
        assert abs(datetime.fromisoformat(latest.text) - clock) < timedelta(days=1, hours=15)
    source.close()


def test_b15_the_latest_value_is_the_highest_that_is_there(place: Place) -> None:
    place.run("CREATE TABLE t (id bigint PRIMARY KEY)")
    source = open_source(place.database)
    source_table = source.describe(place.table("t"), asked("id"))
    assert source.latest(source_table) is None
    place.run("INSERT INTO t VALUES (9), (10), (9007199254740993)")
    assert source.latest(source_table) == Value(ValueKind.INT, "9007199254740993")
    source.close()


def test_text_that_no_row_shows_the_notation_of_has_no_latest(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL)")
    source = open_source(place.database)
    source_table = source.describe(place.table("t"), asked())
    assert source_table.cursor_kind == "timestamp"
    assert source.latest(source_table) is None
    place.run("INSERT INTO t VALUES (1, '2025-01-01T00:00:00Z')")
    latest = source.latest(source_table)
    assert latest is not None
    assert latest.text.endswith("Z")
    source.close()
