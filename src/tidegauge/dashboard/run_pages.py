"""The list of runs, and the page of one run: its flows on a line of time, their counts, and its JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegauge.dashboard.positions import Axis, second_of
from tidegauge.dashboard.snapshot import FleetSnapshots
from tidegauge.errors import TidegaugeError
from tidegauge.ledger.open import open_ledger
from tidegauge.model.expectation import NOT_AS_EXPECTED
from tidegauge.model.plan import describe_window
from tidegauge.model.run import HistoryEvent, RunRecord
from tidegauge.model.state import State, tell_state
from tidegauge.model.watermark import Watermark
from tidegauge.operations.stats import seconds_of
from tidegauge.operations.status import run_to_json

_ATTEMPTS = 1000
"""How many attempts of each pipeline are read for the list of runs."""
_MOST = 5000
"""How many attempts of one run are read."""
_STEPS = 250
"""How many steps of one run are drawn."""
_RUNS = 100
_EVENTS = 250


@dataclass(frozen=True)
class RunLine:
    """One run in the list of runs."""

    pipeline: str
    run_id: str
    state: State
    began: datetime
    ended: datetime | None
    """None if the run is under way, or its process is gone."""
    flows: int
    failed: int
    rows: int
    """Rows written."""
    ended_as_skipped: bool = False
    """Whether a job gave up the plan that it had."""

    @property
    def told(self) -> str:
        return tell_state(self.state, prevented=self.ended_as_skipped)

    @property
    def seconds(self) -> float | None:
        return None if self.ended is None else max((self.ended - self.began).total_seconds(), 0.0)


@dataclass(frozen=True)
class RunsPage:
    at: datetime
    runs: tuple[RunLine, ...]
    whole: bool
    """Whether these are all the runs that the ledger keeps."""


@dataclass(frozen=True)
class RunStep:
    """One flow in a run: when it began and ended, in seconds since 1970, and what it waited for."""

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
    """The steps that are drawn, in the order in which they began. If there are too many, those that failed or
    did something are kept first."""
    attempts: tuple[RunRecord, ...]
    """All attempts of the run, in the order in which they began."""
    quarantined: int
    events: tuple[HistoryEvent, ...]
    remembered: bool
    """Whether the events that were read go back to the beginning of the run."""
    inputs: Mapping[str, tuple[str, str]]
    """By flow, the name and cursor of its first input, whose window an attempt has; without flows of which
    that is not known."""

    def to_json(self) -> dict[str, Any]:
        """The document that `run --json` prints, as far as the ledger keeps its contents."""
        return {
            "schema": "tidegauge/run/1",
            "run_id": self.head.run_id,
            "state": self.head.state.value,
            "rows_quarantined": self.quarantined,
            "flows": [_flow_to_json(one, self.inputs.get(one.flow)) for one in self.attempts],
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
    """One line for all attempts with the same run id. Lines are in the order of `attempts`, newest first."""
    found: dict[str, list[RunRecord]] = {}
    for one in attempts:
        found.setdefault(one.run_id, []).append(one)
    return [_make_line(run_id, parts) for run_id, parts in found.items()]


def make_run_page(snapshots: FleetSnapshots, pipeline: str, run_id: str) -> RunPage | None:
    """The page of one run; None if the ledger has none. Only the last 5,000 attempts of a run are read."""
    with open_ledger(snapshots.project.ledger, create=False) as ledger:
        attempts = ledger.runs(pipeline, run_id=run_id, limit=_MOST)
        if not attempts:
            return None
        now = ledger.now()
        marks = ledger.watermarks(pipeline, list({one.flow for one in attempts}))
        newest = ledger.history(pipeline, limit=_EVENTS)
        aside = ledger.history(pipeline, events=[NOT_AS_EXPECTED], limit=_EVENTS)
    head = _make_line(run_id, attempts)
    events = [one for one in newest if one.run_id == run_id]
    remembered = _reach_back(newest, head.began) and _reach_back(aside, head.began)
    quarantined = sum(one.rows or 0 for one in aside if _is_within(one, attempts, now))
    upstreams = _find_upstreams(snapshots) if pipeline == snapshots.project.pipeline else {}
    axis = Axis(second_of(head.began), max(second_of(head.ended or now), second_of(head.began) + 0.001))
    flows = {one.flow for one in attempts}
    ordered = sorted(attempts, key=_order)
    shown = sorted(sorted(attempts, key=_urgency)[:_STEPS], key=_order)
    steps = tuple(_make_step(one, now, upstreams.get(one.flow, ()), flows) for one in shown)
    inputs = _find_first_inputs(snapshots, pipeline, marks)
    return RunPage(
        now, head, axis, steps, tuple(ordered), quarantined, tuple(events[:_STEPS]), remembered, inputs
    )


def _make_step(one: RunRecord, now: datetime, upstreams: Sequence[str], flows: Set[str]) -> RunStep:
    waited_for = tuple(name for name in upstreams if name in flows)
    return RunStep(one, second_of(one.started_at), second_of(one.ended_at or now), waited_for)


def _reach_back(events: Sequence[HistoryEvent], moment: datetime) -> bool:
    """Whether no event since this moment is missing from those that were read, which come newest first."""
    return len(events) < _EVENTS or events[-1].at <= moment


def _make_line(run_id: str, attempts: Sequence[RunRecord]) -> RunLine:
    ends = [one.ended_at for one in attempts]
    known = [end for end in ends if end is not None]
    return RunLine(
        pipeline=attempts[0].pipeline,
        run_id=run_id,
        state=_combine_states([one.state for one in attempts]),
        began=min(one.started_at for one in attempts),
        ended=max(known) if len(known) == len(ends) else None,
        flows=len({one.flow for one in attempts}),
        failed=sum(one.state is State.FAILED for one in attempts),
        rows=sum(one.rows_written for one in attempts),
        ended_as_skipped=any(one.ended_as_skipped for one in attempts),
    )


def _combine_states(states: Sequence[State]) -> State:
    """The state of a whole run: the first in `order` that any of its flows is in."""
    order = (State.RUNNING, State.FAILED, State.PLANNED, State.SUCCESS)
    return next((state for state in order if state in states), State.SKIPPED)


def _order(attempt: RunRecord) -> tuple[datetime, str]:
    return attempt.started_at, attempt.flow


def _urgency(attempt: RunRecord) -> tuple[int, datetime, str]:
    order = (State.FAILED, State.RUNNING, State.PLANNED, State.SUCCESS)
    return order.index(attempt.state) if attempt.state in order else len(order), *_order(attempt)


def _is_within(event: HistoryEvent, attempts: Sequence[RunRecord], now: datetime) -> bool:
    """Whether an event of failed checks is of these attempts. It has no run id, so its flow and time tell."""
    return any(
        event.flow == one.flow and one.started_at <= event.at <= (one.ended_at or now) for one in attempts
    )


def _find_upstreams(snapshots: FleetSnapshots) -> Mapping[str, tuple[str, ...]]:
    found = snapshots.structure()
    if isinstance(found, TidegaugeError):
        return {}
    return {flow.name: flow.upstreams for flow in found.all_flows}


def _find_first_inputs(
    snapshots: FleetSnapshots, pipeline: str, marks: Sequence[Watermark]
) -> dict[str, tuple[str, str]]:
    structure = snapshots.structure() if pipeline == snapshots.project.pipeline else None
    flows = () if structure is None or isinstance(structure, TidegaugeError) else structure.all_flows
    first = {flow.name: flow.input for flow in flows}
    count = Counter(mark.flow for mark in marks)
    return {
        mark.flow: (mark.input, mark.cursor)
        for mark in marks
        if count[mark.flow] == 1 or first.get(mark.flow) == mark.input
    }


def _flow_to_json(attempt: RunRecord, first_input: tuple[str, str] | None) -> dict[str, Any]:
    seconds = seconds_of(attempt)
    of_input, cursor = first_input or (None, None)
    window = attempt.window
    return {
        "flow": attempt.flow,
        **{name: value for name, value in run_to_json(attempt).items() if name != "run_id"},
        "seconds": None if seconds is None else round(seconds, 3),
        **({"windows": [describe_window(of_input, cursor, window)]} if window else {}),
    }
