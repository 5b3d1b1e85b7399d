"""The settlement's tables and its daily work, in SQLite or, with `APP_HOST` set, in MySQL or MariaDB.

python settlement.py make     the tables, with what happened from January to August 2025
python settlement.py work     another day: new deliveries, corrected ones, a claim, a partner's new name
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

JANUARY = datetime(2025, 1, 1)
DELIVERIES, CLAIMS, PARTNERS = 3000, 300, 40
_KINDS = {
    "sqlite": {"money": "INTEGER", "moment": "TEXT", "word": "TEXT"},
    "mysql": {"money": "DECIMAL(12,2)", "moment": "DATETIME", "word": "VARCHAR(60)"},
}
_TABLES = """
CREATE TABLE settlement_normal_delivery_detail (id INTEGER PRIMARY KEY, partner_id INTEGER NOT NULL,
    region {word} NOT NULL, fee {money} NOT NULL, note {word}, update_at {moment} NOT NULL);
CREATE INDEX delivery_by_time ON settlement_normal_delivery_detail (update_at, id);
CREATE TABLE settlement_claim_detail (id INTEGER PRIMARY KEY, delivery_id INTEGER NOT NULL,
    amount {money} NOT NULL, state {word} NOT NULL, update_at {moment} NOT NULL);
CREATE INDEX claim_by_time ON settlement_claim_detail (update_at, id);
CREATE TABLE partner_info (partner_id INTEGER NOT NULL, region {word} NOT NULL, name {word} NOT NULL,
    modified_at {moment} NOT NULL, PRIMARY KEY (partner_id, region));
CREATE TABLE tmp_import (line {word})
"""


def make(connection: Any, engine: str) -> None:
    chance = random.Random(2)
    cursor = connection.cursor()
    for statement in _TABLES.format(**_KINDS[engine]).split(";"):
        cursor.execute(statement)
    _insert(connection, "settlement_normal_delivery_detail", _deliveries(1, DELIVERIES, chance))
    _insert(
        connection,
        "settlement_claim_detail",
        ((n, n * 7, chance.randint(1, 900), "open", _text(JANUARY, n * 17)) for n in range(1, CLAIMS + 1)),
    )
    _insert(
        connection,
        "partner_info",
        ((n // 2, "north" if n % 2 else "south", f"Partner {n}", _text(JANUARY, n)) for n in range(PARTNERS)),
    )
    connection.commit()


def work(connection: Any, engine: str) -> None:
    """Dated a second ago, and settled a second later, when a sync with `settle: 1s` finds them."""
    chance = random.Random()
    clock = datetime.fromisoformat(_clock(connection, engine))
    now = clock - timedelta(seconds=1)
    cursor = connection.cursor()
    cursor.execute("SELECT max(id) FROM settlement_normal_delivery_detail")
    last = cursor.fetchone()[0]
    _insert(connection, "settlement_normal_delivery_detail", _deliveries(last + 1, 1200, chance, now))
    mended = chance.sample(range(1, last), 50)
    cursor.execute(
        f"UPDATE settlement_normal_delivery_detail SET fee = fee + 1, update_at = '{now}'"
        f" WHERE id IN ({', '.join(map(str, mended))})"
    )
    cursor.execute(
        f"UPDATE settlement_claim_detail SET state = 'paid', update_at = '{now}'"
        f" WHERE id = {mended[0] % CLAIMS + 1}"
    )
    cursor.execute(f"UPDATE partner_info SET name = 'New name', modified_at = '{now}' WHERE partner_id = 3")
    connection.commit()
    while datetime.fromisoformat(_clock(connection, engine)) <= clock:
        time.sleep(0.05)


def _deliveries(
    first: int, count: int, chance: random.Random, at: datetime | None = None
) -> Iterator[tuple[object, ...]]:
    """About thirteen a day; 700 of them were settled in one batch job, at one moment."""
    for n in range(first, first + count):
        moment = at or JANUARY + timedelta(minutes=108 * (2000 if 2000 <= n < 2700 else n - 1))
        region = chance.choice(("north", "south"))
        yield (
            n,
            chance.randint(0, 19),
            region,
            chance.randint(100, 9000),
            chance.choice((None, "Åse’s")),
            moment,
        )


def _insert(connection: Any, table: str, rows: Iterator[tuple[object, ...]]) -> None:
    every = [[str(value) if isinstance(value, datetime) else value for value in row] for row in rows]
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    marks = ", ".join([mark] * len(every[0]))
    connection.cursor().executemany(f"INSERT INTO {table} VALUES ({marks})", every)


def _clock(connection: Any, engine: str) -> str:
    cursor = connection.cursor()
    cursor.execute("SELECT datetime('now')" if engine == "sqlite" else "SELECT CAST(utc_timestamp() AS CHAR)")
    return str(cursor.fetchone()[0])


def _text(base: datetime, hours: int) -> str:
    return str(base + timedelta(hours=hours))


def main(what: str) -> None:
    engine = "mysql" if "APP_HOST" in os.environ else "sqlite"
    with closing(_connect(engine)) as connection:
        {"make": make, "work": work}[what](connection, engine)


def _connect(engine: str) -> Any:
    if engine == "sqlite":
        return sqlite3.connect("settlement.db")
    import pymysql

    return pymysql.connect(
        host=os.environ["APP_HOST"],
        port=int(os.environ["APP_PORT"]),
        user=os.environ["APP_USER"],
        password=os.environ["APP_PASSWORD"],
        database="settlement",
        charset="utf8mb4",
    )


if __name__ == "__main__":
    main(sys.argv[1])
