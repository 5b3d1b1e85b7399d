"""Check a flow's expectations on staged rows: count the marks that rows brought with them, and run the checks
that only the warehouse can. Raises ExpectationFailed for a batch that must not be written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

from tidegauge.errors import ExpectationFailed
from tidegauge.model.default_schema import split_name
from tidegauge.model.expectation import CheckCount, Checks, Expectation, ForeignKey, Fresh, RowCount, Unique
from tidegauge.model.marks import FAILED, ROW, FailedCheckBits, count_rows, count_stale, refuse
from tidegauge.model.spec import TableName
from tidegauge.outputs.warehouse import staging
from tidegauge.outputs.warehouse.flow_target import FlowTarget
from tidegauge.outputs.warehouse.warehouse import StagingTable, Warehouse, WarehouseSession

_SHOWN = 300


def check_stage(
    target: FlowTarget, session: WarehouseSession, stage: StagingTable, expect: Sequence[Expectation]
) -> Checks:
    """The counts of all checks but `unique`. Makes the quarantine where it is needed. Commits."""
    marks, warehouse = FailedCheckBits.of(expect), target.warehouse
    look_up_all(target, session, stage, marks)
    name, failed = warehouse.table(stage.table), warehouse.name(FAILED)
    found = session.rows(f"SELECT {failed}, COUNT(*) FROM {name} GROUP BY {failed}")
    counted = {int(mask): int(many) for mask, many in found}
    checks = marks.judge(target.flow, counted, partial(_show_example, warehouse, session, stage, counted))
    more = [count_rows(target.flow, one, checks.passed) for one in expect if isinstance(one.rule, RowCount)]
    for one in expect:
        if isinstance(one.rule, Fresh):
            stale = _is_stale(warehouse, session, stage, one.rule, marks)
            more.append(count_stale(target.flow, one, stale=stale))
    session.rollback()
    if checks.quarantined:
        target.quarantine.make(session)
    return checks.and_also(more)


def look_up_all(
    target: FlowTarget, session: WarehouseSession, stage: StagingTable, marks: FailedCheckBits
) -> None:
    """Mark the staged rows that fail a `foreign_key` check. Commits."""
    for at, one in enumerate(marks.checks):
        if isinstance(one.rule, ForeignKey):
            _look_up(target, session, stage, one, one.rule, 1 << at)


def set_aside(warehouse: Warehouse, marks: FailedCheckBits, alias: str = "") -> str:
    """SQL condition that is true for staged rows that do not reach the target. `alias`: with its point."""
    return f"{alias}{warehouse.name(FAILED)} >= {marks.dropped_from}"


def count_repeated(
    target: FlowTarget,
    session: WarehouseSession,
    stage: StagingTable,
    expect: Iterable[Expectation],
    stays: str | None,
) -> list[CheckCount]:
    """Count what fails the `unique` checks among the rows about to be written, in the committing transaction.

    `stays`: SQL condition for the target's rows, called `t`, that stay beside them; None: none do.
    """
    return [
        _count_repeated(target, session, stage, one, one.rule, stays)
        for one in expect
        if isinstance(one.rule, Unique)
    ]


def _count_repeated(
    target: FlowTarget,
    session: WarehouseSession,
    stage: StagingTable,
    one: Expectation,
    rule: Unique,
    stays: str | None,
) -> CheckCount:
    warehouse = target.warehouse
    columns = [warehouse.name(_find_column_name(stage, column)) for column in rule.columns]
    filled = " AND ".join(f"s.{column} IS NOT NULL" for column in columns)
    grouped = ", ".join(f"s.{column}" for column in columns)
    mine = (
        f"SELECT {grouped}, COUNT(*) AS n_ FROM {warehouse.table(stage.table)} AS s"
        f" WHERE {filled} GROUP BY {grouped}"
    )
    repeated = "g_.n_ > 1"
    if stays is not None:
        same = " AND ".join(f"t.{column} = g_.{column}" for column in columns)
        repeated += (
            f" OR EXISTS (SELECT 1 FROM {warehouse.table(target.table)} AS t WHERE {same} AND ({stays}))"
        )
    found = f"FROM ({mine}) AS g_ WHERE {repeated}"
    ((many,),) = session.rows(f"SELECT SUM(g_.n_) {found}")

    def show() -> str:
        shown = ", ".join(f"g_.{column}" for column in columns)
        return staging.show_key(rule.columns, session.rows(f"SELECT {shown} {found} LIMIT 1")[0])

    refuse(target.flow, one, int(many or 0), None, show)
    return CheckCount(one.name, one.action, int(many or 0))


def _look_up(
    target: FlowTarget,
    session: WarehouseSession,
    stage: StagingTable,
    one: Expectation,
    rule: ForeignKey,
    bit: int,
) -> None:
    """Mark the rows whose values the other table does not have. Commits."""
    warehouse, name = target.warehouse, target.warehouse.name
    table = _parse_table_name(target, str(rule.table.name))
    held = warehouse.columns(session, table)
    lost = f"{table} is not there" if held is None else None
    if held is not None:
        there = {target.named(field.name): field.name for field in held}
        gone = next((column for column in rule.to if target.named(column) not in there), None)
        lost = None if gone is None else f"{table} has no column {gone}"
    if held is None or lost is not None:
        raise ExpectationFailed(
            f"{target.flow}: `{one.name}` cannot be looked up in {warehouse.place}: {lost}",
            hint="name a table that is there before this one is loaded; nothing was written",
            place=one.place,
        )
    mine = [name(_find_column_name(stage, column)) for column in rule.columns]
    theirs = [name(there[target.named(column)]) for column in rule.to]
    picked = ", ".join(f"k.{column} AS f{at}_" for at, column in enumerate(mine))
    filled = " AND ".join(f"k.{column} IS NOT NULL" for column in mine)
    same = " AND ".join(f"o.{other} = k.{column}" for other, column in zip(theirs, mine, strict=True))
    nowhere = (
        f"(SELECT DISTINCT {picked} FROM {warehouse.table(stage.table)} AS k WHERE {filled}"
        f" AND NOT EXISTS (SELECT 1 FROM {warehouse.table(table)} AS o WHERE {same}))"
    )
    where = " AND ".join(f"t.{column} = s.f{at}_" for at, column in enumerate(mine))
    session.rollback()
    session.run(warehouse.update(stage.table, nowhere, [(FAILED, f"t.{name(FAILED)} + {bit}")], where))
    session.commit()


def _parse_table_name(target: FlowTarget, written: str) -> TableName:
    found = split_name(target.warehouse.database, written)
    return found if found.schema is not None else TableName(target.table.schema, found.table)


def _show_example(
    warehouse: Warehouse, session: WarehouseSession, stage: StagingTable, counted: Iterable[int], bit: int
) -> str | None:
    masks = ", ".join(str(mask) for mask in counted if mask & bit)
    row = warehouse.name(ROW)
    found = session.rows(
        f"SELECT {row} FROM {warehouse.table(stage.table)}"
        f" WHERE {warehouse.name(FAILED)} IN ({masks}) AND {row} IS NOT NULL LIMIT 1"
    )
    return str(found[0][0])[:_SHOWN] if found else None


def _is_stale(
    warehouse: Warehouse, session: WarehouseSession, stage: StagingTable, rule: Fresh, marks: FailedCheckBits
) -> bool:
    column = warehouse.name(_find_column_name(stage, rule.column))
    ((newest,),) = session.rows(
        f"SELECT MAX({column}) FROM {warehouse.table(stage.table)} WHERE NOT ({set_aside(warehouse, marks)})"
    )
    return newest is not None and _moment(newest) < staging.read_clock(warehouse, session) - rule.within


def _moment(value: Any) -> datetime:
    """A date or time as a time in UTC; one without a zone is in UTC already."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _find_column_name(stage: StagingTable, column: str) -> str:
    return next(field.name for field in stage.fields if field.name.casefold() == column.casefold())
