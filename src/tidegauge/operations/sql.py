"""`tidegauge sql`: queries any ledger in SQL, whatever its store. Only reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegauge.errors import ConfigError
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.views import TABLES, VIEWS, open_views
from tidegauge.model.spec import Project
from tidegauge.model.sql_error import describe_sql_error


@dataclass(frozen=True)
class QueryResult:
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def ask_ledger(project: Project, statement: str) -> QueryResult:
    """Run a query over the ledger's tables and views. Raises ConfigError if it is no query, or fails."""
    import duckdb

    names = _find_tables(statement)
    with open_ledger(project.ledger, create=False) as ledger, open_views(ledger, names) as connection:
        try:
            found = connection.execute(statement)
            return QueryResult(tuple(part[0] for part in found.description or ()), tuple(found.fetchall()))
        except duckdb.Error as error:
            said = str(error).strip().splitlines()[0]
            raise ConfigError(f"the ledger cannot be asked this: {said}", hint=_offer()) from error


def list_columns(project: Project) -> QueryResult:
    """List every table and view that can be queried, with its columns."""
    described = "SELECT table_name, string_agg(column_name, ', ' ORDER BY ordinal_position)" + (
        " FROM information_schema.columns GROUP BY table_name ORDER BY table_name"
    )
    with open_ledger(project.ledger, create=False) as ledger, open_views(ledger, ()) as connection:
        return QueryResult(("table", "columns"), tuple(connection.execute(described).fetchall()))


def _find_tables(statement: str) -> frozenset[str]:
    """Return the tables that a query names, in lower case."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = [one for one in sqlglot.parse(statement, read="duckdb") if one is not None]
    except SqlglotError as error:
        raise ConfigError(
            f"the query cannot be read: {describe_sql_error(error)}", hint="it is DuckDB's SQL"
        ) from error
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
        raise ConfigError(
            "only one query is taken, and a ledger is only read", hint="begin with SELECT or WITH"
        )
    return frozenset(table.name.lower() for table in parsed[0].find_all(exp.Table))


def _offer() -> str:
    return f"it has {', '.join((*TABLES, *VIEWS))}; `tidegauge sql` alone lists their columns"
