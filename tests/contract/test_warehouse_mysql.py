"""MySQL and MariaDB as a warehouse: what the suite over every warehouse does not ask."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.support import every_type
from tests.support.cutting_proxy import cutting
from tests.support.servers import MariaDB
from tests.support.warehouse_servers import hold_mariadb, mariadb_database
from tests.support.warehouses import (
    ORDERS,
    Heap,
    Yard,
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
from tidegauge.outputs.warehouse.mysql.load import LoadSink, LoadStatements
from tidegauge.outputs.warehouse.mysql.local_stream import StreamConnection
from tidegauge.outputs.warehouse.mysql.session import MysqlLogin
from tidegauge.outputs.warehouse.warehouse import ValueRejected

D = Decimal


@pytest.fixture
def yard(mariadb: MariaDB) -> Yard:
    database = mariadb_database(mariadb)
    return Yard("mariadb", database, database.database, hold_mariadb)


@contextmanager
def without_local_infile(server: MariaDB) -> Iterator[None]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL local_infile = 0")
        try:
            yield
        finally:
            cursor.execute("SET GLOBAL local_infile = 1")


def landed(yard: Yard) -> list[list[Any]]:
    """As numbers and bytes that no display form has a say in: the text of a FLOAT shows six digits."""
    house = yard.house()
    columns = ", ".join(
        f"{house.name(field.name)}{' + 0e0' if field.type == 'float' else ''}"
        for field in every_type.LAYOUT.fields
    )
    with closing(house.connect()) as session:
        found = session.rows(f"SELECT {columns} FROM {yard.at('types')} ORDER BY id")
    return [every_type.bits(row) for row in found]


def expected(row: tuple[Any, ...]) -> list[Any]:
    """MySQL has no booleans, no instants, and no negative nothing."""
    plain = []
    for value in row:
        if isinstance(value, datetime):
            value = value.replace(tzinfo=None)
        elif isinstance(value, bool):
            value = int(value)
        elif value == 0 and isinstance(value, float):
            value = 0.0
        plain.append(value)
    return every_type.bits(plain)


@pytest.mark.parametrize("local", [True, False])
def test_every_type_lands_as_it_is(yard: Yard, mariadb: MariaDB, local: bool) -> None:
    def load() -> tuple[Any, ...]:
        return counts(orders.rows(every_type.LAYOUT, every_type.ROWS))

    orders = loader(yard, table="types")
    if local:
        assert load() == (len(every_type.ROWS), len(every_type.ROWS), 0, 0)
        assert load() == (len(every_type.ROWS), 0, 0, 0)
    else:
        with without_local_infile(mariadb):
            assert load() == (len(every_type.ROWS), len(every_type.ROWS), 0, 0)
            assert load() == (len(every_type.ROWS), 0, 0, 0)
    for row, wanted in zip(landed(yard), every_type.ROWS, strict=True):
        assert row == expected(wanted)


def test_text_lands_byte_for_byte(yard: Yard) -> None:
    layout = layout_of(("id", "int"), ("t", "string"), ("b", "binary"))
    rows = [(number, text, text.encode()) for number, text in enumerate(every_type.TEXTS)]
    loader(yard).rows(layout, rows)
    same = yard.rows(f"SELECT COUNT(*) FROM {yard.at('orders')} WHERE CAST(t AS BINARY) = b")
    assert same == [(len(rows),)]


@pytest.mark.parametrize("value", every_type.NOT_A_NUMBER)
@pytest.mark.parametrize("kind", ["float", "double"])
def test_what_is_not_a_number_is_told_with_its_column_and_key(yard: Yard, kind: str, value: float) -> None:
    layout = layout_of(("id", "bigint"), ("x", kind))
    output = yard.output(flow_of(yard))
    with pytest.raises(OutputError, match=r"column x of the row with id = 2 is -?(nan|inf)"):
        output.stage(read_batch(layout, [(1, 0.5), (2, value)]), no_spark)
    assert yard.staging_tables() == []


def test_a_key_longer_than_its_column_stops_the_batch_and_is_not_cut(yard: Yard) -> None:
    layout = layout_of(("id", "string", "text"), ("v", "int"))
    orders = loader(yard)
    orders.rows(layout, [("a" * 255, 1)])
    with pytest.raises(OutputError, match=r"(?i)too long for column 'id' at row 2|truncated for column 'id'"):
        orders.rows(layout, [("b", 1), ("a" * 256, 1)])
    assert yard.contents("orders", ["id"]) == [("a" * 255,)]


def test_a_key_of_text_is_as_long_as_its_source_says(yard: Yard) -> None:
    layout = layout_of(("id", "string", "varchar(700)"), ("v", "int"))
    loader(yard).rows(layout, [("é" * 700, 1)])
    assert yard.contents("orders", ["id"]) == [("é" * 700,)]


def test_a_key_beyond_the_index_of_the_server_is_refused(yard: Yard) -> None:
    layout = layout_of(("a", "string", "varchar(500)"), ("b", "string", "varchar(500)"), key=("a", "b"))
    with pytest.raises(OutputError, match="3072") as refused:
        loader(yard).rows(layout, [("x", "y")])
    assert refused.value.hint
    assert "shorter" in refused.value.hint


def test_a19_keys_that_differ_in_case_blanks_or_accents_are_different_keys(yard: Yard) -> None:
    layout = layout_of(("id", "string", "varchar(20)"), ("v", "int"))
    keys = ["abc", "ABC", "abc ", "ábc", "ab\u0301c", "ß", "ss"]
    orders = loader(yard)
    assert counts(orders.rows(layout, [(key, 1) for key in keys])) == (7, 7, 0, 0)
    assert counts(orders.rows(layout, [(key, 2) for key in keys])) == (7, 0, 7, 0)
    assert sorted(yard.contents("orders", ["id", "v"])) == sorted((key, 2) for key in keys)


def test_d3_a_task_that_is_done_twice_counts_once(yard: Yard) -> None:
    yard.run(f"CREATE TABLE {yard.at('s')} (o int, id bigint)")
    yard.run(f"CREATE TABLE {yard.at('m')} (task int PRIMARY KEY, `rows` bigint)")
    rows = LoadStatements(yard.at("s"), "`o`", ("`id`",), (False,), ("id",), local=True)
    sink = LoadSink(MysqlLogin.of(yard.database), rows, yard.at("m"))
    heap = Heap(layout_of(("id", "bigint")), ((1,), (2,)))
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(sink.take(0, [(0, heap.batches())]))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.append(sink.take(0, [(0, heap.batches())]))
    answers.append(sink.take(1, [(1, heap.batches())]))
    assert answers == [2, 2, 2, 2]
    assert yard.rows(f"SELECT o, COUNT(*) FROM {yard.at('s')} GROUP BY o ORDER BY o") == [(0, 2), (1, 2)]


@pytest.mark.parametrize("heard", [True, False])
def test_b3_a_connection_lost_at_the_commit_is_asked_for_its_outcome(yard: Yard, heard: bool) -> None:
    flow = flow_of(yard)
    loader(yard).rows(ORDERS, [(1, "a", None, 1)])
    assert yard.database.port
    with cutting(yard.database.port) as proxy:
        shaky = replace(yard, database=replace(yard.database, port=proxy.port))
        output = shaky.output(flow_of(shaky))
        staged = output.stage(read_batch(ORDERS, [(1, "b", None, 2), (2, "c", None, 2)]), no_spark)
        proxy.cut_at(b"\x03COMMIT", heard=heard)
        with pytest.raises(OutputUnreachable) as lost:
            output.commit(tag_of(flow, 2), batch_to(2), staged, layout=ORDERS, run_id="run2")
        assert proxy.cuts == 1
        assert lost.value.retryable
        told = output.receipt(tag_of(flow, 2))
        assert (told is not None) is heard
        again = output.commit(tag_of(flow, 2), batch_to(2), staged, layout=ORDERS, run_id="run3")
    assert counts(again) == (2, 1, 1, 0)
    assert yard.contents("orders", ["id", "name"]) == [(1, "b"), (2, "c")]


def test_a_locked_target_is_waited_for_and_no_longer(yard: Yard) -> None:
    loader(yard).rows(ORDERS, [(1, "a", None, 1)])
    output = yard.output(flow_of(yard), patience=1)
    staged = output.stage(read_batch(ORDERS, [(1, "b", None, 2)]), no_spark)
    with (
        yard.hold(yard, yard.table("orders")),
        pytest.raises(OutputUnreachable, match="orders is held by another session") as held,
    ):
        output.commit(tag_of(flow_of(yard), 2), batch_to(2), staged, layout=ORDERS, run_id="run2")
    assert held.value.retryable
    done = output.commit(tag_of(flow_of(yard), 2), batch_to(2), staged, layout=ORDERS, run_id="run2")
    assert counts(done) == (1, 0, 1, 0)


def test_narrower_columns_are_made_wider_and_keep_what_they_are(yard: Yard) -> None:
    at = yard.at("orders")
    yard.run(
        f"CREATE TABLE {at} (id int PRIMARY KEY, name varchar(3) COLLATE utf8mb4_unicode_ci NOT NULL,"
        " amount decimal(4,1), at smallint)",
        f"INSERT INTO {at} VALUES (1, 'abc', 123.4, 5)",
    )
    orders = loader(yard)
    assert counts(orders.rows(ORDERS, [(2**40, "longer", D("1234567890.12"), 2**50)])) == (1, 1, 0, 0)
    assert yard.contents("orders", ["id", "name", "amount", "at"]) == [
        (1, "abc", D("123.40"), 5),
        (2**40, "longer", D("1234567890.12"), 2**50),
    ]
    kept = yard.rows(
        "SELECT COLUMN_TYPE, IS_NULLABLE, COLLATION_NAME FROM information_schema.COLUMNS"
        f" WHERE TABLE_SCHEMA = '{yard.schema}' AND TABLE_NAME = 'orders' AND COLUMN_NAME = 'name'"
    )
    assert kept == [("longtext", "NO", "utf8mb4_unicode_ci")]
    # The column's own collation takes these for one text; they are not.
    assert counts(orders.rows(ORDERS, [(1, "ABC ", D("123.4"), 5)])) == (1, 0, 1, 0)


def test_a_column_of_another_kind_is_refused_with_both_types(yard: Yard) -> None:
    yard.run(
        f"CREATE TABLE {yard.at('orders')}"
        " (id bigint PRIMARY KEY, name enum('a'), amount decimal(12,2), at bigint)"
    )
    with pytest.raises(OutputDisagrees, match=r"column name .*enum.*string"):
        loader(yard).rows(ORDERS, [(1, "a", None, 1)])


@pytest.mark.parametrize("name", ["a" * 65, "smile 😀", "blank ", "n\0l"])
def test_a_name_that_the_server_cannot_have_is_refused(yard: Yard, name: str) -> None:
    with pytest.raises(OutputError, match="cannot name"):
        loader(yard).rows(layout_of(("id", "bigint"), (name, "string")), [(1, "a")])


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
    *("é" * 30, "x" * 63, "tick`"),
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


def test_sessions_are_strict_in_utc_and_read_what_is_committed(yard: Yard) -> None:
    with closing(yard.house().connect()) as session:
        ((zone, mode, level),) = session.rows("SELECT @@time_zone, @@sql_mode, @@tx_isolation")
    assert (zone, level) == ("+00:00", "READ-COMMITTED")
    assert "STRICT_ALL_TABLES" in mode


def test_b13_an_overwrite_is_seen_before_or_after(yard: Yard) -> None:
    orders = loader(yard, mode=Mode.OVERWRITE)
    orders.rows(ORDERS, [(1, "a", None, 1), (2, "b", None, 1)])
    assert counts(orders.rows(ORDERS, [(2, "b", None, 1), (3, "c", None, 1)])) == (2, 1, 0, 1)


def test_the_driver_is_never_seen(yard: Yard) -> None:
    with closing(yard.house().connect()) as session:
        for sql in ("SELEKT", "SELECT * FROM nowhere", "SELECT UNHEX()"):
            with pytest.raises(OutputError) as told:
                session.rows(sql)
            assert isinstance(told.value.__cause__, pymysql.Error)
        session.run("CREATE TEMPORARY TABLE x (i tinyint)")
        with pytest.raises(ValueRejected):
            session.run("INSERT INTO x VALUES (300)")


@pytest.mark.parametrize("statement", ["SELECT 1", "LOAD DATA LOCAL INFILE"])
def test_e2_a_server_that_asks_for_a_file_gets_none(tmp_path: Path, statement: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the contents")
    with _rogue(str(secret)) as (port, heard):
        connection = StreamConnection(
            host="127.0.0.1",
            port=port,
            user="u",
            password="",
            local_infile=True,
            autocommit=None,
            defer_connect=True,
        )
        connection.autocommit_mode = None
        connection.connect()

        def ask() -> None:
            if statement == "SELECT 1":
                connection.query(statement)
            else:
                connection.load(statement, "INTO TABLE x", iter([memoryview(b"row\n")]))

        with pytest.raises(pymysql.Error, match="asks for a file"):
            ask()
        assert not connection.open
    assert b"the contents" not in b"".join(heard)
    assert b"row\n" not in b"".join(heard)


@contextmanager
def _rogue(path: str) -> Iterator[tuple[int, list[bytes]]]:
    """A server that lets everybody in and answers every query with "send me that file"."""
    listener = socket.create_server(("127.0.0.1", 0))
    heard: list[bytes] = []

    def packet(number: int, body: bytes) -> bytes:
        return struct.pack("<I", len(body))[:3] + bytes([number]) + body

    def serve() -> None:
        client, _ = listener.accept()
        capabilities = 0x00FFF7FF & ~0x0800  # All but TLS.
        hello = (
            b"\x0a8.0.36\0" + struct.pack("<I", 1) + b"12345678\0" + struct.pack("<H", capabilities & 0xFFFF)
            + b"\x2d" + struct.pack("<H", 2) + struct.pack("<H", capabilities >> 16) + bytes([21]) + bytes(10)
            + b"123456789012\0" + b"mysql_native_password\0"
        )  # fmt: skip
        client.sendall(packet(0, hello))
        client.recv(4096)
        client.sendall(packet(2, b"\0\0\0\x02\0\0\0"))
        while data := client.recv(4096):
            heard.append(data)
            # Whatever is set up at the start is answered properly; a query of ours is not.
            wanted = b"SELECT 1" in data or b"LOAD DATA" in data
            client.sendall(packet(1, b"\xfb" + path.encode() if wanted else b"\0\0\0\x02\0\0\0"))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], heard
    finally:
        thread.join(5)
        listener.close()
