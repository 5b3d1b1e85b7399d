"""Run the jobs of flows side by side; a flow that reads what another one writes begins after that one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from functools import partial

from tidegauge.errors import FlowHeld, Stopped
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.state import State
from tidegauge.model.view_flow import GraphFlow
from tidegauge.run.context import RunContext
from tidegauge.run.report import FlowReport

_NAP = 0.05

Job = Callable[[], list[FlowReport]]


class Schedule:
    """The jobs of one run."""

    def __init__(
        self,
        context: RunContext,
        jobs: Mapping[str, Job],
        later: Sequence[GraphFlow] = (),
        follow: Callable[[GraphFlow], list[FlowReport]] | None = None,
        before: Sequence[FlowReport] = (),
        order: Sequence[str] = (),
    ) -> None:
        """`jobs`, by flow, begin at once; each of the `later` flows is given to `follow` once all that it
        reads from has ended well, and an optimize flow once the readers of its tables have ended too.

        `before` are the reports of flows that never got as far as a job. `order`: of the reports.
        """
        self._context = context
        self._jobs = jobs
        self._later = list(later)
        self._follow = follow
        self._reports = list(before)
        self._places = {name: place for place, name in enumerate(order)}
        self._ended = {report.flow: report for report in before}
        """The last report of each flow."""
        self._expected = {*jobs, *self._ended, *(flow.name for flow in later)}
        self._held_back: set[str] = set()

    def run(self) -> list[FlowReport]:
        working: dict[Future[list[FlowReport]], str] = {}
        with self._context.environment.threads(self._context.options.side_by_side) as pool:
            for name, job in self._jobs.items():
                working[pool.submit(job)] = name
            while working or self._later:
                if self._begin_later(pool, working):
                    continue
                # In short naps: a signal may reach any thread, and only an awake main thread acts on it.
                done, _ = wait(working, timeout=_NAP, return_when=FIRST_COMPLETED)
                for future in done:
                    found = future.result()
                    self._ended[working.pop(future)] = found[-1]
                    self._reports += found
        return sorted(self._reports, key=lambda report: self._places.get(report.flow, 0))

    def _begin_later(self, pool: Executor, working: dict[Future[list[FlowReport]], str]) -> bool:
        """Begin the flows, or hold them back, whose inputs have all ended; whether there were any."""
        ready = [flow for flow in self._later if all(name in self._ended for name in self._awaited(flow))]
        for flow in ready:
            bad = next((name for name in self._above(flow) if self._is_bad(name)), None)
            if bad is None:
                assert self._follow is not None
                working[pool.submit(partial(self._follow, flow))] = flow.name
            else:
                self._held_back.add(flow.name)
                self._ended[flow.name] = self._hold_back(flow, self._ended[bad])
                self._reports.append(self._ended[flow.name])
        self._later = [flow for flow in self._later if flow not in ready]
        return bool(ready)

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
