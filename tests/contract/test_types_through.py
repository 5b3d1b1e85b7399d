"""Types that Spark does not have, between databases that both know them: they arrive as they are, exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.test_without_cursor import Shop
from tests.support.project import here, mysql_database, postgres_database
from tests.support.servers import MariaDB, Postgres

POSTGRES = {
    "numeric": [
        "0",
        "1.500",
        "-1.50",
        "'NaN'",
        "'Infinity'",
        "'-Infinity'",
        f"{'9' * 1000}.{'8' * 500}",
        "1e-300",
    ],
    "numeric(60,20)": ["123456789012345678901234567890123456789.5", "-0.00000000000000000001"],
    "uuid": ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "jsonb": ["'null'", """'{"b": [1, 2.50, "x\\"y"],  "a": {}}'""", "'1e400'"],
    "json": ["""'{"a":  1, "a": 2}'""", "'  [1 ,2]  '"],
    "inet": ["'192.168.0.1/24'", "'::1'", "'10.0.0.0/8'"],
    "cidr": ["'10.0.0.0/8'", "'2001:db8::/32'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "integer[]": ["'{}'", "'{1,NULL,-3}'", "'{{1,2},{3,4}}'", "'[0:1]={7,8}'"],
    "text[]": ["""ARRAY['it''s', 'a,b', 'a"b', '', 'NULL', NULL, E'back\\\\slash', '{}']"""],
    "timestamptz[]": ["ARRAY['infinity'::timestamptz, '2024-11-03 01:30:00-05']"],
    "numeric(10,2)[]": ["ARRAY[1.50, NULL, -99999999.99]"],
    "int4range": ["'empty'", "'(,)'", "'[1,10)'", "'(,5]'"],
    "tstzrange": ["'[2024-01-01 00:00:00.123456+02,infinity)'"],
    "numrange": ["'[1.50,1.500]'"],
    "int4multirange": ["'{[1,3), [5,9)}'"],
    "interval": [
        "'178000000 years'",
        "'-178000000 years'",
        "'1 mon'",
        "'30 days'",
        "'-1 days +02:03:04.000001'",
        "'-1 years -2 mons +3 days -04:05:06.789'",
    ],
    "time": ["'24:00:00'", "'23:59:59.999999'"],
    "timetz": ["'12:00:00+15:59'"],
    "bit(5)": ["B'10101'"],
    "varbit": ["B''", "B'1'"],
    "point": ["'(1e-300,-0.1)'"],
    "polygon": ["'((0,0),(1.1,2.2),(3,0))'"],
    "tsvector": ["'a:1A fat:2B'"],
    "xml": ["'<a/>text<b/>'"],
    "pg_lsn": ["'FFFFFFFF/FFFFFFFF'"],
}
"""Type → values as PostgreSQL's SQL has them; NULL comes with each."""
MYSQL = {
    "time(6)": ["'-838:59:59.000000'", "'838:59:58.999999'", "'00:00:00.000001'"],
    "time": ["'12:00:00'"],
    "decimal(65,30)": ["99999999999999999999999999999999999.999999999999999999999999999999", "-0.1"],
    "decimal(65,0)": ["-" + "9" * 65],
    "geometry": [
        "ST_GeomFromText('POINT(0.1 -1e-300)', 4326)",
        "ST_GeomFromText('LINESTRING(0 0,1 1,2 0.3)')",
    ],
    "point": ["POINT(1.1, 2.2)"],
    "polygon": ["ST_GeomFromText('POLYGON((0 0,10 0,10 10,0 0))')"],
    "json": ["""'{"a":  1, "a": 2}'""", "'[1.50, null]'"],
    "inet6": ["'::ffff:10.0.0.1'"],
    "uuid": ["'123e4567-e89b-12d3-a456-426655440000'"],
}


def table_of(types: dict[str, list[str]], key: str) -> tuple[list[str], int]:
    """A table with a column for each type, each value in a row of its own, and one row of NULLs."""
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(types))
    rows = [(f"c{place}", value) for place, values in enumerate(types.values()) for value in values]
    made = [f"CREATE TABLE every (id {key} PRIMARY KEY, at TIMESTAMP NOT NULL, {columns})"]
    made += [
        f"INSERT INTO every (id, at, {column}) VALUES ({number}, '2025-01-01 00:00:00', {value})"
        for number, (column, value) in enumerate(rows, start=1)
    ]
    made.append("INSERT INTO every (id, at) VALUES (0, '2025-01-01 00:00:00')")
    return made, len(rows) + 1


