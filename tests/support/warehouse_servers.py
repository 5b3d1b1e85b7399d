"""PostgreSQL and MariaDB as warehouses for tests."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.servers import MariaDB, Postgres
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Database, Engine, TableName

if TYPE_CHECKING:
    from tests.support.warehouses import Yard


def postgres_database(server: Postgres) -> Database:
    """Make a schema, not a database: a new PostgreSQL database is three hundred files."""
    schema = f"dw é {secrets.token_hex(4)}"
    with server.connect() as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
    return Database(
        "dw",
        Engine.POSTGRESQL,
        host=server.host,
        port=server.port,
        database="postgres",
        user=server.user,
        password=Secret(server.password),
        schema=schema,
    )


def mariadb_database(server: MariaDB) -> Database:
    return Database(
        "dw",
        Engine.MYSQL,
        host=server.host,
        port=server.port,
        database=server.create_database(),
        user=server.user,
        password=Secret(server.password),
    )


@contextmanager
def hold_postgres(yard: Yard, table: TableName) -> Iterator[None]:
    house = yard.house()
    other = house.connect()
    other.run(f"LOCK TABLE {house.table(table)} IN ACCESS EXCLUSIVE MODE")
    try:
        yield
    finally:
        other.close()


@contextmanager
def hold_mariadb(yard: Yard, table: TableName) -> Iterator[None]:
    house = yard.house()
    other = house.connect()
    other.run(f"LOCK TABLES {house.table(table)} WRITE")
    try:
        yield
    finally:
        other.close()
