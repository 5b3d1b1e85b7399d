"""Proves that source and target are equal up to the watermark, key by key."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegauge.compare.frames import Difference
from tidegauge.errors import NotCompared, TidegaugeError
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.flows.flow import FlowResources
from tidegauge.flows.open import open_flow
from tidegauge.flows.selection.missing_tables import find_recorded
from tidegauge.flows.selection.select import choose
from tidegauge.flows.spark_jars import find_jars
from tidegauge.ledger.open import open_ledger
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.spec import Project, Stage
from tidegauge.model.view_flow import WithoutData
from tidegauge.observe.events import Comparing, Listener
from tidegauge.operations.proofs import keep_proof
from tidegauge.outputs.warehouse.kept_sessions import kept_open
from tidegauge.sources.connections import SourceConnections
from tidegauge.spark.errors import translate_spark_error
from tidegauge.spark.jars import JarSet
from tidegauge.spark.session import open_session


@dataclass(frozen=True)
class TableVerification:
    table: str
    difference: Difference | None
    error: TidegaugeError | None = None
    unkept: str | None = None
    """Why the result could not be recorded in the history, if writing failed."""

    @property
    def excused(self) -> bool:
        """Whether it can never be compared, which is no failure."""
        return isinstance(self.error, NotCompared) and self.error.excused

    @property
    def equal(self) -> bool | None:
        """Whether source and target were compared and are equal; None: they can never be compared."""
        return None if self.excused else self.difference is not None and self.difference.equal

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for people, besides the counts."""
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
        return (*rows, *self.difference.notes, *((self.unkept,) if self.unkept else ()))

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
            "method": found.method if found else None,
            "why_rows": found.why_rows if found else None,
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
) -> list[TableVerification]:
    """Compare every selected table with its target, that of the second of two stages unless `stage` says
    which, and every selected flow between Delta tables with its transform over whole inputs.

    Rows past the watermark are only counted: the next run will move them. The result is recorded in the
    history.
    """
    with open_ledger(project.ledger, create=False) as ledger, SourceConnections() as sources, kept_open():
        recorded = find_recorded(ledger, project.pipeline)
        choice = choose(project, selection, sources, stage=stage, recorded=recorded, views=True)
        passed = {flow.upstream for flow in choice.flows}
        flows: list[DataFlow] = [flow for flow in choice.flows if flow.name not in passed]
        flows += choice.delta_flows
        needs = {JarSet.JDBC} | find_jars(flows)
        spark = functools.cache(partial(open_session, project.spark, needs, debug=debug))
        resources = FlowResources(sources, DeltaTableLocator(spark))
        results = [TableVerification(name, None, error) for name, error in choice.faults]
        results += [
            TableVerification(one.name, None, _make_no_data_error(one)) for one in choice.without_data
        ]
        for number, flow in enumerate(flows, start=1):
            name = flow.label
            if tell is not None:
                tell(Comparing(name, number, len(flows)))
            try:
                lost = choice.missing.get(flow.upstream or flow.name)
                if lost is not None:
                    raise lost
                with translate_spark_error(flow.name):
                    found = open_flow(flow, resources).verify(ledger, spark)
                unkept = keep_proof(ledger, project.pipeline, flow.name, found)
                results.append(TableVerification(name, found, unkept=unkept))
            except TidegaugeError as error:
                results.append(TableVerification(name, None, error))
    return results


def _make_no_data_error(flow: WithoutData) -> NotCompared:
    return NotCompared(
        f"{flow.name} is {flow.kind_of_flow}, and has no data of its own",
        hint="the tables that it is about can be compared",
        excused=True,
    )


def explain_nothing_compared(results: Sequence[TableVerification]) -> NotCompared | None:
    """Return the error to raise if nothing was compared and nothing failed either; else None."""
    reasons = [one.error for one in results if isinstance(one.error, NotCompared)]
    if any(one.difference is not None for one in results) or len(reasons) < len(results):
        return None
    # One reason for each hint, because reasons with the same hint have the same remedy.
    kinds = list({reason.hint: reason for reason in reversed(reasons)}.values())[::-1][:3]
    said = "; ".join(reason.message for reason in kinds) or "nothing was selected"
    more = f"; and {len(reasons) - len(kinds)} more alike" if len(reasons) > len(kinds) else ""
    hint = next((reason.hint for reason in reasons if reason.hint), "`tidegauge status` lists what there is")
    return NotCompared(f"nothing was compared: {said}{more}", hint=hint)


def is_proven(results: Sequence[TableVerification]) -> bool:
    """Whether everything that can be compared was compared and is equal."""
    return all(one.equal is not False for one in results) and explain_nothing_compared(results) is None
