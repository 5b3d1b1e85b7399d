"""Reads Spark's plan of a frame, down to the views of the inputs. Over Spark Connect there is no plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidegauge.transform.spark_functions import CLOCK, CLOCK_EXPRESSIONS
from tidegauge.transform.views import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MANY_FIELDS = 100_000
_TIMES = re.compile(rf"\b(?:{'|'.join(sorted(CLOCK))})\(")
_IDS = re.compile(r"#\d+L?|" + PREFIX + r"\d+")


def has_plan(frame: DataFrame) -> bool:
    """Whether there is a plan to read; over Spark Connect there is none."""
    return hasattr(frame, "_jdf")


def analyzed_plan(frame: DataFrame) -> Any:
    """The analyzed plan of a frame, as Java's own object."""
    return frame._jdf.queryExecution().analyzed()


def find_random(frame: DataFrame) -> str | None:
    """A function in the plan that gives something else each time, such as `rand`; None: there is none."""
    plan = analyzed_plan(frame)
    return None if plan.deterministic() else next(_find_random(plan), None)


def find_clock(frame: DataFrame) -> str | None:
    """A function in the plan that gives the time, such as `current_date`; None: there is none."""
    plan = analyzed_plan(frame)
    return next(_find_clocks(plan), None) if _TIMES.search(_draw_tree(plan)) else None


def show_plan(frame: DataFrame) -> str:
    """The plan as text, down to the inputs' views, without ids that differ from call to call."""
    lines: list[str] = []
    depth = None
    for line in _draw_tree(analyzed_plan(frame)).splitlines():
        indent = len(line) - len(line.lstrip(" :+-"))
        if depth is not None and indent > depth:
            continue
        lines.append(_IDS.sub("", line))
        depth = indent if line.lstrip(" :+-").startswith(f"SubqueryAlias {PREFIX}") else None
    return "\n".join(lines)


def is_same_plan(one: DataFrame, other: DataFrame) -> bool:
    """Whether two frames of the same call over the same inputs compute the same."""
    # A frame that the function creates from its own rows never has the same semantics: then the text decides.
    return one.sameSemantics(other) or show_plan(one) == show_plan(other)


def find_origins(frame: DataFrame, *, inputs: Mapping[str, str], incremental: str) -> dict[str, str]:
    """The result columns that are unchanged columns of the incremental input: for each casefolded name, the
    name of the input's column."""
    plan = analyzed_plan(frame)
    there: dict[int, str] = {}
    for view in _find_views(plan, inputs):
        if inputs[view.alias()] == incremental:
            there |= {id_of(one): one.name() for one in each(view.output())}
    return {one.name().casefold(): there[id_of(one)] for one in each(plan.output()) if id_of(one) in there}


def each(sequence: Any) -> Iterator[Any]:
    for at in range(sequence.size()):
        yield sequence.apply(at)


def id_of(attribute: Any) -> int:
    return int(attribute.exprId().id())


def ids_of(attributes: Any) -> frozenset[int]:
    return frozenset(id_of(one) for one in each(attributes))


def _find_views(plan: Any, inputs: Mapping[str, str]) -> Iterator[Any]:
    if plan.nodeName() == "SubqueryAlias" and plan.alias() in inputs:
        yield plan
        return
    for child in each(plan.children()):
        yield from _find_views(child, inputs)


def _find_random(plan: Any) -> Iterator[str]:
    if plan.nodeName() == "SubqueryAlias" and plan.alias().startswith(PREFIX):
        return
    for expression in each(plan.expressions()):
        yield from _find_random_in(expression)
    for below in (*each(plan.children()), *each(plan.subqueries())):
        yield from _find_random(below)


def _draw_tree(plan: Any) -> str:
    return str(plan.treeString(False, False, _MANY_FIELDS, False, False))


def _find_clocks(plan: Any) -> Iterator[str]:
    if plan.nodeName() == "SubqueryAlias" and plan.alias().startswith(PREFIX):
        return
    for expression in each(plan.expressions()):
        yield from _find_clocks_in(expression)
    for below in (*each(plan.children()), *each(plan.subqueries())):
        yield from _find_clocks(below)


def _find_clocks_in(expression: Any) -> Iterator[str]:
    if expression.nodeName() in CLOCK_EXPRESSIONS:
        yield f"{expression.prettyName()}()"
    for below in each(expression.children()):
        yield from _find_clocks_in(below)


def _find_random_in(expression: Any) -> Iterator[str]:
    below = [one for one in each(expression.children()) if not one.deterministic()]
    for one in below:
        yield from _find_random_in(one)
    if not below and not expression.deterministic():
        # A Python UDF has the name that the user gave it.
        mine = expression.nodeName() == "PythonUDF"
        yield f"{expression.name() if mine else expression.prettyName()}()"
