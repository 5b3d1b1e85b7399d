"""Whether two connections reach the same database, judged by their settings: no server is asked."""

from __future__ import annotations

import os

from tidegauge.model.engines import FACTS, SchemaOf
from tidegauge.model.spec import Database, TableName


def share_a_transaction(source: Database, target: Database) -> bool:
    """Whether one statement of a session of `target` can read the tables of `source`."""
    if source.engine is not target.engine or _find_server(source) != _find_server(target):
        return False
    return FACTS[source.engine].spans_databases or _find_database(source) == _find_database(target)


def are_one(source: Database, target: Database) -> bool:
    """Whether a table's name means the same table in both."""
    return share_a_transaction(source, target) and _find_database(source) == _find_database(target)


def is_one_table(source: Database, table: TableName, target: Database, other: TableName) -> bool:
    """Whether both names mean the same table, for connections that share a transaction."""
    if FACTS[source.engine].schema_of is SchemaOf.SCHEMA and not are_one(source, target):
        return False
    if source.path is not None:  # in engines that store files, names ignore case
        return str(table).lower() == str(other).lower()
    return table == other


def show_address(database: Database) -> str:
    """Return the connection's address, for messages."""
    server = database.account or (str(database.path) if database.path else _find_server(database)[0])
    named = "" if database.path else f"/{_find_database(database) or ''}"
    return f"{FACTS[database.engine].title} {server}{named}".rstrip("/")


def _find_server(database: Database) -> tuple[str, ...]:
    if database.path is not None:
        return (os.path.realpath(database.path),)
    if database.account is not None:
        return (database.account.upper(), database.options.get("host", ""), database.options.get("port", ""))
    return (f"{database.host.lower()}:{database.port or FACTS[database.engine].port}",)


def _find_database(database: Database) -> str | None:
    facts = FACTS[database.engine]
    named_like_user = facts.port and facts.schema_of is SchemaOf.SCHEMA
    return database.database or (database.user if named_like_user else None)
