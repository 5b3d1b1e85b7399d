"""One suite over every database: what is there, what is refused, and how."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.servers import MariaDB, Postgres
from tests.support.source_parts import Place, asked, mysql_place, postgresql_place, sqlite_place
from tidegauge.errors import (
    ColumnMissing,
    CursorUnsuitable,
    KeyUnsuitable,
    OutputUnreachable,
    SourceError,
    SourceUnreachable,
    TableMissing,
    TypeNotHeld,
)
from tidegauge.model.position import ValueKind
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Engine, NullCursor
from tidegauge.outputs.warehouse.mysql.session import MysqlLogin
from tidegauge.sources.duckdb import engine as duckdb_engine
from tidegauge.sources.mysql import engine as mysql_engine
from tidegauge.sources.open import open_source
from tidegauge.sources.postgresql import engine as postgresql_engine
from tidegauge.sources.sqlite import engine as sqlite_engine


def describe(place: Place, name: str, **options: Any) -> Any:
    source = open_source(place.database)
    try:
        return source.describe(place.table(name), asked(**options))
    finally:
        source.close()


def test_only_base_tables_are_listed_in_name_order(place: Place) -> None:
    place.run("CREATE TABLE zebra (id int PRIMARY KEY)")
    place.run("CREATE TABLE apple (id int PRIMARY KEY)")
    place.run("CREATE VIEW middle AS SELECT * FROM apple")
    assert open_source(place.database).tables() == (place.table("apple"), place.table("zebra"))


def test_a_partitioned_table_is_one_table(postgres: Postgres) -> None:
    place = postgresql_place(postgres)
    place.run("CREATE TABLE log (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)")
    place.run("CREATE TABLE log_2025 PARTITION OF log FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')")
    place.run("CREATE SCHEMA other")
    place.run("CREATE TABLE other.thing (id int)")
    assert [str(table) for table in open_source(place.database).tables()] == ["other.thing", "public.log"]


def test_the_primary_key_is_the_key_in_its_own_order(place: Place) -> None:
    place.run("CREATE TABLE t (a int NOT NULL, b int NOT NULL, at date, PRIMARY KEY (b, a))")
    source_table = describe(place, "t")
    assert [part.name for part in source_table.key] == ["b", "a"]
    assert source_table.key_proven


def test_a_unique_index_over_columns_that_cannot_be_null_proves_a_key(place: Place) -> None:
    place.run("CREATE TABLE t (a int NOT NULL, b int, at date)")
    place.run("CREATE UNIQUE INDEX one ON t (a)")
    place.run("CREATE UNIQUE INDEX two ON t (b)")
    assert describe(place, "t", key=("a",)).key_proven
    assert describe(place, "t", key=("a", "b")).key_proven
    assert not describe(place, "t", key=("b",)).key_proven


def test_a_table_without_a_key_asks_for_one(place: Place) -> None:
    place.run("CREATE TABLE t (a int, at date)")
    with pytest.raises(KeyUnsuitable) as caught:
        describe(place, "t")
    assert "key:" in str(caught.value.hint)


def test_a_key_that_repeats_is_refused_with_an_example(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b varchar(5), at date)")
    place.run("INSERT INTO t VALUES (1, 'x', '2025-01-01'), (2, 'y', '2025-01-01'), (2, 'y', '2025-01-02')")
    with pytest.raises(KeyUnsuitable, match=r"2 rows have \(2, y\)"):
        place.survey("t", key=("a", "b"))


def test_a_key_with_null_is_refused(place: Place) -> None:
    place.run("CREATE TABLE t (a int, at date)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01'), (NULL, '2025-01-02')")
    with pytest.raises(KeyUnsuitable, match="NULL in 1 rows"):
        place.survey("t", key=("a",))


def test_a_missing_table_names_the_nearest(place: Place) -> None:
    place.run("CREATE TABLE orders (id int PRIMARY KEY)")
    with pytest.raises(TableMissing) as caught:
        describe(place, "order")
    assert "orders" in str(caught.value.hint)


def test_a_missing_cursor_or_key_column_names_the_nearest(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, updated_at date)")
    with pytest.raises(ColumnMissing, match="update_at") as caught:
        describe(place, "t", cursor="update_at")
    assert "updated_at" in str(caught.value.hint)
    with pytest.raises(ColumnMissing, match="idd") as caught:
        describe(place, "t", cursor="updated_at", key=("idd",))
    assert "id" in str(caught.value.hint)
    with pytest.raises(ColumnMissing, match="nope"):
        describe(place, "t", cursor="coalesce(nope, updated_at)")
    with pytest.raises(ColumnMissing, match="amonut"):
        describe(place, "t", cursor="updated_at", types={"amonut": "string"})


def test_a20_a_float_cursor_or_key_is_refused(place: Place) -> None:
    double = "double precision" if place.engine is Engine.POSTGRESQL else "double"
    place.run(f"CREATE TABLE t (id int PRIMARY KEY, f {double})")
    place.run("INSERT INTO t VALUES (1, 1.5)")
    with pytest.raises(CursorUnsuitable, match="f is a"):
        describe(place, "t", cursor="f")
    with pytest.raises(CursorUnsuitable):
        describe(place, "t", cursor="f + 1")
    with pytest.raises(KeyUnsuitable, match="key column f"):
        describe(place, "t", cursor="id", key=("f",))


@pytest.mark.parametrize("expression", ["id +", "id; DROP TABLE t", "1) FROM t; --", "nosuchfunction(id)"])
def test_a_cursor_that_is_no_expression_is_refused_and_changes_nothing(place: Place, expression: str) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(CursorUnsuitable):
        describe(place, "t", cursor=expression)
    assert place.run("SELECT COUNT(*) FROM t") in ([(0,)], ((0,),))


def test_an_expression_is_a_cursor_with_the_type_the_database_gives_it(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, made timestamp NULL, changed timestamp NULL)")
    place.run(
        "INSERT INTO t VALUES (1, '2025-01-01 00:00:00', NULL),"
        " (2, '2025-01-01 00:00:00', '2025-01-02 00:00:00')"
    )
    source_table, survey = place.survey("t", cursor="coalesce(changed, made) -- the later", step=1)
    assert source_table.cursor_kind == "timestamp"
    assert [cut.rows for cut in survey.cuts] == [1, 1]
    assert survey.cuts[0].position.cursor.text.startswith("2025-01-01 00:00:00")


def test_the_source_is_never_written_to(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY)")
    dialect: Any = open_source(place.database)
    with pytest.raises(SourceError):
        dialect._dialect.rows("INSERT INTO t VALUES (1)")


def test_a_missing_index_is_noted_where_it_costs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at date)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01'), (2, '2025-01-01')")

    def is_noted() -> bool:
        return any("no index begins with at" in note for note in place.survey("t", cursor="at")[1].notes)

    assert not is_noted()
    monkeypatch.setattr("tidegauge.sources.survey._LARGE", 2)
    assert not is_noted()
    monkeypatch.setattr("tidegauge.sources.survey._LARGE", 1)
    assert is_noted()
    place.run("CREATE INDEX by_at ON t (at, id)")
    assert not is_noted()


def test_a10_null_cursors_fail_or_are_counted_as_the_user_says(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at date)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01'), (2, NULL), (3, NULL)")
    with pytest.raises(CursorUnsuitable, match="2 rows have no cursor"):
        place.survey("t")
    for policy in (NullCursor.INCLUDE, NullCursor.EXCLUDE):
        _, survey = place.survey("t", null_cursor=policy)
        assert survey.rows_null == 2
        assert sum(cut.rows for cut in survey.cuts) == 1


def test_types_that_cannot_be_held_are_refused_with_the_override(place: Place) -> None:
    if place.engine is Engine.SQLITE:
        place.run("CREATE TABLE t (id int PRIMARY KEY, v)")
    elif place.engine is Engine.MYSQL:
        place.run("CREATE TABLE t (id int PRIMARY KEY, v decimal(65,30))")
    elif place.engine is Engine.DUCKDB:
        place.run("CREATE TABLE t (id int PRIMARY KEY, v bignum)")
    else:
        place.run("CREATE TABLE t (id int PRIMARY KEY, v numeric)")
    with pytest.raises(TypeNotHeld, match="a column cannot be held exactly: v ") as caught:
        describe(place, "t", cursor="id")
    # By its type, where it has one.
    [word] = caught.value.types
    assert f"types: {{{word}: string}}" in str(caught.value.hint)
    for name in {word, "v"}:
        source_table = describe(place, "t", cursor="id", types={name: "string"})
        assert source_table.columns[1].arrives == "string"


def test_the_fingerprint_and_identity_follow_the_table(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at date)")
    first = describe(place, "t")
    assert describe(place, "t").fingerprint == first.fingerprint
    assert describe(place, "t").source_id == first.source_id
    place.run("ALTER TABLE t ADD COLUMN more int")
    assert describe(place, "t").fingerprint != first.fingerprint
    assert describe(place, "t").source_id == first.source_id


def test_a_server_that_is_down_is_worth_another_try(mariadb: MariaDB, postgres: Postgres) -> None:
    for place in (mysql_place(mariadb), postgresql_place(postgres)):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            with pytest.raises(SourceUnreachable) as caught:
                open_source(replace(place.database, port=closed.getsockname()[1]))
        assert caught.value.retryable
        assert caught.value.hint


def test_a_server_without_room_is_worth_another_try_on_both_sides(mariadb: MariaDB) -> None:
    place = mysql_place(mariadb)
    with place.connect() as chief, chief.cursor() as cursor, ExitStack() as held:

        def take_all(ask: Callable[[], Any]) -> None:
            # More than once: the server ends closed connections in its own time, so room may come late.
            while True:
                held.enter_context(closing(ask()))

        cursor.execute("SELECT @@GLOBAL.max_connections")
        [(before,)] = cursor.fetchall()
        cursor.execute("SET GLOBAL max_connections = 10")
        try:
            for kind, ask in (
                (SourceUnreachable, lambda: open_source(place.database)),
                (OutputUnreachable, lambda: MysqlLogin.of(place.database).connect()),
            ):
                with pytest.raises(kind, match="Too many connections") as caught:
                    take_all(ask)
                assert caught.value.retryable
        finally:
            cursor.execute("SET GLOBAL max_connections = %s", (before,))


def test_a_refused_login_or_unknown_database_is_final_and_keeps_the_secret(
    mariadb: MariaDB, postgres: Postgres
) -> None:
    for place in (mysql_place(mariadb), postgresql_place(postgres)):
        for wrong in ({"password": Secret("canary-5ecret")}, {"database": "no_such_database"}):
            with pytest.raises(SourceUnreachable) as caught:
                open_source(replace(place.database, **wrong))
            assert not caught.value.retryable
            assert "canary-5ecret" not in str(caught.value)


def test_a_missing_sqlite_file_is_not_made(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    missing = replace(place.database, path=tmp_path / "none.db")
    with pytest.raises(SourceUnreachable, match=r"none\.db"):
        open_source(missing)
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text("this is not a database, whatever its name says")
    with pytest.raises(SourceUnreachable):
        open_source(replace(place.database, path=tmp_path / "text.db"))


def test_a_lost_connection_is_an_error_of_ours(mariadb: MariaDB, postgres: Postgres) -> None:
    for place, kill in (
        (mysql_place(mariadb), "KILL {}"),
        (postgresql_place(postgres), "SELECT pg_terminate_backend({})"),
    ):
        source: Any = open_source(place.database)
        ask = "CONNECTION_ID()" if place.engine is Engine.MYSQL else "pg_backend_pid()"
        ((number,),) = source._dialect.rows(f"SELECT {ask}")
        place.run(kill.format(number))
        with pytest.raises(SourceUnreachable) as caught:
            source.tables()
        assert caught.value.retryable


def quote_of(place: Place) -> Callable[[str], str]:
    return {
        Engine.SQLITE: sqlite_engine.quote,
        Engine.MYSQL: mysql_engine.quote,
        Engine.POSTGRESQL: postgresql_engine.quote,
        Engine.DUCKDB: duckdb_engine.quote,
    }[place.engine]


NASTY = st.text(alphabet=st.sampled_from("\"`]\\;-% ?{}\n'aé/.*$:@"), min_size=1, max_size=20).filter(
    lambda name: name == name.strip() and name not in (".", "..")
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=NASTY, key=NASTY)
def test_e1_any_name_is_only_a_name(place: Place, table: str, key: str) -> None:
    quote = quote_of(place)
    at = key + "2"
    place.run(f"DROP TABLE IF EXISTS {quote(table)}")
    place.run(f"CREATE TABLE {quote(table)} ({quote(key)} int PRIMARY KEY, {quote(at)} date NOT NULL)")
    place.run(f"INSERT INTO {quote(table)} VALUES (1, '2025-01-01'), (2, '2025-01-01')")
    source = open_source(place.database)
    assert place.table(table) in source.tables()
    source_table = source.describe(place.table(table), asked(at))
    survey = source.survey(source_table, None, 1, None)
    assert [cut.rows for cut in survey.cuts] == [1, 1]
    assert [column.name for column in source_table.columns] == [key, at]
    place.run(f"DROP TABLE {quote(table)}")
    source.close()


def test_e1_a_name_with_nul_is_refused(place: Place) -> None:
    for quote in (sqlite_engine.quote, mysql_engine.quote, postgresql_engine.quote):
        with pytest.raises(SourceError, match="NUL"):
            quote("a\0b")
    with pytest.raises(SourceError):
        describe(place, "a\0b")


def test_value_kinds(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, d decimal(10,2), s varchar(10), at date)")
    place.run("INSERT INTO t VALUES (1, 1, 'abc', '2025-01-01')")
    assert describe(place, "t", cursor="id").cursor_kind == "value"
    assert describe(place, "t", cursor="s").cursor_kind == "value"
    assert describe(place, "t", cursor="at").cursor_kind == "timestamp"
    if place.engine is not Engine.SQLITE:
        assert describe(place, "t", cursor="d").cursor.kind is ValueKind.DECIMAL


def test_f4_what_a_name_may_mean_and_is_no_table_is_told_apart(place: Place) -> None:
    place.run("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    place.run("CREATE VIEW v AS SELECT * FROM t")
    found = [(place.table("v"), "view")]
    match place.engine:
        case Engine.SQLITE:
            place.run("CREATE VIRTUAL TABLE w USING fts5(word)")
            found.append((place.table("w"), "virtual table"))
        case Engine.POSTGRESQL:
            place.run("CREATE MATERIALIZED VIEW w AS SELECT * FROM t")
            found.append((place.table("w"), "materialized view"))
    source = open_source(place.database)
    assert list(source.left_out()) == found
    assert source.tables() == (place.table("t"),)
    assert source.describe(place.table("t"), asked("id")).source_id.startswith(f"{source.identity()}#")
    source.close()
