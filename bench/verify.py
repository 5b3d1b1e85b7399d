"""`verify` of two equal tables, against a count and one sum of row hashes computed by both databases."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from tests.support.servers import MariaDB, Postgres, start_mariadb, start_postgres

from bench.result import Result
from bench.timing import in_turns
from tidegauge.compare.blocks.search import both
from tidegauge.flows.verify.warehouse import verify_warehouse
from tidegauge.model.mode import Mode
from tidegauge.model.position import RowPosition, Value, ValueKind
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Database, Engine, TableFlow, TableName, TableOptions, WarehouseTable
from tidegauge.outputs.warehouse.output import WarehouseOutput
from tidegauge.sources.open import open_source

ROWS = 2_000_000
TIMES = 3
GOAL = 3.0
_END = RowPosition(Value(ValueKind.TIMESTAMP, "2999-01-01 00:00:00"))
_MEMORY = ("--innodb-buffer-pool-size=1G",)
# The columns of `bench.orders` without the float, whose text differs between MariaDB and PostgreSQL.
_COLUMNS = "id, customer_id, status, quantity, price, tax, sku, title, note, created_at, updated_at"
_POSTGRESQL = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id integer, status smallint, quantity integer,
    price numeric(12,2), tax numeric(18,6), sku text, title text, note text, created_at timestamp,
    updated_at timestamp);
INSERT INTO orders SELECT n, n * 7919 % 100003, n % 5, n % 997, n % 1000000 / 100.0,
    CASE WHEN n % 11 > 0 THEN n % 999983 / 1000.0 END, 'SKU-' || lpad((n % 50000)::text, 8, '0'),
    'Ordered thing no. ' || md5(n::text),
    CASE WHEN n % 3 = 0 THEN repeat('left at the door ' || n % 101 || '; ', (1 + n % 4)::int) END,
    '2025-01-01', timestamp '2025-01-01 00:00:00.123456' + n * interval '1 second'
FROM generate_series(1::bigint, {rows}) AS n;
CREATE INDEX ON orders (updated_at, id)
"""
_MARIADB = (
    """
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int, status tinyint, quantity int,
    price decimal(12,2), tax decimal(18,6), sku varchar(20), title varchar(100), note text,
    created_at datetime, updated_at datetime(6), KEY (updated_at, id))
""",
    """
INSERT INTO orders SELECT seq, seq * 7919 % 100003, seq % 5, seq % 997, seq % 1000000 / 100,
    IF(seq % 11 > 0, seq % 999983 / 1000, NULL), CONCAT('SKU-', LPAD(seq % 50000, 8, '0')),
    CONCAT('Ordered thing no. ', MD5(seq)),
    IF(seq % 3 = 0, REPEAT(CONCAT('left at the door ', seq % 101, '; '), 1 + seq % 4), NULL),
    '2025-01-01', DATE_ADD('2025-01-01 00:00:00.123456', INTERVAL seq SECOND)
FROM seq_1_to_{rows}
""",
)
_SUMS = {
    Engine.POSTGRESQL: "SELECT count(*), sum(('x' || substr(md5(concat_ws('|', {columns})), 1, 15))"
    "::bit(60)::bigint) FROM orders",
    Engine.MYSQL: "SELECT count(*), sum(CAST(CONV(LEFT(MD5(CONCAT_WS('|', {columns})), 15), 16, 10)"
    " AS UNSIGNED)) FROM orders",
}


def measure(rows: int = ROWS, *, times: int = TIMES) -> list[Result]:
    with start_postgres(options=("max_wal_size=4GB", "shared_buffers=512MB")) as postgres:
        target = _fill_postgres(postgres, rows)
        found = [_verify("PostgreSQL", _fill_postgres(postgres, rows), target, rows, times)]
        with start_mariadb(options=_MEMORY) as mariadb:
            found.append(_verify("MariaDB", _fill_mariadb(mariadb, rows), target, rows, times))
    return found


class _Filled:
    """A database that holds the table, and a function that runs SQL on it through the bare driver."""

    def __init__(self, database: Database, ask: Callable[[str], Any]) -> None:
        self.database, self._ask = database, ask

    def sum(self) -> Any:
        return self._ask(_SUMS[self.database.engine].format(columns=_COLUMNS))


def _verify(source: str, here: _Filled, there: _Filled, rows: int, times: int) -> Result:
    schema = "public" if here.database.engine is Engine.POSTGRESQL else here.database.database
    table = TableName(schema, "orders")
    options = TableOptions("updated_at", mode=Mode.MERGE)
    landing = WarehouseTable(there.database, TableName("public", "orders"))
    flow = TableFlow("bench", "orders", here.database, table, landing, options)

    def ours(_: int) -> float:
        began = time.perf_counter()
        with closing(open_source(here.database)) as control:
            found = verify_warehouse(flow, control, WarehouseOutput(flow), _END, _no_spark)
        took = time.perf_counter() - began
        if not found.equal or (found.method, found.source_rows) != ("blocks", rows):
            raise AssertionError(f"{rows} equal rows were to be compared by blocks: {found}")
        return took

    def reference(_: int) -> float:
        began = time.perf_counter()
        both(here.sum, there.sum)
        return time.perf_counter() - began

    pairs = in_turns(times, ours, reference)
    return Result(
        name=f"verify of {rows:,} equal rows × {_COLUMNS.count(',') + 1} columns, {source} to PostgreSQL",
        ours=pairs.median_ours,
        reference=pairs.median_reference,
        goal=GOAL,
        unit="s",
        against="`SELECT count(*), sum(…md5(concat_ws(…)))` on both at once",
        more={
            "times": times,
            "each_ours": [round(seconds, 3) for seconds in pairs.ours],
            "each_reference": [round(seconds, 3) for seconds in pairs.reference],
        },
    )


def _fill_postgres(server: Postgres, rows: int) -> _Filled:
    name = server.create_database()

    def ask(sql: str) -> Any:
        with server.connect(name) as connection:
            found = connection.execute(sql.encode())
            return found.fetchall() if found.description else None

    ask(_POSTGRESQL.format(rows=rows))
    with server.connect(name) as connection:
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE orders")
    return _Filled(_database(server, Engine.POSTGRESQL, name), ask)


def _fill_mariadb(server: MariaDB, rows: int) -> _Filled:
    name = server.create_database()

    def ask(sql: str) -> Any:
        with server.connect(name) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            found = cursor.fetchall()
            connection.commit()
            return found

    for statement in _MARIADB:
        ask(statement.format(rows=rows))
    ask("ANALYZE TABLE orders")
    return _Filled(_database(server, Engine.MYSQL, name), ask)


def _database(server: MariaDB | Postgres, engine: Engine, name: str) -> Database:
    return Database(
        name,
        engine,
        host=server.host,
        port=server.port,
        database=name,
        user=server.user,
        password=Secret(server.password),
    )


def _no_spark() -> Any:
    raise AssertionError("nothing here is read through JDBC")
