"""Which engine a database needs; its library is imported when it is first used."""

from __future__ import annotations

from tidegauge.model.spec import Database, Engine
from tidegauge.write.warehouse.engine import Warehouse


def open_warehouse(database: Database) -> Warehouse:
    match database.engine:
        case Engine.DUCKDB:
            from tidegauge.write.warehouse.duckdb import DuckDB

            return DuckDB(database)
        case Engine.SQLITE:
            from tidegauge.write.warehouse.sqlite import SQLite

            return SQLite(database)
        case Engine.POSTGRESQL:
            from tidegauge.write.warehouse.postgresql import PostgreSQL

            return PostgreSQL(database)
        case Engine.MYSQL:
            from tidegauge.write.warehouse.mysql import MySQL

            return MySQL(database)
        case Engine.REDSHIFT:
            from tidegauge.write.warehouse.redshift import Redshift

            return Redshift(database)
        case Engine.SNOWFLAKE:
            from tidegauge.write.warehouse.snowflake import Snowflake

            return Snowflake(database)
