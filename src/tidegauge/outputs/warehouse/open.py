"""Which engine a database needs; its library is imported when it is first used."""

from __future__ import annotations

from tidegauge.model.spec import Database, Engine
from tidegauge.outputs.warehouse.warehouse import Warehouse


def open_warehouse(database: Database) -> Warehouse:
    match database.engine:
        case Engine.DUCKDB:
            from tidegauge.outputs.warehouse.duckdb.warehouse import DuckDB

            return DuckDB(database)
        case Engine.SQLITE:
            from tidegauge.outputs.warehouse.sqlite.warehouse import SQLite

            return SQLite(database)
        case Engine.POSTGRESQL:
            from tidegauge.outputs.warehouse.postgresql.warehouse import PostgreSQL

            return PostgreSQL(database)
        case Engine.MYSQL:
            from tidegauge.outputs.warehouse.mysql.warehouse import MySQL

            return MySQL(database)
        case Engine.REDSHIFT:
            from tidegauge.outputs.warehouse.redshift.warehouse import Redshift

            return Redshift(database)
        case Engine.SNOWFLAKE:
            from tidegauge.outputs.warehouse.snowflake.warehouse import Snowflake

            return Snowflake(database)
