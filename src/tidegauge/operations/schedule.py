"""Runs flows when they are due, in the foreground, until it is asked to stop."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegauge.errors import ConfigError, LedgerUnreachable
from tidegauge.flows.selection.scheduled import ScheduledPart, digest, find_scheduled
from tidegauge.flows.spark_jars import find_project_jars
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.owner import is_gone, this_process
from tidegauge.model.claim import Owner
from tidegauge.model.schedule import SKEW
from tidegauge.model.spec import Project
from tidegauge.model.ticks import SeenScheduler
from tidegauge.operations.tick import Say, TickLines, TickResult, run_tick
from tidegauge.operations.tick_alerts import TickAlerts
from tidegauge.run.environment import Environment
from tidegauge.run.options import RunOptions
from tidegauge.spark.warm import WarmSpark

BEAT = 60.0
"""Seconds between two heartbeats, and the most between two looks at the ledger."""
_NAP = 0.2
"""Seconds between two checks whether a run has ended."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a ledger that did not answer is asked again: from the first to the longest, doubling."""
_JUMP = timedelta(minutes=1)


@dataclass
class SchedulerState:
    """What a scheduler knows about itself, for its health page. Only the scheduler writes it."""

    next: datetime | None = None
    last: TickResult | None = None
    ticks: int = 0
    skipped: int = 0
    missed: int = 0
    failed: int = 0
    failing: dict[str, int] = field(default_factory=dict)
    """Number of failed times in a row, by schedule."""
    looked: float = field(default_factory=time.monotonic)
    """When the ledger last answered, on this process's monotonic clock."""
    trouble: str | None = None
    """Why the ledger does not answer now; None if it does."""


