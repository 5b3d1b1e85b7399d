"""Checks what a predicate on the rows of a sync may say. DuckDB, which will evaluate it, also parses it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from tidegauge.errors import ExpectationFailed
from tidegauge.model.expectation import Expectation

if TYPE_CHECKING:
    import duckdb

_CLOCKS = frozenset(
    {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
    | {"current_localtime", "current_localtimestamp", "now", "today", "get_current_time"}
    | {"get_current_timestamp", "transaction_timestamp"}
)
"""Names of clock functions: some need no brackets, and some are constant by DuckDB's own catalogue."""


def find_fault(
    connection: duckdb.DuckDBPyConnection, one: Expectation, sql: str, columns: Collection[str]
) -> ExpectationFailed | None:
    """The error for a predicate that cannot be parsed, or that one row alone does not decide; None: no fault
    was found."""
    ((text,),) = connection.execute(
        "SELECT json_serialize_sql(?)", [f"SELECT 1 WHERE (\n{sql}\n)"]
    ).fetchall()
    tree = json.loads(text)
    if tree.get("error"):
        return ExpectationFailed(
            f"`{one.name}` cannot be read as a predicate: {tree.get('error_message')}",
            hint="write a condition on the columns of one row, in DuckDB's SQL; a check on a column is"
            " `COLUMN: not_null`, `unique`, `{accepted: […]}`, `{range: {…}}` or `{matches: …}`",
            place=one.place,
        )
    why = next((why for node in _walk(tree) if (why := _refuse(connection, node, columns))), None)
    if why is None:
        return None
    return ExpectationFailed(
        f"`{one.name}` {why}, and a predicate must be decided by one row alone",
        hint="compute it in a view at the source; `foreign_key`, `fresh`, `unique` and `row_count` look"
        " further",
        place=one.place,
    )


def _refuse(
    connection: duckdb.DuckDBPyConnection, node: dict[str, Any], columns: Collection[str]
) -> str | None:
    match node.get("class"):
        case "SUBQUERY":
            return "reads another table"
        case "WINDOW":
            return "looks at several rows"
        case "COLUMN_REF":
            name = str(node["column_names"][-1]).casefold()
            known = {column.casefold() for column in columns}
            return f"reads the clock: {name}" if name in _CLOCKS - known else None
        case "FUNCTION":
            return _refuse_function(connection, str(node["function_name"]).casefold(), node)
        case _:
            return None


def _refuse_function(connection: duckdb.DuckDBPyConnection, name: str, node: dict[str, Any]) -> str | None:
    found = connection.execute(
        "SELECT DISTINCT function_type, stability FROM duckdb_functions() WHERE function_name = ?", [name]
    ).fetchall()
    if name in _CLOCKS or (name == "age" and len(node.get("arguments", node.get("children", ()))) == 1):
        return f"reads the clock: {name}()"
    if found and all(kind == "aggregate" for kind, _ in found):
        return "looks at several rows"
    if any(stability not in (None, "CONSISTENT") for _, stability in found):
        return f"gives another value in each run: {name}()"
    return None


def _walk(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for part in tree.values():
            yield from _walk(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from _walk(part)
