"""Run the jobs of flows side by side; a flow that reads what another one writes begins after that one."""

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
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.state import State
from tidegauge.model.view_flow import GraphFlow
from tidegauge.run.context import RunContext
from tidegauge.run.report import FlowReport

_NAP = 0.05
_TOGETHER = 100

Job = Callable[[], list[FlowReport]]


@dataclass(frozen=True)
class Begun:
    """What became of flows whose turn to be planned has come."""

    jobs: Mapping[str, Job]
    """By flow, what is left to do."""
    reports: Sequence[FlowReport] = ()
    """Of the flows that have no job."""
    quiet: frozenset[str] = frozenset()
    """Those that have nothing new: their jobs only say so."""


class Schedule:
    """The jobs of one run."""

    def __init__(
        self,
        context: RunContext,
        begun: Begun,
        later: Sequence[GraphFlow] = (),
        follow: Callable[[Sequence[GraphFlow]], Begun] | None = None,
        *,
        together: AbstractSet[str] = frozenset(),
        order: Sequence[str] = (),
    ) -> None:
        """The jobs of `begun` begin at once; the `later` flows are given to `follow` once all that they read
        from has ended well, and an optimize flow once the readers of its tables have ended too.

        `together`: flows that may be given to it in one call. `order`: of the reports.
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
        self._done: queue.SimpleQueue[tuple[str | None, Future[Begun]]] = queue.SimpleQueue()
        self._awaiting = {flow.name: {*self._awaited(flow)} - self._ended.keys() for flow in later}
        """By flow, those that it still waits for."""
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
                # In short naps: a signal may reach any thread, and only an awake main thread acts on it.
                with contextlib.suppress(queue.Empty):
                    self._take_in(*self._done.get(timeout=_NAP))
        return sorted(self._reports, key=lambda report: self._places.get(report.flow, 0))

    def _begin_next(self, pool: Executor) -> None:
        if self._waiting:
            name, job = self._waiting.popleft()
            self._submit(pool, name, lambda: Begun({}, job()))
            return
        flows: list[GraphFlow] = []
        while self._ready and len(flows) < (_TOGETHER if self._joins(flows) else 1):
            flow = self._ready.popleft()
            bad = next((name for name in self._above(flow) if self._is_bad(name)), None)
            if bad is None:
                flows.append(flow)
                continue
            self._held_back.add(flow.name)
            self._end(flow.name, [self._hold_back(flow, self._ended[bad])])
        if flows:
            assert self._follow is not None
            self._submit(pool, None, partial(self._follow, flows))

    def _joins(self, flows: Sequence[GraphFlow]) -> bool:
        """Whether the next flow that is ready may be planned together with these."""
        return all(one.name in self._together for one in (*flows, self._ready[0]))

    def _submit(self, pool: Executor, name: str | None, work: Callable[[], Begun]) -> None:
        self._working += 1
        pool.submit(work).add_done_callback(lambda future: self._done.put((name, future)))

    def _take_in(self, name: str | None, future: Future[Begun]) -> None:
        """What a job, or the planning of flows (which has no name), has come to."""
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

    def _above(self, flow: GraphFlow) -> list[str]:
        """The flows of this run that it reads from."""
        return [name for name in flow.upstreams if name in self._expected]

    def _awaited(self, flow: GraphFlow) -> list[str]:
        readers = flow.readers if isinstance(flow, OptimizeFlow) else ()
        return [*self._above(flow), *(name for name in readers if name in self._expected)]

    def _is_bad(self, name: str) -> bool:
        return name in self._held_back or not self._ended[name].ok

    def _hold_back(self, flow: GraphFlow, before: FlowReport) -> FlowReport:
        """What is not begun because a flow that it reads from did not end well."""
        if isinstance(before.error, Stopped):
            stopped = Stopped("stopped as asked, before it began", hint="the next run goes on from here")
            return FlowReport(flow.name, State.READY, 0.0, error=stopped)
        held = isinstance(before.error, FlowHeld)
        ended = "is held by another runner" if held else "did not end well"
        reason = f"{before.flow} {ended}{flow.skip_hint}"
        return self._context.end(FlowReport(flow.name, State.SKIPPED, 0.0, reason=reason))