class Scheduler:
    """Runs the project's schedules. Of several schedulers on one ledger, one gets each due time. The ledger
    decides, by its clock; if a scheduler dies, others take over as soon as they notice."""

    def __init__(
        self,
        project: Project,
        *,
        options: RunOptions,
        say: Say,
        stop: threading.Event,
        most: int | None = None,
    ) -> None:
        """`most`: end after this many due times. Raises ConfigError if the project has no schedule."""
        self._project = project
        self._parts = find_scheduled(project)
        if not self._parts:
            raise ConfigError(
                f"{project.file} has no schedule",
                hint="add `schedule: every 5 minutes` at the top, to a sync or to a flow",
            )
        self.state = SchedulerState()
        self._me = SeenScheduler(this_process(), digest(self._parts), str(project.file), datetime(1970, 1, 1))
        self._options = options
        self._say = say
        self._tell = TickLines(say)
        self._alerts = TickAlerts(project, say)
        self._stop = stop
        self._most = most
        self._warm = WarmSpark(find_project_jars(project))
        self._environment = Environment(spark=self._warm.open)
        self._running: dict[str, Future[TickResult]] = {}
        self._next: dict[str, datetime] = {}
        self._taken = 0
        self._beat: float | None = None
        self._seen: tuple[datetime, float] | None = None

    def run(self) -> SchedulerState:
        """Run until stopped. Raises SchedulersDisagree, and ledger errors that a retry cannot solve."""
        for part in self._parts:
            self._say(f"{part.schedule}: {', '.join(part.names)}")
        named = {name for part in self._parts for name in part.names}
        for flow in self._project.optimizes:
            if flow.name not in named:
                self._say(f"{flow.name}: not scheduled: not every flow of the file has one schedule")
        with (
            open_ledger(self._project.ledger, create=True) as ledger,
            ThreadPoolExecutor(len(self._parts), thread_name_prefix="tidegauge-schedule") as pool,
        ):
            try:
                self._loop(ledger, pool)
            finally:
                self._finish(ledger)
        return self.state

    def _loop(self, ledger: Ledger, pool: ThreadPoolExecutor) -> None:
        pause = 0.0
        while not self._stop.is_set() and not (self._is_enough() and not self._running):
            try:
                wait = self._look(ledger, pool)
                pause, self.state.trouble, self.state.looked = 0.0, None, time.monotonic()
            except LedgerUnreachable as error:
                if not error.retryable:
                    raise
                pause = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
                self.state.trouble = error.message
                self._say(f"{error.message}; asking again in {pause:.0f} s")
                wait = pause
            self._sleep(wait)

    def _sleep(self, seconds: float) -> None:
        """Sleep for so long, but wake up if asked to stop or if a run has ended."""
        end = time.monotonic() + seconds
        while not self._stop.is_set() and (left := end - time.monotonic()) > 0:
            if self.state.trouble is None and any(one.done() for one in self._running.values()):
                return
            self._stop.wait(min(left, _NAP) if self._running else left)

    def _look(self, ledger: Ledger, pool: ThreadPoolExecutor) -> float:
        """Begin what is due; return how many seconds to sleep."""
        self._gather(ledger)
        if not self._running:
            self._renew_spark()
        now = ledger.now()
        anew = self._notice_jump(now)
        beat = self._beat is None or time.monotonic() - self._beat >= BEAT
        due = [part for part in self._parts if beat or anew or now >= self._next.get(str(part.schedule), now)]
        dead = self._find_dead(ledger) if due else ()
        if beat:
            schedules = [part.schedule for part in self._parts]
            ledger.join_schedulers(self._project.pipeline, self._me, schedules, dead=dead)
            self._beat = time.monotonic()
        for part in due:
            self._take(ledger, pool, part, now, dead)
        self.state.next = min(self._next.values())
        return min((self.state.next - now).total_seconds(), BEAT)

    def _take(
        self,
        ledger: Ledger,
        pool: ThreadPoolExecutor,
        part: ScheduledPart,
        now: datetime,
        dead: tuple[Owner, ...],
    ) -> None:
        name, mine = str(part.schedule), self._me.owner
        if self._is_enough():
            self._next[name] = part.schedule.next(now)
            return
        # The next time is unknown until the ledger has answered.
        self._next.pop(name, None)
        if name not in self._running:
            # If the ledger has a run in this scheduler's name, its answer was lost: the run does not exist.
            dead = (*dead, mine)
        tick = ledger.take_tick(self._project.pipeline, part.schedule, owner=mine, dead=dead)
        self._next[name] = part.schedule.next(now)
        self.state.skipped += tick.skipped
        self.state.missed += tick.missed
        if tick.skipped:
            self._say(f"{name}: {_count_times(tick.skipped)} passed over: the run before is still under way")
        if tick.missed:
            self._say(f"{name}: {_count_times(tick.missed)} missed; catch_up: {part.schedule.catch_up}")
        if tick.at is None:
            return
        self._taken += 1
        self._running[name] = pool.submit(
            run_tick,
            part,
            tick.at,
            options=self._options,
            environment=self._environment,
            tell=self._tell,
            stop=self._stop,
            ended=self._alerts.tell,
        )

    def _gather(self, ledger: Ledger) -> None:
        """Collect the results of runs that have ended, and report them to the ledger."""
        schedules = {str(part.schedule): part.schedule for part in self._parts}
        for name in [name for name, future in self._running.items() if future.done()]:
            result = self._running[name].result()
            if not result.stopped:
                # Before `del`, so that it is repeated at the next look if the ledger does not answer.
                ledger.end_tick(self._project.pipeline, schedules[name], owner=self._me.owner)
            del self._running[name]
            self._note(name, result)
            # With `catch_up: all` the next time may be due already.
            self._next.pop(name, None)

    def _note(self, name: str, result: TickResult) -> None:
        state = self.state
        state.last, state.ticks = result, state.ticks + 1
        state.failed += bool(result.errors)
        state.failing[name] = state.failing.get(name, 0) + 1 if result.errors else 0
        self._say(result.describe())
        for error in result.errors:
            self._say(f"{name}: {error.type}: {error}")
            if self._options.debug and error.detail:
                self._say(error.detail)

    def _find_dead(self, ledger: Ledger) -> tuple[Owner, ...]:
        book = ledger.ticks(self._project.pipeline)
        runners = [one.runner for one in book.schedules.values() if one.runner is not None]
        return tuple(
            {owner for owner in (*runners, *(one.owner for one in book.schedulers)) if is_gone(owner)}
        )

    def _notice_jump(self, now: datetime) -> bool:
        """Whether the ledger's clock jumped since the last look: due times have to be computed again."""
        before, self._seen = self._seen, (now, time.monotonic())
        if before is None:
            return False
        jump = (now - before[0]) - timedelta(seconds=self._seen[1] - before[1])
        if -SKEW < jump < _JUMP:
            return False
        how = f"forward by {jump}" if jump > timedelta(0) else f"back by {-jump}"
        self._say(f"the ledger's clock was set {how}, or this process slept")
        return True

    def _renew_spark(self) -> None:
        why = self._warm.find_fault()
        if why is not None:
            self._say(f"{why}: it is begun anew")
            self._warm.end()

    def _is_enough(self) -> bool:
        return self._most is not None and self._taken >= self._most

    def _finish(self, ledger: Ledger) -> None:
        """Wait for running flows, which were asked to stop, and tell the ledger that this scheduler ends."""
        for future in self._running.values():
            while not future.done():
                # Short naps, because only an awake main thread handles signals.
                time.sleep(_NAP / 4)
        try:
            self._gather(ledger)
            ledger.leave_schedulers(self._project.pipeline, owner=self._me.owner)
        except LedgerUnreachable as error:
            self._say(f"the ledger was not told that this scheduler ends: {error.message}")


def _count_times(count: int) -> str:
    return "1 time" if count == 1 else f"{count:,} times"
