"""Open a database's control side."""

from __future__ import annotations

from typing import assert_never

from tidegauge.model.protocols import Source
from tidegauge.model.spec import Database, Engine
from tidegauge.read.dialect import Dialect
from tidegauge.read.source import DatabaseSource


def open_source(database: Database) -> Source:
    """Connect now. Raises SourceUnreachable, which says whether trying again may help."""
    return DatabaseSource(_dialect(database))


def _dialect(database: Database) -> Dialect:
    match database.engine:
        case Engine.SQLITE:
            from tidegauge.read.sqlite import SqliteDialect

            return SqliteDialect(database)
        case Engine.MYSQL:
            from tidegauge.read.mysql import MysqlDialect

            return MysqlDialect(database)
        case Engine.POSTGRESQL:
            from tidegauge.read.postgresql import PostgresqlDialect

            return PostgresqlDialect(database)
        case _:
            assert_never(database.engine)
