"""Move rows from the quarantine into a target that rows are only added to, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees, OutputError, WrongState
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.expectation import Action
from tidegauge.model.marks import FAILED, ROW, FailedCheckBits
from tidegauge.model.row_text import read_rows
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse import modes, staging
from tidegauge.outputs.warehouse.flow_target import FlowTarget
from tidegauge.outputs.warehouse.mode_target import ModeTarget
from tidegauge.outputs.warehouse.quarantine import ROW_COLUMN
from tidegauge.outputs.warehouse.stage_checks import look_up_all
from tidegauge.outputs.warehouse.warehouse import StagingTable, WarehouseSession

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Mark = Callable[["pa.RecordBatch", Layout], "pa.RecordBatch"]
"""Adds the columns `model.marks.FAILED` and `ROW` to rows of a layout."""


@dataclass(frozen=True)
class _OneBatch:
    batch: pa.RecordBatch

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield self.batch


def replay_rows(
    target: FlowTarget, fields: tuple[Field, ...], mark: Mark, marked: tuple[Field, ...], run_id: str
) -> int:
    """Append the quarantined rows that pass the checks now, and take them out; returns how many.

    `fields`: the columns of the target; `marked`: those that marking adds.
    """
    import pyarrow as pa

    if target.warehouse.copies_files:
        raise OutputError(
            f"{target.place} takes rows out of files of a lake alone, so those in quarantine cannot be added",
            hint="load the table anew with `tidegauge run --full-refresh`, or discard them",
        )
    with target.session() as session:
        texts = [str(row) for (row,) in target.quarantine.select(session, ROW_COLUMN)]
        session.rollback()
        layout = Layout(target.table, fields, (), "value", None)
        rows = mark(_parse(target, texts, layout), layout)
        # By this text rows are taken out: it has to be the stored one, whatever columns the target has.
        rows = rows.set_column(rows.schema.get_field_index(ROW), ROW, pa.array(texts, pa.string()))
        wide = replace(layout, fields=(*fields, *marked))
        stage = staging.stage_of(staging.make_name(target.warehouse, session, target.table.schema), wide)
        session.rollback()
        try:
            batch_data = BatchRows(wide, rows.num_rows, splits=(_OneBatch(rows),))
            target.warehouse.load(session, stage, batch_data, _no_spark)
            return _move(target, session, stage, layout, run_id)
        finally:
            session.rollback()
            staging.drop(target.warehouse, session, stage.table)


def _parse(target: FlowTarget, texts: list[str], layout: Layout) -> pa.RecordBatch:
    unknown = next((field for field in layout.fields if not field.type), None)
    try:
        if unknown is not None:
            raise ValueError(f"the column {unknown.name} is {unknown.source_type}")
        return read_rows(texts, schema_of(layout))
    except ValueError as error:
        raise OutputDisagrees(
            f"rows in {target.quarantine.table} do not fit {target.place} any more: {error}",
            hint="discard them, or bring the target's columns back; nothing was changed",
        ) from error


def _move(
    target: FlowTarget, session: WarehouseSession, stage: StagingTable, layout: Layout, run_id: str
) -> int:
    warehouse, marks = target.warehouse, FailedCheckBits.of(target.options.expect)
    look_up_all(target, session, stage, marks)
    name, table = warehouse.name, warehouse.table(stage.table)
    found = session.rows(f"SELECT DISTINCT {name(FAILED)} FROM {table}")
    refused = sum(1 << at for at, one in enumerate(marks.checks) if one.action is not Action.WARN)
    wrong = [int(mask) for (mask,) in found if int(mask) & refused]
    session.rollback()
    if wrong:
        listed = ", ".join(map(str, wrong))
        session.run(warehouse.delete(stage.table, f"t.{name(FAILED)} IN ({listed})"))
    taken = target.quarantine.take_out(session, stage.table)
    into = ModeTarget(
        warehouse, target.table, soft=False, run_id=run_id if target.options.metadata_columns else None
    )
    added = modes.append(session, into, staging.stage_of(stage.table, layout)).inserted
    if taken != added:
        raise WrongState(
            f"{target.flow}: {added:,} rows were about to be added to {target.place}, and {taken:,} are in"
            " quarantine any more",
            hint="somebody else works on them: see `tidegauge quarantine list`; nothing was changed",
        )
    session.commit()
    return added


def _no_spark() -> SparkSession:
    raise AssertionError("rows at hand need no Spark")
