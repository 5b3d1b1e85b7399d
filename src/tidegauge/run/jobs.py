"""Run the jobs of flows side by side. A flow begins after the flows that it reads from have ended."""

from __future__ import annotations

import contextlib
import queue
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from tidegauge.errors import FlowHeld, Stopped
from tidegauge.model.state import State
from tidegauge.model.view_flow import GraphFlow
from tidegauge.run.context import RunContext
from tidegauge.run.report import FlowReport

_NAP = 0.05
"""Seconds to wait for the end of a job before looking for signals again."""
_TOGETHER = 100
"""How many flows are planned together at most."""

Job = Callable[[], list[FlowReport]]
"""Does the work of one flow and returns its reports."""


@dataclass(frozen=True)
class PlannedJobs:
    """The result of planning some flows: jobs to run, and reports of flows that have none."""

    jobs: Mapping[str, Job]
    """By flow, the job that is left to run."""
    reports: Sequence[FlowReport] = ()
    """Reports of the flows that have no job."""
    quiet: frozenset[str] = frozenset()
    """Flows that have nothing new: their jobs only report that."""


class JobRunner:
    """Runs the jobs of one run, in the order that the graph of flows asks for."""

    def __init__(
        self,
        context: RunContext,
        begun: PlannedJobs,
        later: Sequence[GraphFlow] = (),
        follow: Callable[[Sequence[GraphFlow]], PlannedJobs] | None = None,
        *,
        together: AbstractSet[str] = frozenset(),
        order: Sequence[str] = (),
    ) -> None:
        """The jobs of `begun` may start at once. Flows of `later` are passed to `follow`, which plans them,
        once all flows that they read from have ended well. An optimize flow also waits for the readers of
        its tables.

        `together`: flows that may be passed to `follow` in one call. `order`: flow names, in the order of the
        reports that `run` returns.
        """
        self._context = context
        self._waiting = deque(begun.jobs.items())
        self._follow = follow
        self._together = together
        self._reports = list(begun.reports)
        self._places = {name: place for place, name in enumerate(order)}
        self._ended = {report.flow: report for report in begun.reports}
        """The last report of each flow."""
        self._expected = {*begun.jobs, *self._ended, *(flow.name for flow in later)}
        self._held_back: set[str] = set()
        self._working = 0
        self._done: queue.SimpleQueue[tuple[str | None, Future[PlannedJobs]]] = queue.SimpleQueue()
        self._awaiting = {flow.name: {*self._find_awaited(flow)} - self._ended.keys() for flow in later}
        """By flow, the flows that it still waits for."""
        self._after: dict[str, list[GraphFlow]] = {}
        for flow in later:
            for name in self._awaiting[flow.name]:
                self._after.setdefault(name, []).append(flow)
        self._ready = deque(flow for flow in later if not self._awaiting[flow.name])

    def run(self) -> list[FlowReport]:
        side_by_side = self._context.options.side_by_side
        with self._context.environment.threads(side_by_side) as pool:
            while self._waiting or self._ready or self._working:
                while (self._waiting or self._ready) and self._working < side_by_side:
                    self._begin_next(pool)
                # A short timeout: the main thread handles signals, and only while it is not blocked.
                with contextlib.suppress(queue.Empty):
                    self._take_result(*self._done.get(timeout=_NAP))
        return sorted(self._reports, key=lambda report: self._places.get(report.flow, 0))

    def _begin_next(self, pool: Executor) -> None:
        if self._waiting:
            name, job = self._waiting.popleft()
            self._submit(pool, name, lambda: PlannedJobs({}, job()))
            return
        flows: list[GraphFlow] = []
        while self._ready and len(flows) < (_TOGETHER if self._can_join(flows) else 1):
            flow = self._ready.popleft()
            bad = next((name for name in self._find_upstreams(flow) if self._has_failed(name)), None)
            if bad is None:
                flows.append(flow)
                continue
            self._held_back.add(flow.name)
            self._end(flow.name, [self._hold_back(flow, self._ended[bad])])
        if flows:
            assert self._follow is not None
            self._submit(pool, None, partial(self._follow, flows))

    def _can_join(self, flows: Sequence[GraphFlow]) -> bool:
        """Whether the next ready flow may be planned together with these flows."""
        return all(one.name in self._together for one in (*flows, self._ready[0]))

    def _submit(self, pool: Executor, name: str | None, work: Callable[[], PlannedJobs]) -> None:
        self._working += 1
        pool.submit(work).add_done_callback(lambda future: self._done.put((name, future)))

    def _take_result(self, name: str | None, future: Future[PlannedJobs]) -> None:
        """Take in the result of a job, or of planning flows (then `name` is None)."""
        self._working -= 1
        found = future.result()
        self._waiting.extend(found.jobs.items())
        for flow, reports in groupby(found.reports, key=lambda report: name or report.flow):
            self._end(flow, [*reports])

    def _end(self, name: str, reports: Sequence[FlowReport]) -> None:
        self._reports += reports
        self._ended[name] = reports[-1]
        for flow in self._after.pop(name, ()):
            self._awaiting[flow.name].discard(name)
            if not self._awaiting[flow.name]:
                self._ready.append(flow)

    def _find_upstreams(self, flow: GraphFlow) -> list[str]:
        """Find the flows of this run that the flow reads from."""
        return [name for name in flow.upstreams if name in self._expected]

    def _find_awaited(self, flow: GraphFlow) -> list[str]:
        """Find the flows of this run that must end before this one begins."""
        return [name for name in flow.waits_for if name in self._expected]

    def _has_failed(self, name: str) -> bool:
        """Whether the flow did not end well, or was not begun because of such a flow."""
        return name in self._held_back or not self._ended[name].ok

    def _hold_back(self, flow: GraphFlow, before: FlowReport) -> FlowReport:
        """Report a flow that is not begun because a flow that it reads from (`before`) did not end well."""
        if isinstance(before.error, Stopped):
            stopped = Stopped("stopped as asked, before it began", hint="the next run goes on from here")
            return FlowReport(flow.name, State.READY, 0.0, error=stopped)
        held = isinstance(before.error, FlowHeld)
        ended = "is held by another runner" if held else "did not end well"
        reason = f"{before.flow} {ended}{flow.skip_hint}"
        return self._context.end(FlowReport(flow.name, State.SKIPPED, 0.0, reason=reason))
