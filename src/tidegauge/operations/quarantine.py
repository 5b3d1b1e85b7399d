"""Lists quarantined rows, checks them again, or discards them, with a reason."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegauge.errors import ConfigError, TidegaugeError, WrongState
from tidegauge.flows.flow import resources_for
from tidegauge.flows.quarantine.open import ReplayableQuarantine, open_quarantines
from tidegauge.flows.quarantine.summary import QuarantineSummary
from tidegauge.flows.selection.select import choose
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.by_flow import gather_by_flow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.spec import Project
from tidegauge.observe.events import Listener
from tidegauge.operations import override
from tidegauge.run.options import RunOptions
from tidegauge.run.run import run
from tidegauge.sources.connections import SourceConnections


@dataclass(frozen=True)
class QuarantineResult:
    """What was done with a flow's quarantined rows."""

    before: QuarantineSummary
    left: int
    error: TidegaugeError | None = None

    def to_json(self) -> dict[str, Any]:
        error = error_to_json(self.error) if self.error else None
        return {**self.before.to_json(), "left": self.left, "error": error}


def find(project: Project, selection: Sequence[str], *, debug: bool = False) -> list[ReplayableQuarantine]:
    """Find the selected flows that can quarantine rows. Raises ConfigError if there are none."""
    with SourceConnections() as sources:
        flows = choose(project, selection, sources).all_flows
        places = resources_for(project, flows, sources, debug=debug).delta_tables
    found = open_quarantines(flows, places, named=bool(selection))
    if not found:
        raise ConfigError(
            "no flow is selected that sets rows aside",
            hint="`tidegauge status` lists the flows; name one whose expectations were removed by --select",
        )
    return found


def show(found: Sequence[ReplayableQuarantine], *, examples: int = 0) -> list[QuarantineSummary]:
    """Return what is quarantined, without flows that have no such rows."""
    return [shown for one in found if (shown := one.show(examples)).rows]


def discard(
    project: Project, found: Sequence[ReplayableQuarantine], *, reason: str
) -> list[QuarantineResult]:
    """Delete the rows, and record the reason in the history."""
    done: list[QuarantineResult] = []
    for one in found:
        before = one.show(0)
        if not before.rows:
            continue
        try:
            one.discard(reason)
            _note(project, one, "quarantine_discarded", f"{before.rows:,} rows: {reason}")
            done.append(QuarantineResult(before, one.show(0).rows))
        except TidegaugeError as error:
            done.append(QuarantineResult(before, before.rows, error))
    return done


def replay(
    project: Project,
    found: Sequence[ReplayableQuarantine],
    *,
    reason: str,
    tell: Listener,
    stop: threading.Event,
) -> list[QuarantineResult]:
    """Check the rows again with the current expectations; those that pass go to the target."""
    done: list[QuarantineResult] = []
    for one in found:
        before = one.show(0)
        if not before.rows:
            continue
        try:
            _replay(project, one, reason, tell, stop)
            left = one.show(0).rows
            _note(project, one, "quarantine_replayed", f"{before.rows:,} rows, {left:,} left: {reason}")
            done.append(QuarantineResult(before, left))
        except TidegaugeError as error:
            done.append(QuarantineResult(before, before.rows, error))
    return done


def _replay(
    project: Project, one: ReplayableQuarantine, reason: str, tell: Listener, stop: threading.Event
) -> None:
    name = one.flow.name
    with open_ledger(project.ledger, create=False) as ledger:
        marks = gather_by_flow(ledger.watermarks(project.pipeline, [name])).get(name, [])
    request = one.set_back({mark.input: mark for mark in marks})
    if request is None:
        one.append(reason)
        return
    previews = override.preview_override(project, [name], request)
    if not previews:
        raise WrongState(
            f"{name} is before these rows: its watermark has not reached them",
            hint="run it, then replay once more",
        )
    [result] = override.run_override(
        project, previews, reason=f"replay of the quarantine: {reason}", tell=tell
    )
    if result.error is not None:
        raise result.error
    report = run(project, RunOptions((name,)), tell=tell, stop=stop)
    for error in report.errors:
        raise error
    if not any(flow.batches for flow in report.flows):
        raise WrongState(f"{name}: nothing was read again", hint="run it, then replay once more")
    # Rows that fail again were quarantined again, under the epoch that has just begun.
    one.discard(reason, before_epoch=result.epoch)


def _note(project: Project, one: ReplayableQuarantine, event: str, reason: str) -> None:
    with open_ledger(project.ledger, create=True) as ledger:
        ledger.note(project.pipeline, one.flow.name, event, owner=this_process(), reason=reason)
