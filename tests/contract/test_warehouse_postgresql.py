"""PostgreSQL as a warehouse: what the suite over every warehouse does not ask."""

from __future__ import annotations

import math
import random
import threading
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.support import every_type
from tests.support.cutting_proxy import cutting
from tests.support.servers import Postgres
from tests.support.warehouse_servers import hold_postgres, postgres_database
from tests.support.warehouses import (
    ORDERS,
    Heap,
    Yard,
    batch_of,
    batch_to,
    counts,
    flow_of,
    layout_of,
    loader,
    no_spark,
    read_batch,
    tag_of,
)
from tidegauge.errors import OutputDisagrees, OutputError, OutputUnreachable
from tidegauge.model.mode import Mode
from tidegauge.model.secret import Secret
from tidegauge.outputs.warehouse.output import WarehouseOutput
from tidegauge.outputs.warehouse.postgresql import copy_binary
from tidegauge.outputs.warehouse.postgresql.load import CopySink
from tidegauge.outputs.warehouse.postgresql.session import PostgresqlLogin
from tidegauge.outputs.warehouse.warehouse import ValueRejected

D = Decimal


@pytest.fixture
def yard(postgres: Postgres) -> Yard:
    database = postgres_database(postgres)
    return Yard("postgres", database, database.schema, hold_postgres)


def read(postgres: Postgres, sql: str) -> list[tuple[Any, ...]]:
    with postgres.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return list(connection.execute(sql).fetchall())


def test_every_type_lands_as_it_is(yard: Yard, postgres: Postgres) -> None:
    orders = loader(yard, table="types")
    orders.rows(every_type.LAYOUT, every_type.ROWS)
    found = read(postgres, f"SELECT * FROM {yard.at('types')} ORDER BY id")
    for row, expected in zip(found, every_type.ROWS, strict=True):
        assert every_type.bits(row) == every_type.bits(expected)
    # The same once more, against what is there now: nothing differs from itself.
    assert counts(orders.rows(every_type.LAYOUT, every_type.ROWS)) == (len(found), 0, 0, 0)


def test_infinities_and_nan_land_in_both_floats(yard: Yard, postgres: Postgres) -> None:
    layout = layout_of(("id", "bigint"), ("f", "float"), ("d", "double"))
    rows = [(number, value, value) for number, value in enumerate(every_type.NOT_A_NUMBER)]
    orders = loader(yard)
    orders.rows(layout, rows)
    (_, f, d), *rest = read(postgres, f"SELECT id, f, d FROM {yard.at('orders')} ORDER BY id")
    assert math.isnan(f)
    assert math.isnan(d)
    assert rest == [(1, math.inf, math.inf), (2, -math.inf, -math.inf)]
    assert counts(orders.rows(layout, rows)) == (3, 0, 0, 0)


@pytest.mark.parametrize(
    ("precision", "scale"),
    [(1, 1), (3, 2), (5, 0), (9, 9), (17, 3), (18, 18), (19, 1), (29, 7), (38, 37), (38, 38)],
)
def test_decimals_of_any_digits_land_digit_for_digit(
    yard: Yard, postgres: Postgres, precision: int, scale: int
) -> None:
    dice = random.Random(precision * 100 + scale)
    whole = [dice.randrange(10 ** dice.randint(0, precision)) * dice.choice((1, -1)) for _ in range(300)]
    values = [D(one).scaleb(-scale) if precision < 28 else _scaled(one, scale) for one in whole]
    loader(yard).rows(
        layout_of(("id", "int"), ("d", f"decimal({precision},{scale})")), list(enumerate(values))
    )
    assert read(postgres, f"SELECT id, d FROM {yard.at('orders')} ORDER BY id") == list(enumerate(values))


def _scaled(whole: int, scale: int) -> Decimal:
    """Without the 28 digits of Python's usual arithmetic."""
    return D((0 if whole >= 0 else 1, tuple(map(int, str(abs(whole)))), -scale))


