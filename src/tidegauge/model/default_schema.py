"""The schema of a table that is named without one."""

from __future__ import annotations

from tidegauge.model.spec import Database, Engine


def default_schema(database: Database) -> str | None:
    """As the connection says, or else as its engine does. None where there are no schemas."""
    match database.engine:
        case Engine.SQLITE:
            return None
        case Engine.MYSQL:
            return database.database
        case Engine.POSTGRESQL | Engine.REDSHIFT:
            return database.schema or "public"
        case Engine.DUCKDB:
            return database.schema or "main"
        case Engine.SNOWFLAKE:
            return database.schema or "PUBLIC"
