"""Prove that source and target are the same up to the watermark, key by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegauge.engine.gone import known_flows
from tidegauge.engine.jars import Needs
from tidegauge.engine.loading import has_caught_up
from tidegauge.engine.report import error_to_json
from tidegauge.engine.select import Sources, choose, is_on_s3
from tidegauge.engine.session import open_session
from tidegauge.engine.spark_errors import translated
from tidegauge.engine.verify_landed import verify_landed
from tidegauge.errors import SourceError, TidegaugeError
from tidegauge.ledger.open import open_ledger
from tidegauge.maintain.compare import Difference, compare
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Window
from tidegauge.model.protocols import Source, Watermark
from tidegauge.model.spec import Flow, Folder, NullCursor, Project, Stage
from tidegauge.plan.draft import start
from tidegauge.read.jdbc import JdbcReader
from tidegauge.write.open import open_output
from tidegauge.write.table import latest
from tidegauge.write.warehouse.output import WarehouseOutput

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


def verify(
    project: Project, selection: Sequence[str], *, stage: Stage | None = None, debug: bool = False
) -> list[Verified]:
    """Every selected table against where it ends up: of two stages the second, unless `stage` says which.

    Rows that changed after the watermark are not judged: they are the next run's.
    """
    with open_ledger(project.ledger, create=False) as ledger, Sources() as sources:
        known = known_flows(ledger, project.pipeline)
        choice = choose(project, selection, sources, stage=stage, known=known)
        passed = {flow.upstream for flow in choice.flows}
        flows = [flow for flow in choice.flows if flow.name not in passed]
        marks = {mark.flow: mark for mark in ledger.watermarks(project.pipeline)}
        results = [Verified(name, None, error) for name, error in choice.faults]
        needs = {Needs.JDBC} | {Needs.S3 for flow in flows if is_on_s3(flow)}
        spark = partial(open_session, project.spark, needs, debug=debug)
        for flow in flows:
            try:
                lost = choice.gone.get(flow.upstream or flow.name)
                if lost is not None:
                    raise lost
                position = _position(flow, marks)
                output = open_output(flow)
                source = sources.of(flow.source)
                with translated(flow.name):
                    if isinstance(output, WarehouseOutput):
                        found = verify_landed(flow, source, output, position, spark)
                    else:
                        found = _verify_lake(flow, source, position, marks[flow.name].epoch, spark())
                results.append(Verified(flow.input, found))
            except TidegaugeError as error:
                results.append(Verified(flow.input, None, error))
    return results


def _position(flow: Flow, marks: Mapping[str, Watermark]) -> RowPosition:
    """The position in the source up to which the target has everything."""
    mark = marks.get(flow.name)
    if flow.reads is not None and mark is not None:
        upper = marks.get(flow.upstream or "")
        if upper is not None and not has_caught_up(flow, mark, upper):
            raise SourceError(
                f"{flow.name} has not loaded all that is in the lake, so it cannot be compared yet",
                hint=f"`tidegauge sync -t {flow.table} --stage load` loads the rest",
            )
        mark = upper
    if mark is None or not isinstance(mark.position, RowPosition):
        raise SourceError(
            f"{flow.name} has no watermark yet, so there is nothing to compare", hint="run it first"
        )
    return mark.position


def _verify_lake(
    flow: Flow, source: Source, position: RowPosition, epoch: int, spark: SparkSession
) -> Difference:
    assert isinstance(flow.output, Folder)
    shape = source.shape(flow.table, flow.options)
    reader = JdbcReader(flow.source)
    key = [part.name for part in shape.key]
    rows = reader.read(spark, shape, Batch((Window(start(flow, shape, None), position),)))
    if flow.options.null_cursor is NullCursor.INCLUDE:
        rows = rows.unionAll(reader.read(spark, shape, Batch((Window(position, position),), nulls=True)))
    target = latest(spark, flow.output.lake, flow.output.folder, key=key, epoch=epoch)
    return compare(rows, target, key=key, leave_out=reader.keys_after(spark, shape, position))
