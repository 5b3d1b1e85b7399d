"""Finds columns that a transform's SQL reads and its inputs do not have. No Spark.

Only what is certain is an error: a table that is not understood here (a generator, a pivot, an input whose
columns are not known) may have any column, and is left to Spark.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp

from tidegauge.errors import UnknownColumn
from tidegauge.transform.parse import parse, place_in
from tidegauge.transform.scope import Columns, makes_columns, output_name
from tidegauge.transform.spark_functions import BARE_CLOCKS

_Names = frozenset[str] | None
"""The column names of a table, in lower case; None: it may have any column."""
_Tables = Mapping[str, _Names]
"""The columns of each table, by its alias in lower case."""

_SPARKS_OWN = {"window", "session_window", "user", *BARE_CLOCKS}
"""Names that Spark resolves although no table has such a column."""
_HIDDEN = "_metadata"


def check_columns(
    text: str, *, inputs: Sequence[str], columns: Columns, place: Path | None = None
) -> tuple[str, ...]:
    """Check the columns that the SQL reads, and return the inputs that it does not read. Raises
    UnknownColumn, with the place in the text.

    `columns` are those of the inputs whose columns are known. The SQL must be readable (`parse.is_readable`).
    """
    known = {name.lower(): frozenset(map(str.lower, found)) for name, found in columns.items()}
    query = parse(text, place)
    _ColumnCheck(text, place, known).read_query(query, {}, ())
    read = {table.name.lower() for table in query.find_all(exp.Table)}
    return tuple(name for name in inputs if name.lower() not in read)


def find_outputs(text: str, columns: Columns) -> frozenset[str] | None:
    """The names of the columns that readable SQL returns, in lower case; None where that is not certain.

    `columns` are those of all inputs.
    """
    known = {name.lower(): frozenset(map(str.lower, found)) for name, found in columns.items()}
    try:
        return _ColumnCheck(text, None, known).read_query(parse(text), {}, ())
    except UnknownColumn:
        return None  # `check_columns` reports this, with the place


@dataclass(frozen=True)
class _ColumnCheck:
    text: str
    place: Path | None
    inputs: Mapping[str, frozenset[str]]

    def read_query(self, query: exp.Expr, ctes: _Tables, outer: Sequence[_Tables]) -> _Names:
        """Check the columns that the query reads, and return the names of its own.

        `outer` are the tables of the queries around it, which a subquery may read too.
        """
        query = query.unnest()
        if part := query.args.get("with_"):
            for cte in part.expressions:
                name, recursive = cte.alias.lower(), bool(part.args.get("recursive"))
                inside = {**ctes, name: None} if recursive else ctes
                found = self.read_query(cte.this, inside, outer)
                ctes = {**ctes, name: _apply_column_list(cte, None if recursive else found)}
        if isinstance(query, exp.SetOperation):
            found = self.read_query(query.this, ctes, outer)
            self.read_query(query.expression, ctes, outer)
            return None if query.args.get("by_name") else found
        return self._read_select(query, ctes, outer) if isinstance(query, exp.Select) else None

    def _read_select(self, select: exp.Select, ctes: _Tables, outer: Sequence[_Tables]) -> _Names:
        tables: dict[str, _Names] = {}
        for number, node in enumerate(_tables_of(select)):
            alias = node.alias_or_name.lower() or f"__tidegauge_part_{number}"
            # Spark itself reports a name that stands twice.
            tables[alias] = None if alias in tables else self._read_table(node, ctes, outer)
        seen = (tables, *outer)
        aliases = {name for each in select.expressions for name in _aliases(each)}
        for node in _own(select):
            if isinstance(node, exp.Query):
                self.read_query(node, ctes, seen)
            elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                self._check(node, seen, aliases)
        return _outputs(select, tables)

    def _read_table(self, node: exp.Expr, ctes: _Tables, outer: Sequence[_Tables]) -> _Names:
        found: _Names = None
        if isinstance(node, exp.Subquery):
            found = self.read_query(node.this, ctes, outer)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.db:
            name = node.name.lower()
            found = ctes[name] if name in ctes else self.inputs.get(name)
        return None if node.args.get("pivots") else _apply_column_list(node, found)

    def _check(self, column: exp.Column, seen: Sequence[_Tables], aliases: set[str]) -> None:
        """Raises UnknownColumn for a column that no table in `seen` has. `aliases` are those of the same
        SELECT, which Spark lets its other parts read."""
        first, *rest = column.parts
        name = first.name.lower()
        if name in aliases or name in _SPARKS_OWN or name.startswith(_HIDDEN):
            return
        if name in _all_columns(seen):  # also a struct that has the name of a table
            return
        of = next((tables[name] for tables in seen if name in tables), None)
        if rest and of is not None:
            self._check_named(rest[0], first.name, of)
        elif not any(name in tables or None in tables.values() for tables in seen):
            self._refuse(first, f"none of the tables here has a column {first.name}", _all_columns(seen))

    def _check_named(self, column: exp.Expr, table: str, there: frozenset[str]) -> None:
        name = column.name.lower()
        if name not in there and not name.startswith(_HIDDEN):
            self._refuse(column, f"{table} has no column {column.name}", there)

    def _refuse(self, node: exp.Expr, what: str, there: frozenset[str]) -> None:
        near = difflib.get_close_matches(node.name.lower(), there, n=3, cutoff=0.5)
        shown = ", ".join(near or sorted(there)[:10])
        cause, place = place_in(f"the SQL cannot run: {what}", self.text, node.meta.get("start"), self.place)
        raise UnknownColumn(
            cause, hint=f"did you mean {shown}?" if near else f"there are: {shown}", place=place
        )


def _tables_of(select: exp.Select) -> Iterator[exp.Expr]:
    if start := select.args.get("from_"):
        yield start.this
    for join in select.args.get("joins") or ():
        yield join.this
    yield from select.args.get("laterals") or ()


def _own(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of the SELECT itself, without its tables and the inside of subqueries, CTEs and lambdas."""
    tables = {id(node) for node in _tables_of(select)}

    def is_apart(node: exp.Expr) -> bool:
        return node is not select and (
            id(node) in tables or isinstance(node, exp.Query | exp.Lambda | exp.With | exp.Column)
        )

    return (node for node in select.walk(prune=is_apart) if node is not select and id(node) not in tables)


