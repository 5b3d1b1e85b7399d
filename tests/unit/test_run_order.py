"""In which order flows run, and what a failure stops."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from tidegauge.errors import FlowHeld, SourceError, Stopped, TidegaugeError
from tidegauge.flows.selection.select_words import select_flows
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, TableRef
from tidegauge.model.spec import Project, SparkSettings
from tidegauge.model.state import State
from tidegauge.run.context import RunContext
from tidegauge.run.jobs import JobRunner, PlannedJobs
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport

GRAPH = {
    "bronze_a": (),
    "bronze_b": (),
    "silver_a": ("bronze_a",),
    "silver_ab": ("bronze_a", "bronze_b"),
    "gold": ("silver_a", "silver_ab"),
    "alone": ("elsewhere",),
}


def delta_flow(name: str, above: tuple[str, ...]) -> DeltaFlow:
    table = TableRef(path=f"/{name}")
    part = DeltaInput("t", TableRef(path="/t"))
    return DeltaFlow("p", name, (part,), DeltaTable(table, key=("id",)), upstreams=above, tags=(name[:4],))


LAYERS = [delta_flow(name, above) for name, above in GRAPH.items()]


@dataclass
class Recorder:
    """A run whose flows only say when they began and ended."""

    faults: dict[str, TidegaugeError] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def __init__(self, **faults: TidegaugeError) -> None:
        project = Project(
            "p", Path("/p/tidegauge.yml"), "sqlite://", cast("Any", None), SparkSettings(), {}, ()
        )
        self.context = RunContext(
            project,
            RunOptions(parallel=3),
            cast("Any", None),
            cast("Any", None),
            lambda _: None,
            threading.Event(),
        )
        self.faults, self.said = faults, []
        self.together: set[str] = set()
        self.refused: set[str] = set()
        self.planned: list[list[str]] = []

    def _work(self, flow: Any) -> list[FlowReport]:
        self.said.append(f"+{flow.name}")
        error = self.faults.get(flow.name)
        self.said.append(f"-{flow.name}")
        return [FlowReport(flow.name, State.FAILED if error else State.SUCCESS, 0.0, error=error)]

    def go(self) -> dict[str, FlowReport]:
        heads = PlannedJobs(
            {flow.name: partial(self._work, flow) for flow in LAYERS if "bronze" in flow.name}
        )
        later = [flow for flow in LAYERS if "bronze" not in flow.name]
        schedule = JobRunner(self.context, heads, later, self._follow, together=self.together)
        return {report.flow: report for report in schedule.run()}

    def _follow(self, flows: Any) -> PlannedJobs:
        self.planned.append([flow.name for flow in flows])
        if not self.together:
            return PlannedJobs({}, [report for flow in flows for report in self._work(flow)])
        jobs = {flow.name: partial(self._work, flow) for flow in flows if flow.name not in self.refused}
        refused = [FlowReport(name, State.FAILED, 0.0, error=SourceError("no")) for name in self.refused]
        return PlannedJobs(jobs, [one for one in refused if one.flow in {flow.name for flow in flows}])


def test_whoever_reads_comes_after_whom_it_reads_from() -> None:
    runner = Recorder()
    found = runner.go()
    assert {report.state for report in found.values()} == {State.SUCCESS}
    assert set(found) == set(GRAPH)
    for name, above in GRAPH.items():
        for upper in above:
            if upper in GRAPH:
                assert runner.said.index(f"-{upper}") < runner.said.index(f"+{name}")


def test_a_failure_stops_only_what_reads_from_it_however_far_down() -> None:
    found = Recorder(bronze_b=SourceError("gone")).go()
    assert {name for name, report in found.items() if report.state is State.SUCCESS} == {
        "bronze_a",
        "silver_a",
        "alone",
    }
    assert found["silver_ab"].state is found["gold"].state is State.SKIPPED
    assert found["silver_ab"].reason == "bronze_b did not end well"
    assert found["gold"].reason == "silver_ab did not end well"


def test_what_reads_from_a_flow_that_another_runner_holds_says_just_that() -> None:
    found = Recorder(bronze_b=FlowHeld("held")).go()
    assert found["silver_ab"].reason == "bronze_b is held by another runner"


def test_what_was_stopped_on_the_way_is_for_the_next_run() -> None:
    found = Recorder(silver_a=Stopped("stopped as asked")).go()
    assert found["gold"].state is State.READY
    assert isinstance(found["gold"].error, Stopped)


def test_flows_that_are_ready_together_are_planned_in_one_call_and_executed_one_by_one() -> None:
    runner = Recorder()
    runner.together = {"silver_a", "silver_ab"}
    runner.context.options = RunOptions(parallel=1)
    found = runner.go()
    assert {report.state for report in found.values()} == {State.SUCCESS}
    assert ["silver_a", "silver_ab"] in runner.planned
    assert ["gold"] in runner.planned
    assert runner.said.index("-silver_ab") < runner.said.index("+gold")


def test_a_flow_that_planning_refuses_stops_what_reads_from_it_and_not_those_beside_it() -> None:
    runner = Recorder()
    runner.together, runner.refused = {"silver_a", "silver_ab"}, {"silver_ab"}
    found = runner.go()
    assert found["silver_a"].state is State.SUCCESS
    assert found["silver_ab"].state is State.FAILED
    assert found["gold"].reason == "silver_ab did not end well"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], set(GRAPH)),
        (["gold"], {"gold"}),
        (["+silver_ab"], {"silver_ab", "bronze_a", "bronze_b"}),
        (["bronze_b+"], {"bronze_b", "silver_ab", "gold"}),
        (["+gold", "alone"], set(GRAPH)),
        (["silver_*"], {"silver_a", "silver_ab"}),
        (["tag:bron"], {"bronze_a", "bronze_b"}),
        (["/gold"], {"gold"}),
        (["nobody"], set()),
    ],
)
def test_flows_are_selected_by_name_pattern_tag_table_and_neighbours(
    words: list[str], names: set[str]
) -> None:
    found, unknown = select_flows(LAYERS, words)
    assert {one.name for one in found} == names
    assert unknown == (["nobody"] if words == ["nobody"] else [])
