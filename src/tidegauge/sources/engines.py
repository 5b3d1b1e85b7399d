"""The kinds of database that can be read. A new one is a folder beside this file and a name in `ENGINES`."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.errors import ConfigError
from tidegauge.model.engines import Engine, name_readable
from tidegauge.model.spec import Database
from tidegauge.sources.duckdb.engine import DUCKDB
from tidegauge.sources.engine import SourceEngine
from tidegauge.sources.mysql.engine import MYSQL
from tidegauge.sources.postgresql.engine import POSTGRESQL
from tidegauge.sources.snowflake.engine import SNOWFLAKE
from tidegauge.sources.sqlite.engine import SQLITE

ENGINES: Mapping[Engine, SourceEngine] = {
    one.engine: one for one in (MYSQL, POSTGRESQL, SQLITE, DUCKDB, SNOWFLAKE)
}


def find_engine(database: Database) -> SourceEngine:
    """The engine of a connection. Raises ConfigError for a kind that can only be written to."""
    found = ENGINES.get(database.engine)
    if found is None:
        raise ConfigError(
            f"{database.name}: a {database.engine} can be written to, and not read from",
            hint=f"read from a {' or '.join(name_readable())} connection",
            place=database.place,
        )
    return found