def test_a_nul_in_a_text_is_told_with_its_column_key_and_value(yard: Yard) -> None:
    output = yard.output(flow_of(yard))
    rows = [(1, "fine", None, 1), (2, "be\0hind", None, 1)]
    with pytest.raises(OutputError, match=r"column name of the row with id = 2 .* 'be\\x00hind'"):
        output.stage(read_batch(ORDERS, rows), no_spark)
    assert yard.staging_tables() == []


def test_slices_are_encoded_like_whole_batches() -> None:
    batch = batch_of(every_type.LAYOUT, every_type.ROWS)
    whole = b"".join(bytes(block) for block in copy_binary.blocks(batch, 7))
    parts = [batch.slice(start, 2) for start in range(0, batch.num_rows, 2)]
    assert b"".join(bytes(block) for part in parts for block in copy_binary.blocks(part, 7)) == whole


def test_d3_a_task_that_is_done_twice_counts_once(yard: Yard, postgres: Postgres) -> None:
    house = yard.house()
    yard.run(
        f"CREATE TABLE {yard.at('s')} (o int, id bigint)",
        f"CREATE TABLE {yard.at('m')} (task int PRIMARY KEY, rows bigint)",
    )
    layout = layout_of(("id", "bigint"))
    copy = f"COPY {yard.at('s')} (o, id) FROM STDIN (FORMAT binary)"
    sink = CopySink(PostgresqlLogin.of(house.database), copy, yard.at("m"), ("id",))
    first, again = Heap(layout, ((1,), (2,))), Heap(layout, ((1,), (2,)))
    answers: list[int] = []
    # Both at once, as speculation does it, and once more, later.
    threads = [
        threading.Thread(target=lambda one=one: answers.append(sink.take(0, [(0, one.batches())])))
        for one in (first, again)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.append(sink.take(0, [(0, first.batches())]))
    answers.append(sink.take(1, [(1, first.batches())]))
    assert answers == [2, 2, 2, 2]
    assert read(postgres, f"SELECT o, count(*) FROM {yard.at('s')} GROUP BY o ORDER BY o") == [(0, 2), (1, 2)]


@pytest.mark.parametrize("heard", [True, False])
def test_b3_a_connection_lost_at_the_commit_is_asked_for_its_outcome(yard: Yard, heard: bool) -> None:
    flow = flow_of(yard)
    loader(yard).rows(ORDERS, [(1, "a", None, 1)])
    assert yard.database.port
    with cutting(yard.database.port) as proxy:
        shaky = replace(yard, database=replace(yard.database, port=proxy.port))
        output = shaky.output(flow_of(shaky))
        staged = output.stage(read_batch(ORDERS, [(1, "b", None, 2), (2, "c", None, 2)]), no_spark)
        proxy.cut_at(b"COMMIT", heard=heard)
        with pytest.raises(OutputUnreachable) as lost:
            output.commit(tag_of(flow, 2), batch_to(2), staged, layout=ORDERS, run_id="run2")
        assert proxy.cuts == 1
        assert lost.value.retryable
        told = output.receipt(tag_of(flow, 2))
        assert (told is not None) is heard
        again = output.commit(tag_of(flow, 2), batch_to(2), staged, layout=ORDERS, run_id="run3")
    assert counts(again) == (2, 1, 1, 0)
    assert again.run_id == ("run2" if heard else "run3")
    assert yard.contents("orders", ["id", "name"]) == [(1, "b"), (2, "c")]


def test_rows_that_a_crash_of_the_server_took_are_not_taken_for_none(yard: Yard) -> None:
    loader(yard).rows(ORDERS, [(1, "a", None, 1)])
    output = yard.output(flow_of(yard))
    staged = output.stage(read_batch(ORDERS, [(1, "b", None, 2)]), no_spark)
    yard.run(f"TRUNCATE {yard.at(staged.table)}")  # What recovery does to an unlogged table.
    with pytest.raises(OutputUnreachable, match="are gone") as lost:
        output.commit(tag_of(flow_of(yard), 2), batch_to(2), staged, layout=ORDERS, run_id="run2")
    assert lost.value.retryable
    assert output.receipt(tag_of(flow_of(yard), 2)) is None


def test_a_locked_target_is_waited_for_and_its_holder_named(yard: Yard) -> None:
    loader(yard).rows(ORDERS, [(1, "a", None, 1)])
    output = yard.output(flow_of(yard), patience=0.3)
    staged = output.stage(read_batch(ORDERS, [(1, "b", None, 2)]), no_spark)
    with (
        yard.hold(yard, yard.table("orders")),
        pytest.raises(
            OutputUnreachable, match=r"orders.*held by session \d+ of tidegauge \(tidegauge\)"
        ) as held,
    ):
        output.commit(tag_of(flow_of(yard), 2), batch_to(2), staged, layout=ORDERS, run_id="run2")
    assert held.value.retryable
    assert counts(
        output.commit(tag_of(flow_of(yard), 2), batch_to(2), staged, layout=ORDERS, run_id="run2")
    ) == (1, 0, 1, 0)


def test_many_sessions_make_one_table_at_once(yard: Yard) -> None:
    outputs: list[WarehouseOutput] = [yard.output(flow_of(yard)) for _ in range(8)]
    failures: list[BaseException] = []

    def prepare(output: WarehouseOutput) -> None:
        try:
            output.prepare()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=prepare, args=(output,)) for output in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_narrower_columns_are_made_wider_and_keep_their_rows(yard: Yard, postgres: Postgres) -> None:
    at = yard.at("orders")
    yard.run(f"CREATE TABLE {at} (id int PRIMARY KEY, name varchar(3), amount numeric(4,1), at smallint)")
    yard.run(f"INSERT INTO {at} VALUES (1, 'abc', 123.4, 5)")
    orders = loader(yard)
    assert counts(orders.rows(ORDERS, [(2**40, "longer", D("1234567890.12"), 2**50)])) == (1, 1, 0, 0)
    assert yard.contents("orders", ["id", "name", "amount", "at"]) == [
        (1, "abc", D("123.40"), 5),
        (2**40, "longer", D("1234567890.12"), 2**50),
    ]


