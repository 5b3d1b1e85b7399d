"""Checks what a predicate of `expect:` may say, and that the columns of other checks exist. No Spark."""

from __future__ import annotations

from collections.abc import Collection

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from tidegauge.errors import ExpectationFailed
from tidegauge.model.delta_flow import DeltaFlow, Sql
from tidegauge.model.expectation import Expectation, Predicate
from tidegauge.transform.check_columns import find_outputs
from tidegauge.transform.nondeterminism import find_clock_in, find_random_in
from tidegauge.transform.parse import DIALECT, is_readable
from tidegauge.transform.scope import Columns
from tidegauge.transform.spark_functions import find_aggregate


def check_expectations(flow: DeltaFlow, inputs: Columns) -> None:
    """Raises ExpectationFailed, with the place, for a check that does not fit the flow's rows. `inputs` has
    the columns of each known input."""
    columns = _find_result_columns(flow, inputs) if flow.expect else None
    for one in flow.expect:
        if isinstance(one.rule, Predicate):
            _check_predicate(one, one.rule.sql, columns)
        elif columns is not None:
            for name in one.columns:
                find_column(one, name, columns)


def _find_result_columns(flow: DeltaFlow, inputs: Columns) -> Collection[str] | None:
    """The columns that the rows will have; None where only Spark knows them."""
    if any(part.name not in inputs for part in flow.read):
        return None
    match flow.transform:
        case None:
            return tuple(inputs[flow.input])
        case Sql(text) if is_readable(text):
            return find_outputs(text, {part.name: inputs[part.name] for part in flow.read})
        case _:
            return None


def find_column(expectation: Expectation, name: str, columns: Collection[str]) -> tuple[str, ...]:
    """The column as the rows spell it; for a field inside a struct, the path to it. Raises ExpectationFailed
    where the rows have no such column."""
    spelled = {column.casefold(): column for column in columns}
    if name.casefold() in spelled:
        return (spelled[name.casefold()],)
    first, *rest = name.split(".")
    if rest and first.casefold() in spelled:
        return (spelled[first.casefold()], *rest)
    raise ExpectationFailed(
        f"`{expectation.name}` is expected, and the rows have no column {name}",
        hint=f"they have {', '.join(sorted(columns))}",
        place=expectation.place,
    )


def _check_predicate(one: Expectation, text: str, columns: Collection[str] | None) -> None:
    try:
        found = sqlglot.parse_one(f"SELECT 1 WHERE (\n{text}\n)", dialect=DIALECT)
    except (ParseError, TokenError) as error:
        first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        near = f" near {first['highlight']}" if first.get("highlight") else ""
        raise ExpectationFailed(
            f"`{one.name}` cannot be read as a predicate{near}",
            hint="write a condition on the columns of one row, in Spark's SQL; a check on a column is"
            " `COLUMN: not_null`, `unique`, `{accepted: […]}`, `{range: {…}}` or `{matches: …}`",
            place=one.place,
        ) from error
    condition = found.args["where"].this if found.args.get("where") else found
    why = _find_fault(condition, text, columns or ())
    if why is None and columns is not None and not condition.find(exp.Lambda):
        for column in condition.find_all(exp.Column):
            find_column(one, column.parts[0].name, columns)
    if why is not None:
        raise ExpectationFailed(
            f"`{one.name}` {why}, and a predicate must be decided by one row alone",
            hint="let the transform compute it as a column; `foreign_key`, `fresh`, `unique` and `row_count`"
            " look further",
            place=one.place,
        )


def _find_fault(condition: exp.Expr, text: str, columns: Collection[str]) -> str | None:
    """What keeps a condition from being told by one row alone, as part of a sentence."""
    if condition.find(exp.Query):
        return "reads another table"
    if condition.find(exp.Window) or find_aggregate(condition, known=True):
        return "looks at several rows"
    if (random := find_random_in(text)) is not None:
        return f"gives another value in each run: {random}()"
    if (clock := find_clock_in(condition, columns)) is not None:
        return f"reads the clock: {clock}"
    return None
