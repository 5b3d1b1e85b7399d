"""The list of runs, and one run: its flows on one line of time, their counts, and the JSON behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegauge.dashboard.positions import Axis, second_of
from tidegauge.dashboard.snapshot import FleetSnapshots
from tidegauge.errors import TidegaugeError
from tidegauge.ledger.open import open_ledger
from tidegauge.model.expectation import NOT_AS_EXPECTED
from tidegauge.model.run import HistoryEvent, RunRecord
from tidegauge.model.state import State
from tidegauge.operations.stats import seconds_of
from tidegauge.operations.status import run_to_json

_ATTEMPTS = 1000
"""Of each pipeline, in the list of runs."""
_MOST = 5000
"""Of one run."""
_STEPS = 250
"""That are drawn."""
_RUNS = 100
_EVENTS = 250


@dataclass(frozen=True)
class RunLine:
    """A run, as the list has it."""

    pipeline: str
    run_id: str
    state: State
    began: datetime
    ended: datetime | None
    """None: it is under way, or its process is gone."""
    flows: int
    failed: int
    rows: int
    """Written."""

    @property
    def seconds(self) -> float | None:
        return None if self.ended is None else max((self.ended - self.began).total_seconds(), 0.0)


@dataclass(frozen=True)
class RunsPage:
    at: datetime
    runs: tuple[RunLine, ...]
    whole: bool
    """Whether that is all that the ledger keeps."""


@dataclass(frozen=True)
class RunStep:
    """A flow in a run: from when to when on the run's line of time, and what it waited for."""

    attempt: RunRecord
    began: float
    ended: float
    waited_for: tuple[str, ...]
    """The flows of this run that it reads from."""


@dataclass(frozen=True)
class RunPage:
    at: datetime
    head: RunLine
    axis: Axis
    steps: tuple[RunStep, ...]
    """In the order in which they began; of very many, those that did something before the others."""
    attempts: tuple[RunRecord, ...]
    """All of them."""
    quarantined: int
    events: tuple[HistoryEvent, ...]
    remembered: bool
    """Whether the events that were looked through go back to its beginning."""

    def to_json(self) -> dict[str, Any]:
        """As `run --json` has it, as far as the ledger keeps it."""
        return {
            "schema": "tidegauge/run/1",
            "run_id": self.head.run_id,
            "state": self.head.state.value,
            "rows_quarantined": self.quarantined,
            "flows": [_flow_to_json(one) for one in self.attempts],
        }


def make_runs_page(snapshots: FleetSnapshots) -> RunsPage:
    with open_ledger(snapshots.project.ledger, create=False) as ledger:
        pipelines = dict.fromkeys([snapshots.project.pipeline, *ledger.pipelines()])
        found = [(name, ledger.runs(name, limit=_ATTEMPTS)) for name in pipelines]
        now = ledger.now()
    lines = [line for _, attempts in found for line in gather_runs(attempts)]
    newest = sorted(lines, key=lambda line: line.began, reverse=True)
    whole = len(newest) <= _RUNS and all(len(attempts) < _ATTEMPTS for _, attempts in found)
    return RunsPage(now, tuple(newest[:_RUNS]), whole)


def gather_runs(attempts: Sequence[RunRecord]) -> list[RunLine]:
    """One line for all attempts with the same id; they come newest first."""
    found: dict[str, list[RunRecord]] = {}
    for one in attempts:
        found.setdefault(one.run_id, []).append(one)
    return [_line(run_id, parts) for run_id, parts in found.items()]


def make_run_page(snapshots: FleetSnapshots, pipeline: str, run_id: str) -> RunPage | None:
    """None: the ledger keeps no such run. Of one with thousands of attempts, the last."""
    with open_ledger(snapshots.project.ledger, create=False) as ledger:
        attempts = ledger.runs(pipeline, run_id=run_id, limit=_MOST)
        if not attempts:
            return None
        now = ledger.now()
        newest = ledger.history(pipeline, limit=_EVENTS)
        aside = ledger.history(pipeline, events=[NOT_AS_EXPECTED], limit=_EVENTS)
    head = _line(run_id, attempts)
    events = [one for one in newest if one.run_id == run_id]
    remembered = _reach_back(newest, head.began) and _reach_back(aside, head.began)
    quarantined = sum(one.rows or 0 for one in aside if _is_within(one, attempts, now))
    upstreams = _find_upstreams(snapshots) if pipeline == snapshots.project.pipeline else {}
    axis = Axis(second_of(head.began), max(second_of(head.ended or now), second_of(head.began) + 0.001))
    flows = {one.flow for one in attempts}
    ordered = sorted(attempts, key=_order)
    shown = sorted(sorted(attempts, key=_urgency)[:_STEPS], key=_order)
    steps = tuple(
        RunStep(
            one,
            second_of(one.started_at),
            second_of(one.ended_at or now),
            tuple(name for name in upstreams.get(one.flow, ()) if name in flows),
        )
        for one in shown
    )
    return RunPage(now, head, axis, steps, tuple(ordered), quarantined, tuple(events[:_STEPS]), remembered)


def _reach_back(events: Sequence[HistoryEvent], moment: datetime) -> bool:
    return len(events) < _EVENTS or events[-1].at <= moment


def _line(run_id: str, attempts: Sequence[RunRecord]) -> RunLine:
    ends = [one.ended_at for one in attempts]
    known = [end for end in ends if end is not None]
    return RunLine(
        pipeline=attempts[0].pipeline,
        run_id=run_id,
        state=_state([one.state for one in attempts]),
        began=min(one.started_at for one in attempts),
        ended=max(known) if len(known) == len(ends) else None,
        flows=len({one.flow for one in attempts}),
        failed=sum(one.state is State.FAILED for one in attempts),
        rows=sum(one.rows_written for one in attempts),
    )


def _state(states: Sequence[State]) -> State:
    """The first of these that any of its flows is in."""
    order = (State.RUNNING, State.FAILED, State.PLANNED, State.SUCCESS)
    return next((state for state in order if state in states), State.SKIPPED)


def _order(attempt: RunRecord) -> tuple[datetime, str]:
    return attempt.started_at, attempt.flow


def _urgency(attempt: RunRecord) -> tuple[int, datetime, str]:
    order = (State.FAILED, State.RUNNING, State.PLANNED, State.SUCCESS)
    return order.index(attempt.state) if attempt.state in order else len(order), *_order(attempt)


def _is_within(event: HistoryEvent, attempts: Sequence[RunRecord], now: datetime) -> bool:
    """Notes of what checks found have no run's name; their flow and time tell."""
    return any(
        event.flow == one.flow and one.started_at <= event.at <= (one.ended_at or now) for one in attempts
    )


def _find_upstreams(snapshots: FleetSnapshots) -> Mapping[str, tuple[str, ...]]:
    found = snapshots.structure()
    if isinstance(found, TidegaugeError):
        return {}
    return {flow.name: flow.upstreams for flow in found.all_flows}


def _flow_to_json(attempt: RunRecord) -> dict[str, Any]:
    seconds = seconds_of(attempt)
    window = attempt.window.to_json() if attempt.window else None
    return {
        "flow": attempt.flow,
        **{name: value for name, value in run_to_json(attempt).items() if name != "run_id"},
        "seconds": None if seconds is None else round(seconds, 3),
        **({"windows": [window]} if window else {}),
    }