def check_through(shop: Shop, types: dict[str, list[str]], text: str, touch: str, kinds: str) -> None:
    statements, rows = table_of(types, "INT")
    shop.app.execute(*statements)
    shop.write("every", more=", cursor: at, deletes: hard")
    assert shop.run() == {"every": ("SUCCESS", rows, rows, 0, 0)}

    def same() -> None:
        columns = ", ".join(text.format(c=f"c{place}") for place in range(len(types)))
        everything = f"SELECT id, {columns} FROM every ORDER BY id"
        here_, there = shop.app.rows(everything), shop.copy.rows(everything)
        assert there == here_
        found = shop.verify()["every"]
        assert (found["equal"], found["method"]) == (True, "blocks"), found

    same()
    assert shop.copy.rows(kinds) == shop.app.rows(kinds)
    # Nothing is written for rows that come again as they were.
    shop.app.execute(touch, "DELETE FROM every WHERE id = 1")
    assert shop.run()["every"][3:] == (1, 1)
    same()


def test_postgresql_into_postgresql(postgres: Postgres, tmp_path: Path) -> None:
    shop = Shop(tmp_path, postgres_database(postgres), postgres_database(postgres))
    kinds = (
        "SELECT attname, split_part(format_type(atttypid, NULL), '(', 1) FROM pg_attribute"
        " WHERE attrelid = 'every'::regclass AND attnum > 2 ORDER BY 1"
    )
    touch = "UPDATE every SET at = '2025-01-02', c0 = CASE WHEN id = 2 THEN 1.50 ELSE c0 END"
    touch += " WHERE id IN (2)"
    check_through(shop, POSTGRES, "{c}::text", touch, kinds)


def test_mariadb_into_mariadb(mariadb: MariaDB, tmp_path: Path) -> None:
    shop = Shop(tmp_path, mysql_database(mariadb), mysql_database(mariadb))
    kinds = (
        "SELECT COLUMN_NAME, REPLACE(DATA_TYPE, '(6)', '') FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'every' ORDER BY 1"
    )
    touch = "UPDATE every SET at = '2025-01-02', c0 = '-00:00:01' WHERE id = 2"
    kinds = kinds.replace("ORDER", "AND COLUMN_NAME LIKE 'c%' ORDER")
    check_through(shop, MYSQL, "HEX({c})", touch, kinds)


def test_keys_of_such_types_are_merged_deleted_and_compared(postgres: Postgres, tmp_path: Path) -> None:
    shop = Shop(tmp_path, postgres_database(postgres), postgres_database(postgres))
    shop.app.execute(
        "CREATE TABLE t (id uuid, net inet, n numeric, word text, at timestamp NOT NULL,"
        " PRIMARY KEY (id, net, n))",
        "INSERT INTO t SELECT md5(i::text)::uuid, '10.0.0.1'::inet + i, i / 3.0, 'w', '2025-01-01'"
        " FROM generate_series(1, 300) AS i",
    )
    shop.write("t", more=", cursor: at, deletes: hard, batch_rows: 100")
    assert shop.run() == {"t": ("SUCCESS", 300, 300, 0, 0)}
    shop.app.execute(
        "UPDATE t SET word = 'x', at = '2025-01-02' WHERE net < '10.0.0.12'",
        "DELETE FROM t WHERE net > '10.0.1.40'",
    )
    changed, gone = shop.app.rows("SELECT count(*) FILTER (WHERE word = 'x'), 300 - count(*) FROM t")[0]
    assert shop.run() == {"t": ("SUCCESS", changed, 0, changed, gone)}
    assert shop.verify()["t"]["method"] == "blocks"
    shop.copy.execute(
        "DELETE FROM t WHERE net = '10.0.0.50'", "UPDATE t SET n = n * 2 WHERE net = '10.0.0.51'"
    )
    found = shop.verify(code=1)["t"]
    assert (found["missing"], found["extra"]) == (2, 1)
    assert (
        here("repair", "-t", "public.t", "--deletes", "--reason", "x", "--yes", "--project", shop.file).code
        == 0
    )
    assert shop.verify()["t"]["equal"]


@pytest.mark.parametrize("mode", ["scd2", "append", "overwrite"])
def test_every_mode_writes_such_types(postgres: Postgres, tmp_path: Path, mode: str) -> None:
    shop = Shop(tmp_path, postgres_database(postgres), postgres_database(postgres))
    shop.app.execute(
        "CREATE TABLE t (id uuid PRIMARY KEY, j json, n numeric, at timestamp NOT NULL)",
        "INSERT INTO t SELECT md5(i::text)::uuid, '{}', i / 3.0, '2025-01-01'"
        " FROM generate_series(1, 3) AS i",
    )
    shop.write("t", more=f", cursor: at, mode: {mode}" + (", deletes: soft" if mode == "scd2" else ""))
    assert shop.run() == {"t": ("SUCCESS", 3, 3, 0, 0)}
    shop.app.execute(
        "UPDATE t SET j = '{\"a\":  1}', at = '2025-01-02' WHERE id = md5('1')::uuid",
        "DELETE FROM t WHERE id = md5('2')::uuid",
    )
    shop.run(*(["--confirm-deletes"] if mode != "append" else []))
    now = "WHERE is_current" if mode == "scd2" else "WHERE j::text <> '{}'" if mode == "append" else ""
    everything = "SELECT id, j::text, n::text FROM t"
    there = set(shop.copy.rows(f"{everything} {now}"))
    assert there == {row for row in shop.app.rows(everything) if mode != "append" or row[1] != "{}"}


