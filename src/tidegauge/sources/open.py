"""Open a database's control side."""

from __future__ import annotations

from tidegauge.errors import ConfigError
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Database, Engine
from tidegauge.sources.dialect import Dialect
from tidegauge.sources.source import DatabaseSource


def open_source(database: Database) -> Source:
    """Connect now. Raises SourceUnreachable, which says whether trying again may help."""
    return DatabaseSource(open_dialect(database))


def open_dialect(database: Database) -> Dialect:
    """A session of its own, for those who need one beside the control side."""
    match database.engine:
        case Engine.SQLITE:
            from tidegauge.sources.sqlite.dialect import SqliteDialect

            return SqliteDialect(database)
        case Engine.MYSQL:
            from tidegauge.sources.mysql.dialect import MysqlDialect

            return MysqlDialect(database)
        case Engine.POSTGRESQL:
            from tidegauge.sources.postgresql.dialect import PostgresqlDialect

            return PostgresqlDialect(database)
        case _:
            raise ConfigError(
                f"{database.name}: a {database.engine} can be written to, and not read from",
                hint="read from a sqlite, mysql or postgresql connection",
                place=database.place,
            )
