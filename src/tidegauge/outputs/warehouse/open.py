"""The warehouses that there are. A new one is a folder beside this file, and a line in this table."""

from __future__ import annotations

from importlib import import_module

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
    folder, name = WAREHOUSES[database.engine]
    made = getattr(import_module(f"tidegauge.outputs.warehouse.{folder}.warehouse"), name)(database)
    assert isinstance(made, Warehouse)
    return made
