"""One session of a Snowflake source, and what the connector's errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tidegauge.errors import SourceError, SourceUnreachable, TableMissing
from tidegauge.model.snowflake_login import import_connector, snowflake_login, snowflake_words
from tidegauge.model.spec import Database

_MISSING = ("42S02", "02000")


def connect(database: Database) -> Any:
    """A connection of Snowflake's connector, in UTC. Raises SourceUnreachable or RuntimeMissing."""
    connector = import_connector()
    wanted = snowflake_login(database)
    wanted["session_parameters"] = {
        **wanted["session_parameters"],
        "PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "ARROW",
    }
    try:
        return connector.connect(**wanted)
    except Exception as error:
        refused = isinstance(error, connector.errors.DatabaseError) and not isinstance(
            error, connector.errors.OperationalError
        )
        raise SourceUnreachable(
            f"{database.name}: Snowflake, account {database.account}, cannot be reached:"
            f" {snowflake_words(error)}",
            hint="check account, user, password, role and warehouse of the connection",
            retryable=not refused,
        ) from None


@contextmanager
def connected(database: Database) -> Iterator[Any]:
    connection = connect(database)
    try:
        yield connection
    finally:
        close(connection)


def close(connection: Any) -> None:
    with suppress(Exception):
        connection.close()


def translate(database: Database, error: Exception) -> SourceError:
    errors = import_connector().errors
    state = str(getattr(error, "sqlstate", "") or "")
    if state in _MISSING:
        return TableMissing(
            f"{database.name}: {snowflake_words(error)}",
            hint="check the table's name and that the role may SELECT it",
        )
    if isinstance(error, errors.OperationalError | errors.InterfaceError) or state.startswith("08"):
        return SourceUnreachable(
            f"{database.name}: the connection to Snowflake was lost: {snowflake_words(error)}",
            hint="run again: the same window is read once more",
        )
    return SourceError(f"{database.name}: {snowflake_words(error)}")
