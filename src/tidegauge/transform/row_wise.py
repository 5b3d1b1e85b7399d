"""Checks that a query is row-wise: over two sets of rows together it gives what it gives over each one."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from tidegauge.transform.clause import NotIncremental, refuse_other_clauses, walk_own_nodes
from tidegauge.transform.parse import RECURSIVE
from tidegauge.transform.spark_functions import (
    bare_column,
    find_aggregate,
    find_unknown_function,
    find_window_function,
)

_SELECT = (
    "expressions",
    "from_",
    "joins",
    "where",
    "order",
    "laterals",
    "hint",
    "sort",
    "cluster",
    "distribute",
)


def check_row_wise(query: exp.Expr, incremental: Collection[str]) -> None:
    """Raises NotIncremental unless the query reads exactly one table of `incremental`, once, and row by row.

    Its other tables do not change, so any query over them may be joined or used in an expression.
    """
    if query.meta.get(RECURSIVE):
        raise NotIncremental("a CTE that is recursive, or names its columns")
    if (twice := _read_twice(query, incremental)) is not None:
        raise NotIncremental(twice)
    _check(query, incremental)


def _read_twice(query: exp.Expr, incremental: Collection[str]) -> str | None:
    found = incremental_tables(query, incremental)
    if len(set(found)) > 1:
        return f"reads {len(set(found))} incremental inputs"
    return f"reads {found[0]} {len(found)} times" if len(found) > 1 else None


def incremental_tables(node: exp.Expr, incremental: Collection[str]) -> list[str]:
    """The incremental inputs that the node reads, once for each time that it reads them."""
    names = {name.lower(): name for name in incremental}
    return [
        names[table.name.lower()]
        for table in node.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and table.name.lower() in names
    ]


def _subquery_over(node: exp.Expr, incremental: Collection[str]) -> str | None:
    """A incremental input that a subquery inside an expression reads."""
    for each in walk_own_nodes(node):
        if isinstance(each, exp.Query) and (found := incremental_tables(each, incremental)):
            return found[0]
    return None


def _expressions_of(select: exp.Select) -> list[exp.Expr]:
    """Everything a SELECT computes, without its FROM."""
    found = list(select.expressions)
    for name in ("where", "having", "group", "order", "qualify", "sort", "cluster", "distribute"):
        if part := select.args.get(name):
            found.append(part)
    for join in select.args.get("joins") or ():
        found += [part for part in (join.args.get("on"),) if part]
    return found + list(select.args.get("laterals") or ())


def refuse_beyond_rows(select: exp.Select, incremental: Collection[str]) -> None:
    """Raises NotIncremental for a window function, or a subquery over incremental inputs in an expression."""
    for each in _expressions_of(select):
        if isinstance(each, exp.QueryTransform):
            raise NotIncremental("TRANSFORM by a script")
        if why := find_window_function(each):
            raise NotIncremental(why)
        if name := _subquery_over(each, incremental):
            raise NotIncremental(f"a subquery over {name} in an expression")


def refuse_hidden_total(select: exp.Select) -> None:
    """Raises NotIncremental if the SELECT has, or may have, aggregates without GROUP BY: one row over all."""
    for each in select.expressions:
        if name := find_aggregate(each):
            raise NotIncremental(f"{name} without GROUP BY")
    doubtful = next((name for each in select.expressions if (name := find_unknown_function(each))), None)
    if doubtful and not any(bare_column(each) for each in select.expressions):
        raise NotIncremental(f"{doubtful} may be an aggregate")


def _check(query: exp.Expr, incremental: Collection[str]) -> None:
    if isinstance(query, exp.Subquery):
        refuse_other_clauses(query, "this", "alias", "order")
        return _check(query.this, incremental)
    if not isinstance(query, exp.Select):
        raise NotIncremental(_name_set_operation(query))
    for name, why in (("group", "GROUP BY"), ("having", "HAVING"), ("distinct", "DISTINCT")):
        if query.args.get(name):
            raise NotIncremental(why)
    refuse_other_clauses(query, *_SELECT)
    refuse_beyond_rows(query, incremental)
    refuse_hidden_total(query)
    if not query.args.get("from_"):
        raise NotIncremental("a SELECT without FROM")
    preserved = True
    found = _check_moving(query.args["from_"].this, incremental)
    for join in query.args.get("joins") or ():
        refuse_other_clauses(join, "this", "side", "kind", "on", "using", "method")
        if isinstance(join.this, exp.Lateral):
            raise NotIncremental("LATERAL JOIN")
        if _check_moving(join.this, incremental):
            found = True
            preserved = (join.side == "RIGHT" or not join.side) and join.kind in (
                "",
                "INNER",
                "CROSS",
                "OUTER",
            )
        elif found and join.side in ("RIGHT", "FULL"):
            preserved = False
    if not preserved:
        raise NotIncremental("an outer join that does not keep every row of the incremental input")
    return None


def _check_moving(node: exp.Expr, incremental: Collection[str]) -> bool:
    if not incremental_tables(node, incremental):
        return False
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
        _check(node, incremental)
    elif isinstance(node, exp.Table):
        refuse_other_clauses(node, "this", "alias")
    else:
        raise NotIncremental("a parenthesis in FROM")
    return True


def _name_set_operation(query: exp.Expr) -> str:
    if isinstance(query, exp.Union):
        return "UNION" if query.args.get("distinct") else "UNION ALL"
    return query.key.upper()