def test_a_number_of_any_precision_holds_every_decimal(yard: Yard) -> None:
    yard.run(
        f"CREATE TABLE {yard.at('orders')} (id bigint PRIMARY KEY, name text, amount numeric, at bigint)"
    )
    loader(yard).rows(ORDERS, [(1, "a", D("1234567890.12"), 1)])
    held = {field.name: field.source_type for field in yard.output(flow_of(yard)).layout() or ()}
    assert held["amount"] == "numeric"


@pytest.mark.parametrize("kind", ["uuid", "jsonb", "char(5)", "text[]"])
def test_a_column_of_another_kind_is_refused_with_both_types(yard: Yard, kind: str) -> None:
    yard.run(
        f"CREATE TABLE {yard.at('orders')}"
        f" (id bigint PRIMARY KEY, name {kind}, amount numeric(12,2), at bigint)"
    )
    with pytest.raises(OutputDisagrees, match=r"column name .*string"):
        loader(yard).rows(ORDERS, [(1, "a", None, 1)])


def test_a_view_is_no_target(yard: Yard) -> None:
    yard.run(f"CREATE VIEW {yard.at('orders')} AS SELECT 1 AS id")
    with pytest.raises(OutputError, match="view"):
        loader(yard).rows(ORDERS, [(1, "a", None, 1)])


def test_a_name_that_the_server_would_cut_is_refused(yard: Yard) -> None:
    layout = layout_of(("id", "bigint"), ("é" * 32, "string"))
    with pytest.raises(OutputError, match="63 bytes"):
        loader(yard).rows(layout, [(1, "a")])


