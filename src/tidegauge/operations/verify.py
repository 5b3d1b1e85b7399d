"""Prove that source and target are the same up to the watermark, key by key."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegauge.compare.frames import Difference
from tidegauge.errors import NotCompared, SourceError, TidegaugeError
from tidegauge.flows.delta_places import Places
from tidegauge.flows.load import has_caught_up
from tidegauge.flows.missing_tables import known_flows
from tidegauge.flows.select import Sources, choose, needs_of
from tidegauge.ledger.open import open_ledger
from tidegauge.model.delta_flow import AnyFlow, DeltaFlow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.position import RowPosition
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.spec import Project, Stage, TableFlow
from tidegauge.model.watermark import Watermark
from tidegauge.observe.events import Comparing, Listener
from tidegauge.operations.verify_lake import verify_lake
from tidegauge.operations.verify_warehouse import verify_warehouse
from tidegauge.outputs.open import open_output
from tidegauge.spark.errors import translate_spark_error
from tidegauge.spark.jars import Needs
from tidegauge.spark.session import open_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Verified:
    table: str
    difference: Difference | None
    error: TidegaugeError | None = None

    @property
    def excused(self) -> bool:
        """It can never be compared, and that is no failure."""
        return isinstance(self.error, NotCompared) and self.error.excused

    @property
    def equal(self) -> bool | None:
        """None: it can never be compared."""
        return None if self.excused else self.difference is not None and self.difference.equal

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of it, besides the counts."""
        if self.excused:
            assert self.error is not None
            return (f"not compared: {self.error.message}",)
        if self.difference is None:
            return ()
        many = self.difference.newer
        rows = (
            (f"{many:,} row{'' if many == 1 else 's'} newer than the last look: the next run's",)
            if many
            else ()
        )
        return (*rows, *self.difference.notes)

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
            "newer": found.newer if found else None,
            "examples": [{"kind": kind, "key": key} for kind, key in found.examples] if found else [],
            "notes": list(self.notes),
            "error": error_to_json(self.error) if self.error else None,
        }


def verify(
    project: Project,
    selection: Sequence[str],
    *,
    stage: Stage | None = None,
    tell: Listener | None = None,
    debug: bool = False,
) -> list[Verified]:
    """Every selected table against where it ends up: of two stages the second, unless `stage` says which; and
    every selected flow between Delta tables against its transform over whole inputs.

    Rows past the watermark are not judged, but counted: they are the next run's.
    """
    with open_ledger(project.ledger, create=False) as ledger, Sources() as sources:
        known = known_flows(ledger, project.pipeline)
        choice = choose(project, selection, sources, stage=stage, known=known)
        passed = {flow.upstream for flow in choice.flows}
        hops: list[AnyFlow] = [flow for flow in choice.flows if flow.name not in passed]
        hops += choice.delta_flows
        needs = {Needs.JDBC} | needs_of(hops)
        spark = functools.cache(partial(open_session, project.spark, needs, debug=debug))
        places = Places(spark)
        results = [Verified(name, None, error) for name, error in choice.faults]
        for number, hop in enumerate(hops, start=1):
            name = hop.label
            if tell is not None:
                tell(Comparing(name, number, len(hops)))
            try:
                lost = choice.gone.get(hop.upstream or hop.name)
                if lost is not None:
                    raise lost
                with translate_spark_error(hop.name):
                    if isinstance(hop, DeltaFlow):
                        found = _delta_flow(hop, ledger, places)
                    else:
                        found = _flow(hop, ledger, sources, spark)
                results.append(Verified(name, found))
            except TidegaugeError as error:
                results.append(Verified(name, None, error))
    return results


def nothing_compared(results: Sequence[Verified]) -> NotCompared | None:
    """What to say where no two tables were compared, and nothing went wrong either."""
    reasons = [one.error for one in results if isinstance(one.error, NotCompared)]
    if any(one.difference is not None for one in results) or len(reasons) < len(results):
        return None
    said = "; ".join(reason.message for reason in reasons[:3]) or "nothing was selected"
    more = f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    hint = next((reason.hint for reason in reasons if reason.hint), "`tidegauge status` lists what there is")
    return NotCompared(f"nothing was compared: {said}{more}", hint=hint)


def is_proven(results: Sequence[Verified]) -> bool:
    """Whether all that can be compared is equal."""
    return all(one.equal is not False for one in results) and nothing_compared(results) is None


def _delta_flow(delta_flow: DeltaFlow, ledger: LedgerReader, places: Places) -> Difference:
    # Not before it is needed: whoever has tables alone shall not wait for a parser of SQL.
    from tidegauge.operations.verify_delta import verify_delta

    return verify_delta(delta_flow, lambda: ledger.watermarks(delta_flow.pipeline, [delta_flow.name]), places)


def _flow(
    flow: TableFlow, ledger: LedgerReader, sources: Sources, spark: Callable[[], SparkSession]
) -> Difference:
    names = [name for name in (flow.name, flow.upstream) if name]
    marks = {mark.flow: mark for mark in ledger.watermarks(flow.pipeline, names)}
    position = _position(flow, marks)
    output = open_output(flow)
    source = sources.of(flow.source)
    if output.capabilities.table is not None:
        return verify_warehouse(flow, source, output, position, spark)
    return verify_lake(flow, source, position, marks[flow.name].epoch, spark())


def _position(flow: TableFlow, marks: Mapping[str, Watermark]) -> RowPosition | None:
    """The position in the source up to which the target has everything; None: it has no row with a cursor."""
    mark = marks.get(flow.name)
    if flow.reads is not None and mark is not None:
        upper = marks.get(flow.upstream or "")
        if upper is not None and not has_caught_up(flow, mark, upper):
            raise SourceError(
                f"{flow.name} has not loaded all that is in the lake, so it cannot be compared yet",
                hint=f"`tidegauge sync -t {flow.table} --stage load` loads the rest",
            )
        mark = upper
    if mark is None or not (mark.seq or isinstance(mark.position, RowPosition)):
        raise NotCompared(
            f"{flow.name} has no watermark yet, so there is nothing to compare", hint="run it first"
        )
    assert mark.position is None or isinstance(mark.position, RowPosition)
    return mark.position
