"""What is Snowflake's own, on fakesnow: PUT and COPY INTO, quoted names, types, and its words."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlglot

from tests.support import every_type
from tests.support.warehouses import (
    ORDERS,
    Loader,
    Yard,
    counts,
    files_of,
    flow_of,
    layout_of,
    loader,
    make,
)
from tidegauge.errors import OutputDisagrees, OutputUnreachable
from tidegauge.model.mode import MODES, Mode, OutputKind
from tidegauge.model.secret import Secret
from tidegauge.model.spec import TableOptions
from tidegauge.model.table import Field
from tidegauge.outputs.warehouse.fit import FitVerdict
from tidegauge.outputs.warehouse.snowflake.session import SnowflakeSession
from tidegauge.outputs.warehouse.snowflake.warehouse import Snowflake
from tidegauge.outputs.warehouse.warehouse import (
    LockTimeout,
    PermissionDenied,
    ValueRejected,
    WarehouseColumn,
)

ROW = (1, "a", Decimal("1.00"), 1)


@pytest.fixture
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Yard:
    return make("snowflake", request, tmp_path)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement, as the session gives it to the connector."""
    statements: list[str] = []
    execute = SnowflakeSession._execute

    def noted(self: SnowflakeSession, sql: str, values: Any = ()) -> None:
        statements.append(sql)
        execute(self, sql, values)

    monkeypatch.setattr(SnowflakeSession, "_execute", noted)
    return statements


def test_rows_come_by_put_and_one_copy(yard: Yard, said: list[str]) -> None:
    many = [(number, f"row {number}", None, number) for number in range(3000)]
    assert counts(loader(yard).rows(ORDERS, many, [(9000, "x", None, 1)])) == (3001, 3001, 0, 0)
    assert sum(sql.startswith("PUT ") for sql in said) == 2
    assert sum(sql.startswith("COPY INTO ") for sql in said) == 1
    written = [sql for sql in said if sql.startswith("INSERT") and "VALUES" in sql]
    assert all("tidegauge_commits" in sql for sql in written)


def test_every_statement_is_snowflakes_sql(yard: Yard, said: list[str]) -> None:
    for mode in MODES[OutputKind.WAREHOUSE]:
        one = Loader(yard, flow_of(yard, f"t_{mode}", name=str(mode), mode=mode, metadata_columns=True))
        one.rows(ORDERS, [ROW], [(1, "b", None, 2)])
        one.rows(ORDERS, [(1, "c", None, 3)])
    assert len(said) > 50
    for sql in said:
        trees = sqlglot.parse(sql, read="snowflake")
        assert len(trees) == 1
        command = isinstance(trees[0], sqlglot.exp.Command)
        assert not command or sql.startswith(
            ("BEGIN", "COMMIT", "ROLLBACK", "ALTER SESSION", "DROP STAGE")
        ), sql


def test_no_table_is_made_or_dropped_inside_a_transaction(yard: Yard, said: list[str]) -> None:
    orders = loader(yard, mode=Mode.SCD2)
    orders.rows(ORDERS, [ROW])
    orders.rows(ORDERS, [(1, "b", None, 2)])
    inside = False
    for sql in said:
        inside = (inside or sql == "BEGIN") and sql not in ("COMMIT", "ROLLBACK")
        assert not (inside and sql.startswith(("CREATE ", "DROP ", "ALTER "))), sql


def test_a_transaction_moves_the_head_before_anything_else(yard: Yard, said: list[str]) -> None:
    orders = loader(yard)
    orders.rows(ORDERS, [ROW])
    said.clear()
    orders.rows(ORDERS, [(1, "b", None, 2)])
    moved = next(
        number for number, sql in enumerate(said) if sql.startswith("UPDATE") and '"last_seq"' in sql
    )
    assert said[moved - 1] == "BEGIN"
    rest = said[moved : said.index("COMMIT", moved)]
    assert any(sql.startswith('UPDATE "PUBLIC"."orders"') for sql in rest)
    assert rest[-1].startswith('INSERT INTO "PUBLIC"."tidegauge_commits"')


