"""The table that `bench.extract` reads: twelve columns of mixed types, generated inside MariaDB."""

from __future__ import annotations

from tests.support.servers import MariaDB

TABLE = "orders"
COLUMNS = 12
_MOVED = 10
"""One row in this many has an `updated_at` out of line, so that time order differs from key order."""

_CREATE = """
CREATE TABLE {table} (
    id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    customer_id INT NOT NULL,
    status TINYINT NOT NULL,
    quantity SMALLINT UNSIGNED NOT NULL,
    price DECIMAL(12,2) NOT NULL,
    tax DECIMAL(18,6),
    weight DOUBLE,
    sku VARCHAR(20) NOT NULL,
    title VARCHAR(80) NOT NULL,
    note TEXT,
    created_at DATETIME NOT NULL,
    updated_at DATETIME(6) NOT NULL
) CHARACTER SET utf8mb4
"""
# Three rows share each timestamp. `seq_1_to_n` is MariaDB's sequence engine.
_FILL = """
INSERT INTO {table}
SELECT seq, seq * 7919 % 100003, seq % 5, seq % 997, seq % 1000000 / 100,
    IF(seq % 11 = 0, NULL, seq % 999983 / 1000), IF(seq % 13 = 0, NULL, seq * 0.37),
    CONCAT('SKU-', LPAD(seq % 50000, 8, '0')), CONCAT('Ordered thing no. ', MD5(seq)),
    IF(seq % 3 = 0, REPEAT(CONCAT('left at the door ', seq % 101, '; '), 1 + seq % 4), NULL),
    '{start}' + INTERVAL 0 SECOND,
    '{start}' + INTERVAL 1 + IF(seq % {moved} = 0, seq * 31 % {span}, (seq - {first}) DIV 3) {unit}
FROM seq_{first}_to_{last}
"""


def fill(server: MariaDB, database: str, rows: int, *, table: str = TABLE) -> None:
    """Create the table and its index, with rows whose timestamps begin a year ago."""
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT UTC_TIMESTAMP() - INTERVAL 1 YEAR")
        ((start,),) = cursor.fetchall()
        cursor.execute(_CREATE.format(table=table))
        cursor.execute(_insert_sql(table, 1, rows, start=f"{start}.123456", unit="SECOND"))
        cursor.execute(f"CREATE INDEX by_time ON {table} (updated_at, id)")
        cursor.execute(f"ANALYZE TABLE {table}")


def fill_more(server: MariaDB, database: str, rows: int, total: int) -> None:
    """Add such rows up to `total`, `rows` at a time, because a transaction of millions takes much memory."""
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT MAX(id), UTC_TIMESTAMP() - INTERVAL 1 YEAR FROM {TABLE}")
        ((last, start),) = cursor.fetchall()
        while last < total:
            upto = min(last + rows, total)
            cursor.execute(_insert_sql(TABLE, last + 1, upto, start=f"{start}.654321", unit="SECOND"))
            last = upto


def add(server: MariaDB, database: str, rows: int, *, table: str = TABLE) -> str:
    """Add rows with the timestamps of this moment; return the server's time just before them."""
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT MAX(id), CAST(UTC_TIMESTAMP(6) AS CHAR) FROM {table}")
        ((last, start),) = cursor.fetchall()
        cursor.execute(_insert_sql(table, last + 1, last + rows, start=start, unit="MICROSECOND"))
    return str(start)


def _insert_sql(table: str, first: int, last: int, *, start: str, unit: str) -> str:
    span = (last - first) // 3 + 1
    return _FILL.format(table=table, moved=_MOVED, first=first, last=last, start=start, span=span, unit=unit)
