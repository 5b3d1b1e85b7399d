"""Restores watermarks from the outputs, each of which stores the windows that were committed to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from tidegauge.errors import TidegaugeError, WrongState
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.flows.flow import FlowResources
from tidegauge.flows.open import open_flow
from tidegauge.flows.selection.known_sources import KnownSources
from tidegauge.flows.selection.select import Selection, choose
from tidegauge.flows.spark_jars import find_jars
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.ledger.rebuild_rules import active_plan_error, ledger_ahead_error
from tidegauge.model.by_flow import gather_by_flow
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.position import Position, to_json
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project
from tidegauge.model.watermark import Recalled
from tidegauge.sources.connections import SourceConnections
from tidegauge.spark.session import open_session

_PARALLEL = 8


@dataclass(frozen=True)
class RebuildPreview:
    """Where a flow stands according to its output, and according to the ledger."""

    flow: str
    epoch: int = 0
    seq: int = 0
    marks: Mapping[str, Recalled] = field(default_factory=dict)
    """The output's watermarks by input."""
    ledger_positions: Mapping[str, Position | None] = field(default_factory=dict)
    """The ledger's watermarks by input."""
    ledger_batch: tuple[int, int] = (0, 0)
    """Epoch and batch in the ledger."""
    notes: tuple[str, ...] = ()
    error: TidegaugeError | None = None
    done: bool = False

    @property
    def is_behind(self) -> bool:
        """Whether the ledger lacks something that the output has."""
        return self.error is None and self.ledger_batch < (self.epoch, self.seq)

    @property
    def state(self) -> str:
        if self.error is not None:
            return "refused"
        if self.is_behind:
            return "rebuilt" if self.done else "to rebuild"
        return "nothing to do" if self.epoch or self.seq else "nothing there"

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "state": self.state,
            "epoch": self.epoch,
            "seq": self.seq,
            "inputs": [
                {
                    "input": name,
                    "cursor": mark.cursor,
                    "position": to_json(mark.position),
                    "ledger": to_json(self.ledger_positions.get(name)),
                }
                for name, mark in self.marks.items()
            ],
            "ledger": {"epoch": self.ledger_batch[0], "seq": self.ledger_batch[1]},
            "notes": list(self.notes),
            "error": error_to_json(self.error) if self.error else None,
        }


def preview_rebuild(
    project: Project, selection: Sequence[str], *, debug: bool = False
) -> list[RebuildPreview]:
    """Show where every output stands, and whether the ledger can be set to it. Changes nothing.

    An error of one flow is in its result, and does not stop the others.
    """
    with open_ledger(project.ledger, create=False) as ledger:
        statuses = {status.flow: status for status in ledger.status(project.pipeline)}
        marks = gather_by_flow(ledger.watermarks(project.pipeline))
    with KnownSources(project, tuple(statuses)) as sources:
        recorded = {flow: mine[0].source_id for flow, mine in marks.items()}
        choice = choose(project, selection, sources, recorded=recorded)
    delta_tables = DeltaTableLocator(
        lambda: open_session(project.spark, find_jars(choice.all_flows), debug=debug)
    )
    resources = FlowResources(SourceConnections(), delta_tables)

    def preview_one(flow: DataFlow) -> RebuildPreview:
        mine = marks.get(flow.name, [])
        recorded = RebuildPreview(
            flow.name,
            ledger_positions={mark.input: mark.position for mark in mine},
            ledger_batch=max(((mark.epoch, mark.seq) for mark in mine), default=(0, 0)),
        )
        try:
            found = open_flow(flow, resources).recall()
            if found is not None:
                recorded = replace(
                    recorded, epoch=found.epoch, seq=found.seq, marks=found.marks, notes=found.notes
                )
            return _check(recorded, statuses.get(flow.name))
        except TidegaugeError as error:
            return replace(recorded, error=error)

    return [*_report_faults(choice), *_run_parallel(choice.all_flows, preview_one)]


def run_rebuild(project: Project, found: Sequence[RebuildPreview], *, reason: str) -> list[RebuildPreview]:
    """Write the previewed watermarks. An error of one flow is in its result, and does not stop the others."""
    done: list[RebuildPreview] = []
    with open_ledger(project.ledger, create=True) as ledger:
        for one in found:
            if not one.is_behind:
                done.append(one)
                continue
            try:
                ledger.rebuild(
                    project.pipeline,
                    one.flow,
                    one.marks,
                    one.epoch,
                    one.seq,
                    owner=this_process(),
                    reason=reason,
                )
                done.append(replace(one, done=True))
            except TidegaugeError as error:
                done.append(replace(one, error=error))
    return done


def _check(found: RebuildPreview, status: FlowStatus | None) -> RebuildPreview:
    """Add the error that the ledger would raise, if it would refuse the rebuild."""
    error: TidegaugeError | None = None
    if found.ledger_batch > (found.epoch, found.seq):
        error = ledger_ahead_error(found.flow, found.ledger_batch, (found.epoch, found.seq))
    elif found.is_behind and status is not None and status.override is not None:
        error = WrongState(
            f"{found.flow}: an override ({status.override.kind}) that {status.override.actor} began has not"
            " ended",
            hint="`tidegauge run` ends it; then rebuild, if there is still need to",
            retryable=True,
        )
    elif found.is_behind and status is not None and status.plan is not None:
        error = active_plan_error(found.flow, status.state, status.owner)
    return replace(found, error=error) if error else found


def _report_faults(choice: Selection) -> list[RebuildPreview]:
    return [RebuildPreview(name, error=error) for name, error in choice.faults]


def _run_parallel(
    flows: Sequence[DataFlow], one: Callable[[DataFlow], RebuildPreview]
) -> list[RebuildPreview]:
    if not flows:
        return []
    with ThreadPoolExecutor(min(_PARALLEL, len(flows))) as pool:
        return list(pool.map(one, flows))