def test_every_type_arrives_as_it_was(yard: Yard) -> None:
    # fakesnow holds NUMBER(38,0) in 64 bits.
    left_out = next(at for at, field in enumerate(every_type.LAYOUT.fields) if field.type == "decimal(38,0)")
    layout = replace(every_type.LAYOUT, fields=_without(every_type.LAYOUT.fields, left_out))
    rows = [_without(row, left_out) for row in every_type.ROWS]
    orders = loader(yard)
    orders.rows(layout, rows)
    session = yard.house().connect()
    found = session.rows(f"SELECT * FROM {yard.at('orders')} ORDER BY 1")
    session.close()
    for row, expected in zip(found, rows, strict=True):
        assert [_exactly(value) for value in row] == [_exactly(value) for value in expected]
    # The same once more, against what is there now: nothing differs from itself.
    assert counts(orders.rows(layout, rows)) == (len(found), 0, 0, 0)


def _without(values: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    return values[:place] + values[place + 1 :]


def _exactly(value: Any) -> Any:
    """A float by its digits, so that -0.0 is not 0.0; an instant in UTC."""
    return repr(value) if isinstance(value, float) else _in_utc(value)


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


def test_hostile_names_are_only_names(yard: Yard) -> None:
    names = [
        'a"b',
        "select",
        "dots.and:colons",
        "100% ?",
        ":name",
        "semi;--colon",
        "back\\slash",
        "🌊",
        "t.x",
    ]
    layout = layout_of(("id", "bigint"), *((name, "string") for name in names), cursor=None)
    orders = loader(yard)
    orders.rows(layout, [(1, *names)])
    assert counts(orders.rows(layout, [(1, *["new"] * len(names)), (2, *names)])) == (2, 1, 1, 0)
    assert yard.contents("orders", ["id", *names]) == [(1, *["new"] * len(names)), (2, *names)]


def test_a_lake_file_that_is_gone_stops_the_batch(yard: Yard, tmp_path: Path) -> None:
    batch_data = files_of(tmp_path / "lake", ORDERS, [ROW])
    (tmp_path / "lake" / batch_data.files[0].path).unlink()
    with pytest.raises(OutputDisagrees, match="is not there"):
        loader(yard).load(batch_data)
    assert yard.staging_tables() == []


def test_a_failed_load_leaves_no_table_behind(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegauge.outputs.warehouse.snowflake.warehouse._check_loaded", _fail)
    with pytest.raises(OutputDisagrees):
        loader(yard).rows(ORDERS, [ROW])
    assert yard.staging_tables() == []


def _fail(*_: object) -> None:
    raise OutputDisagrees("no")


def test_a_hybrid_table_is_asked_for_in_snowflakes_words(yard: Yard) -> None:
    """fakesnow has none, and sqlglot does not parse it: the words are all that can be checked here."""
    house = yard.house()
    columns = [WarehouseColumn("id", "NUMBER(19,0)", required=True)]
    options = TableOptions(cursor="at", hybrid=True)
    made = house.create(yard.table("orders"), columns, key=("id",), options=options)
    assert made == (
        'CREATE HYBRID TABLE IF NOT EXISTS "PUBLIC"."orders" ("id" NUMBER(19,0) NOT NULL, PRIMARY KEY ("id"))'
    )


@pytest.mark.parametrize(
    ("held", "field", "verdict"),
    [
        (("string", "VARCHAR(10)"), ("string", "varchar(10)"), FitVerdict.HOLDS),
        (("string", "VARCHAR(10)"), ("string", "varchar(11)"), FitVerdict.WIDEN),
        (("string", "VARCHAR"), ("string", "text"), FitVerdict.HOLDS),
        (("int", "NUMBER(10,0)"), ("bigint", "bigint"), FitVerdict.WIDEN),
        (("decimal(10,2)", "NUMBER(10,2)"), ("decimal(12,2)", "decimal(12,2)"), FitVerdict.WIDEN),
        (("decimal(10,2)", "NUMBER(10,2)"), ("decimal(12,4)", "decimal(12,4)"), FitVerdict.NARROW),
        (("decimal(38,0)", "NUMBER(38,0)"), ("bigint", "bigint"), FitVerdict.HOLDS),
        (("double", "FLOAT"), ("float", "float"), FitVerdict.HOLDS),
        (("date", "DATE"), ("string", "text"), FitVerdict.REFUSED),
    ],
)
def test_what_a_column_holds(
    yard: Yard, held: tuple[str, str], field: tuple[str, str], verdict: FitVerdict
) -> None:
    assert yard.house().fit(Field("c", *held), Field("c", *field), key=False).verdict is verdict


def test_a_longer_text_makes_the_column_longer(yard: Yard) -> None:
    orders = loader(yard)
    orders.rows(layout_of(("id", "bigint"), ("name", "string", "varchar(2)"), cursor=None), [(1, "ab")])
    orders.rows(layout_of(("id", "bigint"), ("name", "string", "varchar(5)"), cursor=None), [(2, "abcde")])
    assert yard.contents("orders", ["id", "name"]) == [(1, "ab"), (2, "abcde")]


def test_errors_are_told_apart_by_their_states() -> None:
    from snowflake.connector.errors import OperationalError, ProgrammingError

    class Connection:
        def cursor(self) -> None:
            return None

    session = SnowflakeSession(Connection(), "Snowflake, account x")
    held = session._translate(ProgrammingError(msg="Statement waited too long", errno=625, sqlstate="57014"))
    assert isinstance(held, LockTimeout)
    long = session._translate(ProgrammingError(msg="String 'x' is too long", errno=100078, sqlstate="22000"))
    assert isinstance(long, ValueRejected)
    assert isinstance(session._translate(OperationalError(msg="gone", errno=250001)), OutputUnreachable)
    other = session._translate(ProgrammingError(msg="no such privilege", errno=3001, sqlstate="42501"))
    assert type(other) is PermissionDenied


def test_e3_the_password_is_in_no_message(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import snowflake.connector

    def refuse(**wanted: Any) -> None:
        raise snowflake.connector.errors.DatabaseError(msg=f"refused {wanted['password']}")

    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(snowflake.connector, "connect", refuse)
    secret = replace(yard.database, password=Secret("canary-of-snow"))
    with pytest.raises(OutputUnreachable) as caught:
        Snowflake(secret).connect()
    assert "canary" not in f"{caught.value} {caught.value.hint} {caplog.text}"


def test_a_late_event_lands_in_its_place(yard: Yard) -> None:
    history = loader(yard, mode=Mode.SCD2)
    history.rows(ORDERS, [(1, "a", None, 10)])
    history.rows(ORDERS, [(1, "c", None, 30)])
    history.rows(ORDERS, [(1, "b", None, 20)])
    shown = yard.contents("orders", ["name", "valid_from", "valid_to", "is_current"], ["valid_from"])
    assert shown == [("a", 10, 20, 0), ("b", 20, 30, 0), ("c", 30, None, 1)]


@pytest.mark.parametrize("digits", [3, 5, 10, 19, 38])
def test_a_whole_number_of_snowflakes_own_is_not_altered_again_and_again(yard: Yard, digits: int) -> None:
    """NUMBER(10,0) is also what an `int` lands in, and may be a decimal of ten digits as well."""
    house = yard.house()
    field = Field("n", f"decimal({digits},0)", f"NUMBER({digits},0)")
    yard.run(house.create(yard.table("t"), [WarehouseColumn("n", house.type(field, key=True))]))
    session = house.connect()
    held = house.columns(session, yard.table("t"))
    session.close()
    assert held is not None
    assert house.fit(held[0], field, key=True).verdict is FitVerdict.HOLDS
