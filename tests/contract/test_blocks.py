"""Hashes of blocks: two databases write the same text of the same row, and find every difference."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.test_types_mysql import CASES as MYSQL_CASES
from tests.integration.test_types_postgresql import CASES as POSTGRESQL_CASES
from tests.support.source_parts import Place, mysql_place, postgresql_place, sqlite_place
from tests.support.types_parts import Case, make
from tests.support.warehouses import Yard, flow_of, loader, no_spark
from tests.support.warehouses import make as make_yard
from tidegauge.compare.frames import Difference
from tidegauge.errors import OutputDisagrees
from tidegauge.flows.flow import open_reader
from tidegauge.flows.verify.blocks import compare_by_blocks, find_forms, source_side, target_side
from tidegauge.flows.verify.table_pair import TablePair
from tidegauge.flows.verify.warehouse import verify_warehouse
from tidegauge.model.canonical import FormKind, hash_row
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.model.spec import TableFlow
from tidegauge.sources.open import open_source

END = RowPosition(Value(ValueKind.INT, "1000000"))
SQLITE_CASES = [
    Case("integer", ("-9223372036854775808", "9223372036854775807", "0"), pa.int64(), ()),
    Case("boolean", ("1", "0"), pa.int64(), ()),
    Case("text", ("''", "' '", "'é😀ß  '", "'NULL'", "','", "'1:x'"), pa.string(), ()),
    Case("varchar(20)", ("'abc'", "'ABC'"), pa.string(), ()),
    Case("blob", ("X''", "X'00ff'", "X'78'"), pa.binary(), ()),
    Case(
        "real", ("0.1", "1e300", "-5e-324", "123456789012345678.0", "1e15", "1e-5", "-0.0"), pa.float64(), ()
    ),
    Case("datetime", ("'2025-01-01 10:00:00'", "'0001-01-01'"), pa.string(), ()),
    Case("decimal(10,2)", ("1.5", "12", "'0.10'"), pa.string(), ()),
]
CASES = {"mysql": MYSQL_CASES, "postgresql": POSTGRESQL_CASES, "sqlite": SQLITE_CASES}
WAREHOUSES = ["postgres", "mariadb", "duckdb", "sqlite"]
HASHES_FLOATS = {
    ("postgresql", "postgres"),
    ("postgresql", "sqlite"),
    ("sqlite", "postgres"),
    ("sqlite", "sqlite"),
}
HASHES_FLOATS |= {("mysql", "mariadb")}


def open_place(engine: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    match engine:
        case "mysql":
            return mysql_place(request.getfixturevalue("mariadb"))
        case "postgresql":
            place = postgresql_place(request.getfixturevalue("postgres"))
            place.run("CREATE TYPE mood AS ENUM ('sad', 'happy')")
            place.run("CREATE TYPE pair AS (a int, b text)")
            place.run("CREATE DOMAIN price AS numeric(9,2) CHECK (value >= 0)")
            place.run("CREATE DOMAIN high_price AS price CHECK (value >= 10)")
            return place
        case _:
            return sqlite_place(folder)


def flow_between(place: Place, yard: Yard, *, cursor: str = "id", **options: Any) -> TableFlow:
    flow = flow_of(yard, cursor=cursor, **options)
    return replace(flow, source=place.database, table=place.table("t"))


def load(flow: TableFlow, yard: Yard, upto: RowPosition = END, after: RowPosition | None = None) -> None:
    control = open_source(flow.source)
    source_table = control.describe(flow.table, flow.options)
    control.close()
    batch_data = open_reader(flow).batch_data(source_table, Batch((Window(after, upto),)))
    loading = loader(yard)
    loading.flow = flow
    loading.load(replace(batch_data, frame=None, rows=None))


@contextmanager
def pair_of(flow: TableFlow, yard: Yard, position: RowPosition | None = END) -> Iterator[TablePair]:
    with closing(open_source(flow.source)) as control:
        yield TablePair(flow, control, yard.output(flow), position, no_spark)


def judged(flow: TableFlow, yard: Yard, position: RowPosition | None = END) -> Difference:
    """By blocks and row by row, which have to agree."""
    with pair_of(flow, yard, position) as pair:
        by_blocks, by_rows = compare_by_blocks(pair), pair.compare(name_all=True)
    assert isinstance(by_blocks, Difference), by_blocks
    assert by_blocks == by_rows
    assert by_blocks.method == "blocks"
    if not by_rows.equal:
        assert _listed(by_blocks) == _listed(by_rows)
    return by_blocks


def _listed(found: Difference) -> dict[str, list[str]]:
    assert found.unlike is not None
    return {word: sorted(map(str, keys.to_pylist())) for word, keys in found.unlike.items()}


def held_by(cases: Sequence[Case], warehouse: str) -> list[Case]:
    """Those that the warehouse can take."""
    if warehouse == "mariadb":  # 30 digits after the point, and no infinity
        cases = [case for case in cases if case.native != "numeric(38,38)"]
        cases = [replace(case, values=tuple(v for v in case.values if "infinity" not in v)) for case in cases]
    if warehouse == "postgres":  # no NUL
        cases = [replace(case, values=tuple(v for v in case.values if "\\0" not in v)) for case in cases]
    return list(cases)


@pytest.mark.shown_on("mysql-postgres", "mysql-mariadb", "postgresql-duckdb", "sqlite-sqlite")
@pytest.mark.parametrize("warehouse_name", WAREHOUSES)
@pytest.mark.parametrize("engine", ["mysql", "postgresql", "sqlite"])
def test_both_sides_write_every_type_alike(
    engine: str, warehouse_name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Column by column: the source, the target and Python hash the same, or the column is named as one that
    cannot be hashed; that is so for floats alone."""
    place, yard = open_place(engine, request, tmp_path), make_yard(warehouse_name, request, tmp_path)
    make(place, "t", held_by(CASES[engine], warehouse_name), "`" if engine == "mysql" else '"')
    flow = flow_between(place, yard)
    load(flow, yard)
    unlike, floats = {}, []
    with pair_of(flow, yard) as whole:
        source_table, held = whole.source_table, whole.held
        splits = open_reader(flow).batch_data(source_table, whole.batches[0]).splits
        arrived = pa.Table.from_batches([batch for split in splits for batch in split.batches()])
        keys = arrived.column("id").to_pylist()
        for column in source_table.columns[1:]:
            whole.source_table = replace(source_table, columns=(source_table.columns[0], column))
            whole.held = {name: field for name, field in held.items() if name in ("id", column.name)}
            forms = find_forms(whole)
            if isinstance(forms, str):
                assert column.arrives in ("float", "double"), forms
                floats.append(column.name)
                continue
            here = source_side(whole, forms).hashes(1, [0], ())
            there = target_side(whole, forms).hashes(1, [0], ())
            rows = zip(keys, arrived.column(column.name).to_pylist(), strict=True)
            meant = [(hash_row(forms[:1], [key]), hash_row(forms, [key, value])) for key, value in rows]
            if forms[1].kind is FormKind.FLOAT and engine == "mysql":
                meant = here  # MySQL writes them in a way of its own.
            if not sorted(here) == sorted(there) == sorted(meant):
                unlike[column.native] = len(set(here) - set(meant)), len(set(there) - set(meant))
    assert unlike == {}
    assert bool(floats) == ((engine, warehouse_name) not in HASHES_FLOATS)
    with closing(open_source(place.database)) as control:
        found = verify_warehouse(flow, control, yard.output(flow), END, no_spark)
    assert found.equal, found
    assert found.method == ("rows" if floats else "blocks"), found.why_rows
    assert not floats or "floats" in str(found.why_rows)


