"""The table `tidegauge_commits` itself: its columns, how it is made, and how a row gets into it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from tidegauge.errors import OutputDisagrees
from tidegauge.model.spec import TableName
from tidegauge.outputs.warehouse.kept_sessions import is_noted, note
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseColumn, WarehouseSession

NAME = "tidegauge_commits"
WRITTEN, SHAPE, CHECKS = "written", "shape", "checks"
"""Columns that tables made by older versions lack."""


class CommitsTable:
    """The table as one flow uses it. Methods work in the session's transaction unless they say otherwise."""

    def __init__(self, warehouse: Warehouse, target: TableName, pipeline: str, flow: str) -> None:
        self._warehouse = warehouse
        self.table = TableName(target.schema, NAME)
        self._target = json.dumps([target.schema, target.table], ensure_ascii=False)
        self._pipeline, self._flow = pipeline, flow
        name = json.dumps([pipeline, flow], ensure_ascii=False).encode("utf-8", "surrogatepass")
        self._key = hashlib.sha256(name).hexdigest()
        self._kept_columns: frozenset[str] = frozenset()
        self._made = False

    def is_there(self, session: WarehouseSession) -> bool:
        """Whether the table exists. After `make_table` the catalogue is not asked again, because that is slow
        where there are many tables: if somebody drops the table meanwhile, every statement on it fails."""
        if self._made:
            return True
        held = self._warehouse.columns(session, self.table)
        self._kept_columns = frozenset(field.name for field in held or ())
        return held is not None

    def is_complete(self, session: WarehouseSession) -> bool:
        """Whether the table exists with all columns that this version writes."""
        return self.is_there(session) and {WRITTEN, SHAPE, CHECKS} <= self._kept_columns

    @property
    def owner(self) -> tuple[str, str]:
        """The values of `flow_key` and `target` in this flow's rows."""
        return self._key, self._target

    def ask_for(self, epoch: int, seq: int) -> tuple[str, tuple[object, ...]]:
        """SQL condition for an epoch's head and one of its batches, and the condition's values."""
        mark = self._warehouse.placeholder
        return (
            f"{self._eq('flow_key')} AND {self._eq('epoch')} AND {self._names('seq')} IN ({mark}, {mark})",
            (self._key, epoch, 0, seq),
        )

    def find_rows(
        self, session: WarehouseSession, where: str, values: Sequence[object]
    ) -> list[tuple[Any, ...]]:
        """`flow_key`, `target`, `seq`, `last_seq`, `closed` and `shape` of the rows that fulfil a condition,
        of any flow."""
        found = self._names("flow_key", "target", "seq", "last_seq", "closed", SHAPE)
        return session.rows(f"SELECT {found} FROM {self._name} WHERE {where}", tuple(values))

    def find_owners(
        self, session: WarehouseSession, owners: Sequence[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        """The `owner` of every head whose flow or target is that of one of these owners."""
        marks = ", ".join([self._warehouse.placeholder] * len(owners))
        found = session.rows(
            f"SELECT {self._names('flow_key', 'target')} FROM {self._name} WHERE {self._eq('seq')}"
            f" AND ({self._names('flow_key')} IN ({marks}) OR {self._names('target')} IN ({marks}))",
            (0, *(key for key, _ in owners), *(target for _, target in owners)),
        )
        return {(str(key), str(target)) for key, target in found}

    def keeps_written(self, session: WarehouseSession) -> bool:
        """Whether the table has the column `written`; `make_table` adds it to one of an older version."""
        return self.is_there(session) and WRITTEN in self._kept_columns

    def make_table(self, session: WarehouseSession) -> None:
        """Make the table, or add the columns that it lacks, once for all flows of a command. Commits."""
        where = self._warehouse.database
        seen = ("commits", where.engine, where.path, where.host, where.port, where.database, self.table)
        if is_noted(*seen):
            pass
        elif not self.is_there(session):
            session.rollback()
            session.run(self._ddl())
            session.commit()
        elif missing := [name for name in (WRITTEN, SHAPE, CHECKS) if name not in self._kept_columns]:
            session.rollback()
            for name in missing:
                session.run(
                    self._warehouse.add_column(self.table, WarehouseColumn(name, self._warehouse.text_type))
                )
                session.commit()
        note(*seen)
        self._kept_columns |= {WRITTEN, SHAPE, CHECKS}
        self._made = True

    def _make_owner_error(self, pipeline: str, flow: str) -> OutputDisagrees:
        return OutputDisagrees(
            f"{self._target} belongs to the flow {flow} of the pipeline {pipeline}",
            hint="two flows cannot write one table: give this one another name with `rename:`",
        )

    def _insert(self, session: WarehouseSession, **row: Any) -> None:
        row = {
            "flow_key": self._key,
            "pipeline": self._pipeline,
            "flow": self._flow,
            "target": self._target,
            **{name: value for name, value in row.items() if value is not None},
        }
        marks = ", ".join([*[self._warehouse.placeholder] * len(row), self._warehouse.now])
        session.run(
            f"INSERT INTO {self._name} ({self._names(*row, 'committed_at')}) VALUES ({marks})",
            tuple(row.values()),
        )

    def _ddl(self) -> str:
        warehouse = self._warehouse
        columns = [
            WarehouseColumn("flow_key", warehouse.short, required=True),
            WarehouseColumn("epoch", warehouse.integer_type, required=True),
            WarehouseColumn("seq", warehouse.integer_type, required=True),
            *(WarehouseColumn(name, warehouse.text_type) for name in ("pipeline", "flow", "target", "kind")),
            *(
                WarehouseColumn(name, warehouse.integer_type)
                for name in ("last_seq", "closed", "continues_epoch", "continues_upto")
            ),
            *(WarehouseColumn(name, warehouse.text_type) for name in ("reason", "windows")),
            *(
                WarehouseColumn(name, warehouse.integer_type)
                for name in ("rows", "inserted", "updated", "deleted")
            ),
            WarehouseColumn("run_id", warehouse.text_type),
            WarehouseColumn("committed_at", warehouse.timestamp_type),
            WarehouseColumn(WRITTEN, warehouse.text_type),
            WarehouseColumn(SHAPE, warehouse.text_type),
            WarehouseColumn(CHECKS, warehouse.text_type),
        ]
        return warehouse.create(self.table, columns, key=("flow_key", "epoch", "seq"))

    @property
    def _name(self) -> str:
        return self._warehouse.table(self.table)

    def _names(self, *columns: str) -> str:
        return ", ".join(map(self._warehouse.name, columns))

    def _eq(self, column: str) -> str:
        """SQL `column = ?`, as a condition or an assignment."""
        return f"{self._warehouse.name(column)} = {self._warehouse.placeholder}"
