"""A target that answers SELECTs in its own database's SQL, and which of its rows it shows."""

from __future__ import annotations

from typing import Any

from tidegauge.model.delta_flow import IS_CURRENT
from tidegauge.model.engines import Engine
from tidegauge.model.table import Field
from tidegauge.outputs.warehouse.flow_target import FlowTarget
from tidegauge.outputs.warehouse.mode_target import DELETED_AT


class TargetSql:
    """`model.protocols.output.SqlTable`."""

    def __init__(self, target: FlowTarget) -> None:
        self._target = target

    @property
    def engine(self) -> Engine:
        return self._target.warehouse.database.engine

    def value(self, field: Field) -> str:
        return self._target.warehouse.value(field)

    def shown(self) -> tuple[str, str]:
        target = self._target
        with target.session() as session:
            held = target.warehouse.columns(session, target.table) or ()
        there = frozenset(target.named(field.name) for field in held)
        return target.warehouse.table(target.table), shown_where(target, there)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self._target.session() as session:
            return session.rows(sql)


def shown_where(target: FlowTarget, there: frozenset[str]) -> str:
    """SQL condition that leaves out rows marked as deleted and versions that are not current; empty where
    there is nothing to leave out. `there`: the target's columns, by `FlowTarget.named`."""
    warehouse = target.warehouse
    if target.options.mode.facts.keeps_history:
        return f"{warehouse.name(IS_CURRENT)} = {warehouse.true}"
    return f"{warehouse.name(DELETED_AT)} IS NULL" if target.named(DELETED_AT) in there else ""
