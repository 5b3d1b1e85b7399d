"""The warehouses that there are. A new one is a folder beside this file, and a line in this table."""

from __future__ import annotations

from importlib import import_module

from tidegauge.errors import ConfigError
from tidegauge.model.spec import Database, Engine
from tidegauge.outputs.warehouse.warehouse import Warehouse

WAREHOUSES = {
    Engine.DUCKDB: ("duckdb", "DuckDB"),
    Engine.SQLITE: ("sqlite", "SQLite"),
    Engine.POSTGRESQL: ("postgresql", "PostgreSQL"),
    Engine.MYSQL: ("mysql", "MySQL"),
    Engine.REDSHIFT: ("redshift", "Redshift"),
    Engine.SNOWFLAKE: ("snowflake", "Snowflake"),
}
"""The folder of each engine and the class in its `warehouse.py`, imported with its driver on first use."""


def open_warehouse(database: Database) -> Warehouse:
    """The warehouse of a connection. Raises ConfigError for a kind that can only be read from."""
    if database.engine not in WAREHOUSES:
        raise ConfigError(
            f"{database.name}: a {database.engine} can be read from, and not written to",
            hint=f"write to a {', '.join(list(WAREHOUSES)[:-1])} or {list(WAREHOUSES)[-1]} connection",
            place=database.place,
        )
    folder, name = WAREHOUSES[database.engine]
    made = getattr(import_module(f"tidegauge.outputs.warehouse.{folder}.warehouse"), name)(database)
    assert isinstance(made, Warehouse)
    return made
