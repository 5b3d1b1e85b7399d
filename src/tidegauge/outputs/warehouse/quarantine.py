"""The table beside a target that holds the rows which its flow's expectations set aside.

Rows get there in the transaction that writes the target and keeps the tag: all of a batch is there, or
nothing. A row is kept as JSON in one column, so that the target's columns may change.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tidegauge.errors import OutputDisagrees
from tidegauge.model.delta_flow import QUARANTINE, QUARANTINE_COLUMNS
from tidegauge.model.marks import FAILED, ROW, FailedCheckBits
from tidegauge.model.plan import Batch, Tag
from tidegauge.model.position import to_text
from tidegauge.model.spec import TableName
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseColumn, WarehouseSession

ROW_COLUMN, REASONS, AT = "row", "_reasons", "_quarantined_at"
_NUMBERS = ("_epoch", "_seq")
_AT_ONCE = 200


@dataclass(frozen=True)
class QuarantineBatch:
    """The batch that sets rows aside, and which earlier rows of the quarantine it replaces."""

    tag: Tag
    batch: Batch
    input: str
    run_id: str
    whole: bool
    """Whether the batch replaces all rows that the flow has in the quarantine."""
    again: bool
    """Whether the batch's rows may have been read, and set aside, before."""


class WarehouseQuarantine:
    """One flow's quarantine. Every method works inside the session's transaction unless it says otherwise."""

    def __init__(self, warehouse: Warehouse, target: TableName, pipeline: str, flow: str) -> None:
        self._warehouse = warehouse
        self.table = TableName(target.schema, f"{target.table}{QUARANTINE}")
        self._pipeline, self._flow = pipeline, flow

    def is_there(self, session: WarehouseSession) -> bool:
        """Whether the table exists. Raises OutputDisagrees where it lacks a column that rows need."""
        held = self._warehouse.columns(session, self.table)
        if held is None:
            return False
        folds = self._warehouse.folds_case
        there = {field.name.lower() if folds else field.name for field in held}
        lost = next((name for name in QUARANTINE_COLUMNS if name not in there), None)
        if lost is not None:
            raise OutputDisagrees(
                f"{self.table} in {self._warehouse.place} has no column {lost}, so no row of {self._flow} can"
                " be set aside",
                hint="somebody altered it, or it is another table: bring the column back, or move the table"
                " away, and one is made anew; nothing was written",
            )
        return True

    def make(self, session: WarehouseSession) -> None:
        """Make the table where there is none. Commits."""
        if self.is_there(session):
            session.rollback()
            return
        session.rollback()
        warehouse = self._warehouse
        kinds = {AT: warehouse.timestamp_type, **dict.fromkeys(_NUMBERS, warehouse.integer_type)}
        columns = [WarehouseColumn(name, kinds.get(name, warehouse.text_type)) for name in QUARANTINE_COLUMNS]
        session.run(warehouse.create(self.table, columns))
        session.commit()

    def put(
        self, session: WarehouseSession, stage: TableName, marks: FailedCheckBits, batched: QuarantineBatch
    ) -> int:
        """Set aside the staged rows that are marked for it; returns how many."""
        warehouse, name = self._warehouse, self._warehouse.name
        failed = name(FAILED)
        found = session.rows(
            f"SELECT {failed}, COUNT(*) FROM {warehouse.table(stage)}"
            f" WHERE {failed} >= {marks.quarantined_from} GROUP BY {failed}"
        )
        if batched.whole or (batched.again and found):
            self._delete_replaced(session, stage, marks, batched)
        masks = sorted(int(mask) for mask, _ in found)
        moved = sum(
            self._insert(session, stage, marks, masks[first : first + _AT_ONCE], batched)
            for first in range(0, len(masks), _AT_ONCE)
        )
        if moved != sum(int(many) for _, many in found):
            raise OutputDisagrees(
                f"{warehouse.place} set {moved} rows aside in {self.table}, and it should have been"
                f" {sum(int(many) for _, many in found)}",
                hint="somebody changes the staging table; nothing was written",
            )
        return moved

    def delete(self, session: WarehouseSession, *, before_epoch: int | None = None) -> int:
        """Delete the flow's rows, or only those of earlier epochs; returns how many. Does not commit."""
        where, values = self._make_flow_condition("t")
        if before_epoch is not None:
            where += f" AND t.{self._warehouse.name('_epoch')} < {before_epoch}"
        return session.run(self._warehouse.delete(self.table, where), values)

    def take_out(self, session: WarehouseSession, stage: TableName) -> int:
        """Delete the flow's rows whose JSON is staged; returns how many. Does not commit."""
        warehouse, name = self._warehouse, self._warehouse.name
        where, values = self._make_flow_condition("t")
        differs = warehouse.differs(f"s.{name(ROW)}", f"t.{name(ROW_COLUMN)}")
        staged = f"EXISTS (SELECT 1 FROM {warehouse.table(stage)} AS s WHERE NOT ({differs}))"
        return session.run(warehouse.delete(self.table, f"{where} AND {staged}"), values)

    def select(self, session: WarehouseSession, *columns: str) -> list[tuple[Any, ...]]:
        """These columns of all rows of the flow, oldest first."""
        warehouse = self._warehouse
        where, values = self._make_flow_condition("q")
        listed = ", ".join(f"q.{warehouse.name(one)}" for one in columns)
        order = ", ".join(f"q.{warehouse.name(one)}" for one in (*_NUMBERS, AT))
        return session.rows(
            f"SELECT {listed} FROM {warehouse.table(self.table)} AS q WHERE {where} ORDER BY {order}", values
        )

    def _delete_replaced(
        self, session: WarehouseSession, stage: TableName, marks: FailedCheckBits, batched: QuarantineBatch
    ) -> None:
        if not self.is_there(session):
            return
        if batched.whole:
            self.delete(session)
            return
        warehouse, name = self._warehouse, self._warehouse.name
        differs = warehouse.differs(f"s.{name(ROW)}", f"t.{name(ROW_COLUMN)}")
        where, values = self._make_flow_condition("t")
        session.run(
            warehouse.delete(
                self.table,
                f"{where} AND EXISTS (SELECT 1 FROM {warehouse.table(stage)} AS s"
                f" WHERE s.{name(FAILED)} >= {marks.quarantined_from} AND NOT ({differs}))",
            ),
            values,
        )

    def _insert(
        self,
        session: WarehouseSession,
        stage: TableName,
        marks: FailedCheckBits,
        masks: list[int],
        batched: QuarantineBatch,
    ) -> int:
        warehouse, name, mark = self._warehouse, self._warehouse.name, self._warehouse.placeholder
        tag = batched.tag
        window = ", ".join(
            f"{batched.input} ({to_text(one.after)}, {to_text(one.upto)}]" for one in batched.batch.windows
        )
        whens = " ".join(f"WHEN {mask} THEN {mark}" for mask in masks)
        picked = {
            ROW_COLUMN: f"s.{name(ROW)}",
            REASONS: f"CASE s.{name(FAILED)} {whens} END",
            "_pipeline": mark,
            "_flow": mark,
            "_epoch": str(tag.epoch),
            "_seq": str(tag.seq),
            "_run_id": mark,
            "_window": mark,
            AT: warehouse.now,
        }
        listed = ", ".join(map(str, masks))
        return session.run(
            f"INSERT INTO {warehouse.table(self.table)} ({', '.join(map(name, picked))})"
            f" SELECT {', '.join(picked.values())} FROM {warehouse.table(stage)} AS s"
            f" WHERE s.{name(FAILED)} IN ({listed})",
            (
                *(json.dumps(marks.reasons(mask), ensure_ascii=False) for mask in masks),
                self._pipeline,
                self._flow,
                batched.run_id,
                window,
            ),
        )

    def _make_flow_condition(self, alias: str) -> tuple[str, tuple[str, str]]:
        name, mark = self._warehouse.name, self._warehouse.placeholder
        where = f"{alias}.{name('_pipeline')} = {mark} AND {alias}.{name('_flow')} = {mark}"
        return where, (self._pipeline, self._flow)
