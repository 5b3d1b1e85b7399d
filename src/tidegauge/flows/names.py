"""Names of tables: which table a flow's name stands for, and which tables a pattern means."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tidegauge.model.default_schema import default_schema
from tidegauge.model.spec import Database, Engine, Stage, Sync, TableName

_PATTERN = frozenset("*?[")


def is_pattern(text: str) -> bool:
    return bool(_PATTERN & set(text))


def matches(table: TableName, pattern: str, database: Database) -> bool:
    """By the full name; a pattern without a schema means the connection's own."""
    name = str(table)
    if name == pattern or fnmatchcase(name, pattern):
        return True
    return table.schema == default_schema(database) and (
        table.table == pattern or fnmatchcase(table.table, pattern)
    )


def means(sync: Sync, table: TableName) -> bool:
    """Whether the sync would read the table, if it is there."""
    return any(matches(table, pattern, sync.source) for pattern in sync.tables) and not any(
        matches(table, pattern, sync.source) for pattern in sync.exclude
    )


def table_named(database: Database, name: str) -> TableName:
    """The table of a flow, or one that is named in the file."""
    name = name.removesuffix(f"/{Stage.EXTRACT}").removesuffix(f"/{Stage.LOAD}")
    if database.engine is Engine.SQLITE:
        return TableName(None, name)
    schema, dot, table = name.partition(".")
    return TableName(schema, table) if dot else TableName(default_schema(database), name)


def first_flow(sync: Sync, table: TableName) -> str:
    """The flow of a table that reads the database itself."""
    return f"{table}/{Stage.EXTRACT}" if sync.via and isinstance(sync.to, Database) else str(table)