def test_a_source_that_changes_its_precision_goes_on(postgres: Postgres, tmp_path: Path) -> None:
    shop = Shop(tmp_path, postgres_database(postgres), postgres_database(postgres))
    shop.app.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(10,2), at timestamp NOT NULL)",
        "INSERT INTO t VALUES (1, 1.50, '2025-01-01')",
    )
    shop.write("t", more=", cursor: at")
    shop.run()
    for step, kind in enumerate(("numeric", "numeric(50,3)", "numeric(12,4)"), start=2):
        shop.app.execute(
            f"ALTER TABLE t ALTER COLUMN n TYPE {kind}",
            f"INSERT INTO t VALUES ({step}, 2.125, '2025-01-0{step}')",
        )
        assert shop.run() == {"t": ("SUCCESS", 1, 1, 0, 0)}
    assert shop.verify()["t"]["equal"]


def test_a_text_column_of_an_earlier_version_stays_text(postgres: Postgres, tmp_path: Path) -> None:
    shop = Shop(tmp_path, postgres_database(postgres), postgres_database(postgres))
    shop.app.execute(
        "CREATE TABLE t (id uuid PRIMARY KEY, j jsonb, at timestamp NOT NULL)",
        """INSERT INTO t VALUES (gen_random_uuid(), '{"a": 1}', '2025-01-01')""",
    )
    shop.write("t", more=", cursor: at, types: {uuid: string, jsonb: string}, deletes: hard")
    shop.run()
    shop.write("t", more=", cursor: at, deletes: hard")
    shop.app.execute("""UPDATE t SET j = '{"a": 2}', at = '2025-01-02'""")
    assert shop.run() == {"t": ("SUCCESS", 1, 0, 1, 0)}
    assert shop.copy.rows("SELECT pg_typeof(id)::text, j FROM t") == [("text", '{"a": 2}')]
    assert shop.verify()["t"]["equal"]


def test_all_columns_that_cannot_be_held_are_named_with_the_one_line(
    mariadb: MariaDB, postgres: Postgres, tmp_path: Path
) -> None:
    shop = Shop(tmp_path, mysql_database(mariadb), postgres_database(postgres))
    shop.app.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, w DECIMAL(65,30), p POINT, q POINT)",
        "CREATE TABLE b (id INT PRIMARY KEY, g GEOMETRY, v DECIMAL(50,2) UNSIGNED)",
        "INSERT INTO a VALUES (1, 1.5, POINT(1, 2), NULL)",
        "INSERT INTO b VALUES (1, NULL, 7)",
    )
    shop.write(more=", without_cursor: snapshot")
    for command in ("plan", "run"):
        flows = shop.do(command, code=1).json["flows"]
        messages = " ".join(one["error"]["message"] for one in flows)
        for column in (
            "w (decimal(65,30))",
            "p (point)",
            "q (point)",
            "g (geometry)",
            "v (decimal(50,2) unsigned)",
        ):
            assert column in messages
        [hint] = {one["error"]["hint"] for one in flows}
        line = hint.partition("`")[2].partition("`")[0]
        assert line == 'types: {decimal: string, point: string, geometry: string, "decimal unsigned": string}'
    shop.write(more=f", without_cursor: snapshot, {line}")
    assert shop.run() == {"a": ("SUCCESS", 1, 1, 0, 0), "b": ("SUCCESS", 1, 1, 0, 0)}
    assert shop.copy.rows("SELECT w, p FROM a") == [("1.500000000000000000000000000000", "POINT(1 2)")]
    assert all(one["equal"] for one in shop.verify().values())


@pytest.mark.parametrize("wrong", ["nothing", "varchar2"])
def test_a_word_that_is_neither_a_column_nor_a_type_is_refused(
    mariadb: MariaDB, tmp_path: Path, wrong: str
) -> None:
    shop = Shop(tmp_path, mysql_database(mariadb), mysql_database(mariadb))
    shop.app.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.write(more=f", without_cursor: snapshot, types: {{{wrong}: string}}")
    [flow] = shop.do("plan", code=1).json["flows"]
    assert flow["error"]["type"] == "ColumnMissing"
    assert f"'{wrong}', which is neither a column there nor a type" in flow["error"]["message"]
