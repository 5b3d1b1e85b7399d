"""Knows which of Spark's functions are random, read the clock, or look at more than one row."""

from __future__ import annotations

from sqlglot import exp

from tidegauge.transform.clause import walk_own_nodes

CHANCE = frozenset(
    [
        "input_file_block_length",
        "input_file_block_start",
        "input_file_name",
        "java_method",
        "monotonically_increasing_id",
        "rand",
        "randn",
        "random",
        "randstr",
        "reflect",
        "shuffle",
        "spark_partition_id",
        "try_reflect",
        "uniform",
        "uuid",
    ]
)
"""Functions whose value for the same row may be another one each time."""
CLOCK = frozenset(
    [
        "curdate",
        "current_date",
        "current_time",
        "current_timestamp",
        "localtimestamp",
        "now",
        "unix_timestamp",
    ]
)
BARE_CLOCKS = frozenset(["current_date", "current_time", "current_timestamp", "localtimestamp"])
"""Those of CLOCK that are also written without parentheses, where no column has that name."""
CLOCK_NODES = (
    exp.CurrentDate,
    exp.CurrentDatetime,
    exp.CurrentTime,
    exp.CurrentTimestamp,
    exp.Localtimestamp,
)
"""What sqlglot makes of CLOCK."""
CLOCK_EXPRESSIONS = frozenset(["CurrentDate", "CurrentTime", "CurrentTimestamp", "LocalTimestamp", "Now"])
"""What CLOCK is in Spark's plans."""
_AGGREGATES = frozenset(
    [
        "count_min_sketch",
        "every",
        "histogram_numeric",
        "kll_merge_agg_bigint",
        "mean",
        "measure",
        "some",
        "std",
        "try_avg",
        "try_sum",
    ]
)
"""Aggregates that sqlglot does not know as such, besides all with `_agg` in their names."""
_WINDOWS = frozenset(["session_window", "window", "window_time"])
"""Time windows: they put one row under several keys, or make a column that the SELECT reads by their name."""


def find_aggregate(node: exp.Expr, *, known: bool = False) -> str | None:
    """The name of an aggregate in the node that is no window function; None: there is none. Any function with
    `_agg` in its name may be one, even a user's; `known`: only those count whose whole names are known."""
    for each in walk_own_nodes(node):
        if _is_known_aggregate(each) and not isinstance(each.parent, exp.Window):
            return each.sql_name() if isinstance(each, exp.Func) else each.key.upper()
        if isinstance(each, exp.Anonymous) and (
            each.name.lower() in _AGGREGATES or ("_agg" in each.name.lower() and not known)
        ):
            return each.name.upper()
    return None


def _is_known_aggregate(node: exp.Expr) -> bool:
    """Whether sqlglot knows the node as an aggregate; `ANY` and `ALL` after `LIKE` are none."""
    if isinstance(node, exp.Any | exp.All):
        return not (isinstance(node.parent, exp.Like | exp.ILike) and node.parent.expression is node)
    return isinstance(node, exp.AggFunc)


def find_window_function(node: exp.Expr) -> str | None:
    for each in walk_own_nodes(node):
        if isinstance(each, exp.Window):
            return f"window function {_find_function_name(each.this)}"
        if isinstance(each, exp.Anonymous) and each.name.lower() in _WINDOWS:
            return f"time windows by {each.name}"
    return None


def find_unknown_function(node: exp.Expr) -> str | None:
    """The name of a function that sqlglot does not know, which may be an aggregate; None: there is none."""
    return next((each.name for each in walk_own_nodes(node) if isinstance(each, exp.Anonymous)), None)


def bare_column(node: exp.Expr) -> bool:
    """Whether the node reads a column or a star outside of any function that could be an aggregate: Spark
    then refuses a query that has aggregates and no GROUP BY."""
    return any(
        isinstance(each, exp.Column | exp.Star) and not _inside_aggregate(each, node)
        for each in walk_own_nodes(node)
    )


def _inside_aggregate(node: exp.Expr, top: exp.Expr) -> bool:
    while node is not top and node.parent is not None:
        node = node.parent
        if _is_known_aggregate(node) or isinstance(node, exp.Anonymous):
            return True
    return False


def _find_function_name(node: exp.Expr) -> str:
    while isinstance(node, exp.IgnoreNulls | exp.RespectNulls | exp.Filter | exp.WithinGroup):
        node = node.this
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