HOSTILE = [
    *(
        'a"b',
        "a.b",
        "100%",
        "%s",
        "%(x)s",
        "a\\b",
        "select",
        ":name",
        "?",
        "quote'",
        "tab\there",
        "rows",
        "$1",
        "--",
        "/*",
    ),
    *("é" * 30, "x" * 63, "😀"),
]


def test_e1_hostile_names_are_names_and_nothing_else(yard: Yard) -> None:
    layout = layout_of(
        ('i"d`%s', "string", "varchar(20)"), *((name, "string") for name in HOSTILE), key=('i"d`%s',)
    )
    orders = loader(yard, table="or'd\"er`s %s")
    row = ("k", *(f"v{number}" for number in range(len(HOSTILE))))
    assert counts(orders.rows(layout, [row])) == (1, 1, 0, 0)
    assert counts(orders.rows(layout, [row])) == (1, 0, 0, 0)
    assert counts(orders.rows(layout, [(*row[:-1], "changed"), ("l", *row[1:])])) == (2, 1, 1, 0)
    names = [field.name for field in layout.fields]
    assert yard.contents("or'd\"er`s %s", names) == [(*row[:-1], "changed"), ("l", *row[1:])]


def test_a_unique_column_of_the_users_own_stops_the_batch(yard: Yard) -> None:
    yard.run(
        f"CREATE TABLE {yard.at('orders')}"
        " (id bigint PRIMARY KEY, name text UNIQUE, amount numeric(12,2), at bigint)"
    )
    with pytest.raises(OutputError, match=r"\(name\)=\(a\)"):
        loader(yard).rows(ORDERS, [(1, "a", None, 1), (2, "a", None, 1)])
    assert yard.contents("orders", ["id"]) == []


def test_keys_that_repeat_in_a_new_table_are_found_by_the_table_itself(yard: Yard) -> None:
    receipt = loader(yard).rows(ORDERS, [(1, "a", None, 1), (2, "b", None, 1)], [(1, "later", None, 2)])
    assert counts(receipt) == (3, 2, 0, 0)
    assert yard.contents("orders", ["id", "name"]) == [(1, "later"), (2, "b")]
    assert yard.staging_tables() == []


def test_a_wrong_password_is_final_and_not_shown(yard: Yard) -> None:
    wrong = replace(yard, database=replace(yard.database, password=Secret("not the one")))
    with pytest.raises(OutputUnreachable) as refused:
        wrong.output(flow_of(yard)).prepare()
    assert not refused.value.retryable
    assert "not the one" not in str(refused.value)


def test_every_session_is_in_utc_whatever_the_server_says(yard: Yard, postgres: Postgres) -> None:
    with postgres.connect() as connection:
        role = f'ALTER ROLE tidegauge IN DATABASE "{yard.database.database}"'
        connection.execute(f"{role} SET TimeZone = 'Asia/Tokyo'")
        try:
            with closing(yard.house().connect()) as session:
                assert session.rows("SHOW TimeZone") == [("UTC",)]
                assert isinstance(session.rows("SELECT 1")[0][0], int)
        finally:
            connection.execute(f"{role} RESET TimeZone")


def test_an_append_into_a_table_without_a_key_takes_all(yard: Yard) -> None:
    orders = loader(yard, mode=Mode.APPEND)
    orders.rows(ORDERS, [(1, "a", None, 1)], [(1, "a", None, 1)])
    assert len(yard.contents("orders", ["id"])) == 2


def test_the_driver_is_never_seen(yard: Yard) -> None:
    with closing(yard.house().connect()) as session:
        for sql in ("SELEKT", "SELECT * FROM nowhere", "SELECT 1/0", "SELECT ''::int"):
            with pytest.raises(OutputError) as told:
                session.rows(sql)
            assert isinstance(told.value.__cause__, psycopg.Error)
            session.rollback()
        with pytest.raises(ValueRejected):
            session.rows("SELECT 1/0")
