"""Prove that source and target are the same up to the watermark, key by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.engine.jars import Needs
from tidegauge.engine.report import error_to_json
from tidegauge.engine.select import Sources, choose
from tidegauge.engine.session import open_session
from tidegauge.engine.spark_errors import translated
from tidegauge.errors import SourceError, TidegaugeError
from tidegauge.ledger.open import open_ledger
from tidegauge.maintain.compare import Difference, compare
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Window
from tidegauge.model.protocols import Source, Watermark
from tidegauge.model.spec import Flow, NullCursor, Project
from tidegauge.read.jdbc import JdbcReader
from tidegauge.write.table import latest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Verified:
    table: str
    difference: Difference | None
    error: TidegaugeError | None = None

    @property
    def equal(self) -> bool:
        return self.difference is not None and self.difference.equal

    def to_json(self) -> dict[str, Any]:
        found = self.difference
        return {
            "table": self.table,
            "equal": self.equal,
            "source_rows": found.source_rows if found else None,
            "target_rows": found.target_rows if found else None,
            "missing": found.missing if found else None,
            "extra": found.extra if found else None,
            "different": found.different if found else None,
            "examples": [{"kind": kind, "key": key} for kind, key in found.examples] if found else [],
            "error": error_to_json(self.error) if self.error else None,
        }


def verify(project: Project, selection: Sequence[str], *, debug: bool = False) -> list[Verified]:
    """Every selected table. Rows that changed after the watermark are not judged: they are the next run's."""
    with open_ledger(project.ledger, create=False) as ledger, Sources() as sources:
        choice = choose(project, selection, sources)
        marks = {mark.flow: mark for mark in ledger.watermarks(project.pipeline)}
        results = [Verified(name, None, error) for name, error in choice.faults]
        needs = {Needs.JDBC} | {Needs.S3 for flow in choice.flows if flow.output.on_s3}
        for flow in choice.flows:
            try:
                spark = open_session(project.spark, needs, debug=debug)
                found = _verify(flow, sources.of(flow.source), marks.get(flow.name), spark)
                results.append(Verified(flow.name, found))
            except TidegaugeError as error:
                results.append(Verified(flow.name, None, error))
    return results


def _verify(flow: Flow, source: Source, mark: Watermark | None, spark: SparkSession) -> Difference:
    if mark is None or not isinstance(mark.position, RowPosition):
        raise SourceError(
            f"{flow.name} has no watermark yet, so there is nothing to compare", hint="run it first"
        )
    shape = source.shape(flow.table, flow.options)
    reader = JdbcReader(flow.source)
    key = [part.name for part in shape.key]
    with translated(shape):
        rows = reader.read(spark, shape, Batch((Window(None, mark.position),)))
        if flow.options.null_cursor is NullCursor.INCLUDE:
            rows = rows.unionAll(
                reader.read(spark, shape, Batch((Window(mark.position, mark.position),), nulls=True))
            )
        target = latest(spark, flow.output, flow.folder, key=key, epoch=mark.epoch)
        return compare(rows, target, key=key, leave_out=reader.keys_after(spark, shape, mark.position))
