"""Finds the input columns that each column of a transform's SQL is made from. No Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage
from sqlglot.optimizer.qualify import qualify

from tidegauge.transform.parse import DIALECT, is_readable, parse

Origins = tuple[tuple[str, str], ...]
"""Pairs of input and column, spelled as the inputs spell them."""


def find_column_lineage(text: str, columns: Mapping[str, Sequence[str]]) -> dict[str, Origins]:
    """The origins of each result column. A constant, or a column whose origins are not certain, is left out.

    `columns` are those of every input that the SQL reads; if those of one are missing, the result is empty.
    """
    if not is_readable(text):
        return {}
    query = parse(text)
    known = {name.lower(): {column.lower(): column for column in found} for name, found in columns.items()}
    inputs = {name.lower(): name for name in columns}
    read = _find_read(query)
    if not read or any(not known.get(name) for name in read):
        return {}
    found = _find_all(query, {name: dict.fromkeys(named, "string") for name, named in known.items()})
    return {
        name: tuple((inputs[table], known[table][column]) for table, column in origins)
        for name, origins in found.items()
        if origins and all(column in known.get(table, ()) for table, column in origins)
    }


def _find_read(query: exp.Query) -> set[str]:
    """The tables that the query reads, in lower case, without its own CTEs."""
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    return {table.name.lower() for table in query.find_all(exp.Table)} - own


def _find_all(query: exp.Query, schema: Mapping[str, Mapping[str, str]]) -> dict[str, Origins | None]:
    try:
        return {name: _find_origins(name, query, schema) for name in _find_output_names(query, schema)}
    except (SqlglotError, ValueError, KeyError, RecursionError):
        return {}


def _find_output_names(query: exp.Query, schema: Mapping[str, Mapping[str, str]]) -> list[str]:
    qualified = qualify(query.copy(), schema=dict(schema), dialect=DIALECT)
    assert isinstance(qualified, exp.Query)
    return [name for name in qualified.named_selects if name and name != "*"]


def _find_origins(
    name: str, query: exp.Query, schema: Mapping[str, Mapping[str, str]]
) -> tuple[tuple[str, str], ...] | None:
    """The origins of one result column, in lower case and sorted; None: one of them is not certain."""
    found: dict[tuple[str, str], None] = {}
    for node in lineage(name, query.copy(), schema=dict(schema), dialect=DIALECT).walk():
        if node.downstream:
            continue
        if not isinstance(node.expression, exp.Table):
            if isinstance(node.expression, exp.Placeholder) or node.expression.find(exp.Column):
                return None
            continue  # a constant
        found[node.expression.name.lower(), exp.to_column(node.name).name.lower()] = None
    return tuple(sorted(found))