FLOATS = (
    *("0.1", "-0.0", "16777217", "3.4028235e38", "-3.4028235e38", "1.17549435e-38", "1.4e-45"),
    *("0.333333343", "1.0000001", "8388607.5", "123456.789", "9.999999e-5"),
)


@pytest.mark.parametrize("warehouse_name", ["mariadb", "duckdb"])
def test_every_bit_of_a_float_is_compared_where_it_is_not_hashed(
    warehouse_name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The smallest and the largest, those with no short text, and a neighbour of each as the difference."""
    place = open_place("postgresql", request, tmp_path)
    yard = make_yard(warehouse_name, request, tmp_path)
    make(place, "t", [Case("real", FLOATS, pa.float32(), ())], '"')
    flow = flow_between(place, yard)
    load(flow, yard)
    with closing(open_source(place.database)) as control:
        found = verify_warehouse(flow, control, yard.output(flow), END, no_spark)
        assert (found.equal, found.method) == (True, "rows"), found
        place.run("UPDATE t SET v0 = 0.33333337 WHERE v0 = 0.333333343::real")
        found = verify_warehouse(flow, control, yard.output(flow), END, no_spark)
    assert (found.missing, found.extra, found.different) == (0, 0, 1), found


TEXTS = ("plain", "case", "blank  ", "", "é", "1:x", ",")


def texts(place: Place, yard: Yard, *, moment: str, kind: str = "varchar(40)") -> TableFlow:
    place.run(f"CREATE TABLE t (id integer PRIMARY KEY, name {kind}, amount decimal(12,4), at {moment})")
    rows = [
        f"({number}, '{TEXTS[number % len(TEXTS)]}', {number}.5, '2025-01-01 10:00:00.{number:06}')"
        for number in range(1, 101)
    ]
    place.run(f"INSERT INTO t VALUES {', '.join(rows)}")
    return flow_between(place, yard)


@pytest.mark.shown_on("postgresql-mariadb", "mysql-sqlite")
@pytest.mark.parametrize(
    ("engine", "warehouse_name"),
    [
        ("mysql", "postgres"),
        ("postgresql", "mariadb"),
        ("postgresql", "duckdb"),
        ("mysql", "sqlite"),
        pytest.param("mysql", "mariadb", marks=pytest.mark.long),
        pytest.param("mysql", "duckdb", marks=pytest.mark.long),
        pytest.param("postgresql", "postgres", marks=pytest.mark.long),
        pytest.param("postgresql", "sqlite", marks=pytest.mark.long),
    ],
)
def test_every_difference_is_found_by_blocks_as_by_rows(
    engine: str, warehouse_name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place, yard = open_place(engine, request, tmp_path), make_yard(warehouse_name, request, tmp_path)
    moment = "datetime(6)" if engine == "mysql" else "timestamp"
    flow = texts(place, yard, moment=moment)
    load(flow, yard)
    assert judged(flow, yard) == Difference(100, 100, 0, 0, 0, (), newer=0)
    table, name = yard.at("orders"), yard.house().name

    def set_(column: str, value: str, key: int) -> str:
        return f"UPDATE {table} SET {name(column)} = {value} WHERE {name('id')} = {key}"

    yard.run(f"DELETE FROM {table} WHERE {name('id')} IN (5, 6)")
    yard.run(
        f"INSERT INTO {table} SELECT {name('id')} + 1000, {name('name')}, {name('amount')}, {name('at')}"
        f" FROM {table} WHERE {name('id')} = 7"
    )
    yard.run(set_("name", "'CASE'", 8))  # TEXTS[1]
    yard.run(set_("name", "'blank '", 9))
    yard.run(set_("name", "NULL", 10))  # it was ''
    yard.run(set_("amount", "12.5001", 12))
    yard.run(set_("at", "'2025-01-01 10:00:00.000014'", 13))  # a microsecond
    yard.run(set_("name", "'e'", 18))  # it was é
    found = judged(flow, yard)
    assert (found.missing, found.extra, found.different) == (2, 1, 6)
    assert {key for kind, key in found.examples if kind == "different"} == {"8", "9", "10", "12", "13", "18"}


@pytest.mark.parametrize("warehouse_name", ["postgres", "sqlite"])
def test_the_two_zeros_are_one_and_a_last_bit_is_a_difference(
    warehouse_name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """As `compare.rows` has it: a database may keep only one zero, and is not wrong for that."""
    place, yard = open_place("postgresql", request, tmp_path), make_yard(warehouse_name, request, tmp_path)
    place.run("CREATE TABLE t (id integer PRIMARY KEY, f float8)")
    place.run("INSERT INTO t VALUES (1, 0), (2, 0.1), (3, 1e22)")
    flow = flow_between(place, yard)
    load(flow, yard)
    name, table = yard.house().name, yard.at("orders")
    yard.run(f"UPDATE {table} SET {name('f')} = -0.0 WHERE {name('id')} = 1")
    assert judged(flow, yard).equal
    yard.run(f"UPDATE {table} SET {name('f')} = 0.10000000000000002 WHERE {name('id')} = 2")
    assert judged(flow, yard).examples == (("different", "2"),)


def test_mysql_writes_every_bit_of_a_double(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    place, yard = open_place("mysql", request, tmp_path), make_yard("mariadb", request, tmp_path)
    place.run("CREATE TABLE t (id integer PRIMARY KEY, f double)")
    place.run("INSERT INTO t VALUES (1, 0.1), (2, 1.7976931348623157e308), (3, 123456789012345678)")
    flow = flow_between(place, yard)
    load(flow, yard)
    assert judged(flow, yard).equal
    for key, near in ((1, "0.10000000000000002e0"), (2, "1.7976931348623155e308"), (3, "123456789012345696")):
        yard.run(f"UPDATE {yard.at('orders')} SET f = {near} WHERE id = {key}")
    assert judged(flow, yard).different == 3


def test_types_that_cannot_be_compared_are_named(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    place, yard = sqlite_place(tmp_path), make_yard("duckdb", request, tmp_path)
    place.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    place.run("INSERT INTO t VALUES (1, 1)")
    flow = flow_between(place, yard)
    load(flow, yard)
    yard.run(
        f"ALTER TABLE {yard.at('orders')} DROP COLUMN v", f"ALTER TABLE {yard.at('orders')} ADD COLUMN v BLOB"
    )
    with closing(open_source(flow.source)) as control, pytest.raises(OutputDisagrees) as caught:
        verify_warehouse(flow, control, yard.output(flow), END, no_spark)
    assert "column v is int64 at the source and binary in the target" in caught.value.message


@pytest.mark.parametrize("key", ["code", "region, code"])
def test_keys_of_text_need_no_collation(key: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    place, yard = open_place("mysql", request, tmp_path), make_yard("postgres", request, tmp_path)
    place.run(
        "CREATE TABLE t (region varchar(5), code varchar(9), n int, at int,"
        f" PRIMARY KEY ({key})) COLLATE utf8mb4_general_ci"
    )
    for number, code in enumerate(("a", "B", "é", "Z", "ß", "_", "10", "9")):
        place.run(f"INSERT INTO t VALUES ('r{number % 2}', '{code}', {number}, {number})")
    flow = flow_between(place, yard, cursor="at")
    load(flow, yard)
    assert judged(flow, yard).equal
    table = yard.at("orders")
    yard.run(f"UPDATE {table} SET n = 77 WHERE code = 'Z'", f"UPDATE {table} SET code = 'b' WHERE code = 'B'")
    found = judged(flow, yard)
    assert (found.missing, found.extra, found.different) == (1, 1, 1)


@pytest.mark.shown_on("sqlite")
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(more, marks=pytest.mark.long) for more in range(2, 12))]
)
@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.APPEND, Mode.SCD2])
@pytest.mark.parametrize("warehouse_name", ["duckdb", "sqlite"])
def test_blocks_and_rows_give_one_verdict_whatever_was_done(
    warehouse_name: str, mode: Mode, seed: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Random changes at the source, with and without its cursor, and by hand in the target."""
    chance = random.Random(f"{warehouse_name}{mode}{seed}")
    place, yard = sqlite_place(tmp_path), make_yard(warehouse_name, request, tmp_path)
    place.run("CREATE TABLE t (id integer PRIMARY KEY, word text, blob blob, at integer)")
    rows = [
        f"({number}, 'w{number % 7}', X'0{number % 9}', {number})"
        for number in range(chance.choice((1, 3, 40, 300)))
    ]
    place.run(f"INSERT INTO t VALUES {', '.join(rows)}")
    initial = chance.choice((None, "20"))
    mark = RowPosition(Value(ValueKind.INT, chance.choice(("2", "100", "900"))))
    flow = flow_between(place, yard, cursor="at", mode=mode, initial=initial)
    after = RowPosition(Value(ValueKind.INT, chance.choice(("9", "19")))) if initial else None
    load(flow, yard, mark, after)
    judged(flow, yard, mark)
    name, table = yard.house().name, yard.at("orders")
    for _ in range(chance.randrange(8)):
        key, other = chance.randrange(300), chance.randrange(1200)
        work = chance.randrange(6)
        match work:
            case 0:
                place.run(f"UPDATE t SET word = 'x', at = {other} WHERE id = {key}")
            case 1:
                place.run(f"DELETE FROM t WHERE id = {key}")
            case 2:
                place.run(f"INSERT OR REPLACE INTO t VALUES ({key}, NULL, X'', {other})")
            case 3:
                yard.run(f"DELETE FROM {table} WHERE {name('id')} = {key}")
            case 4:
                yard.run(f"UPDATE {table} SET {name('word')} = '' WHERE {name('id')} < {key % 50}")
            case _:
                yard.run(f"UPDATE {table} SET {name('id')} = {other + 5000} WHERE {name('id')} = {key}")
        judged(flow, yard, mark)
