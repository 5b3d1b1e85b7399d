"""Whether two connections reach one database: as far as they say so themselves, no server is asked."""

from __future__ import annotations

import os

from tidegauge.model.engines import FACTS, SchemaOf
from tidegauge.model.spec import Database, TableName


def share_a_transaction(source: Database, target: Database) -> bool:
    """Whether one statement of a session of `target` can read the tables of `source`."""
    if source.engine is not target.engine or _server(source) != _server(target):
        return False
    return FACTS[source.engine].spans_databases or _database(source) == _database(target)


def are_one(source: Database, target: Database) -> bool:
    """Whether a table's name means the same table in both."""
    return share_a_transaction(source, target) and _database(source) == _database(target)


def is_one_table(source: Database, table: TableName, target: Database, other: TableName) -> bool:
    """Of connections that share a transaction."""
    if FACTS[source.engine].schema_of is SchemaOf.SCHEMA and not are_one(source, target):
        return False
    if source.path is not None:  # no engine of files tells names apart by case
        return str(table).lower() == str(other).lower()
    return table == other


def show_address(database: Database) -> str:
    """For a message: what the connection says of where it is."""
    server = database.account or (str(database.path) if database.path else _server(database)[0])
    named = "" if database.path else f"/{_database(database) or ''}"
    return f"{FACTS[database.engine].title} {server}{named}".rstrip("/")


def _server(database: Database) -> tuple[str, ...]:
    if database.path is not None:
        return (os.path.realpath(database.path),)
    if database.account is not None:
        return (database.account.upper(), database.options.get("host", ""), database.options.get("port", ""))
    return (f"{database.host.lower()}:{database.port or FACTS[database.engine].port}",)


def _database(database: Database) -> str | None:
    facts = FACTS[database.engine]
    named_like_user = facts.port and facts.schema_of is SchemaOf.SCHEMA
    return database.database or (database.user if named_like_user else None)