def _all_columns(seen: Sequence[_Tables]) -> frozenset[str]:
    """All known column names of these tables."""
    return frozenset(each for tables in seen for names in tables.values() for each in names or ())


def _aliases(item: exp.Expr) -> list[str]:
    if isinstance(item, exp.Aliases):
        return [name.name.lower() for name in item.aliases]
    return [item.alias.lower()] if isinstance(item, exp.Alias) else []


def _apply_column_list(node: exp.Expr, names: _Names) -> _Names:
    """The column names of a table or CTE: those that `AS t(a, b)` gives, else `names`."""
    alias = node.args.get("alias")
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    return frozenset(column.name.lower() for column in columns) if columns else names


def _outputs(select: exp.Select, tables: _Tables) -> _Names:
    found: set[str] = set()
    for each in select.expressions:
        names = _expand_star(each, tables) if each.is_star else None
        name = None if each.is_star or makes_columns(each) else output_name(each)
        if names is None and name is None:
            return None  # only Spark knows the names
        found |= names or {str(name)}
    return frozenset(found)


def _expand_star(item: exp.Expr, tables: _Tables) -> _Names:
    star = item.this if isinstance(item, exp.Column) else item
    if any(part and key != "except_" for key, part in star.args.items()):
        return None
    parts = [tables.get(item.table.lower())] if isinstance(item, exp.Column) else list(tables.values())
    if (isinstance(item, exp.Column) and item.db) or not parts:
        return None
    found: set[str] = set()
    for names in parts:
        if names is None:
            return None
        found |= names
    return frozenset(found - {column.name.lower() for column in star.args.get("except_") or ()})
