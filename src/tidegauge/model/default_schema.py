"""The default schema of a connection, and how a name is split into schema and table."""

from __future__ import annotations

from tidegauge.model.engines import FACTS, SchemaOf
from tidegauge.model.spec import Database, TableName


def default_schema(database: Database) -> str | None:
    """Return the schema of the connection, or else of its engine. None if the engine has no schemas."""
    facts = FACTS[database.engine]
    match facts.schema_of:
        case SchemaOf.NOWHERE:
            return None
        case SchemaOf.DATABASE:
            return database.database
        case SchemaOf.SCHEMA:
            return database.schema or facts.default_schema


def split_name(database: Database, name: str) -> TableName:
    """Split `schema.table`, or a table alone. Without schemas, a dot is part of the table's name."""
    schema, dot, table = name.partition(".")
    if not dot or FACTS[database.engine].schema_of is SchemaOf.NOWHERE:
        return TableName(None, name)
    return TableName(schema, table)
