"""What a ledger promises, to those who read it and to those who change it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from tidegauge.model.claim import Claim, Owner
from tidegauge.model.override import Override, Stand
from tidegauge.model.plan import Draft, Plan, Receipt
from tidegauge.model.position import Position
from tidegauge.model.run import EventTotals, FlowStatus, HistoryEvent, RunRecord, RunTotals
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.state import State
from tidegauge.model.ticks import SeenScheduler, Tick, TickBook
from tidegauge.model.watermark import Recalled, Tally, Watermark


class LedgerReader(Protocol):
    def now(self) -> datetime:
        """The store's clock, in UTC without a zone."""

    def watermarks(self, pipeline: str, flows: Sequence[str] | None = None) -> list[Watermark]: ...

    def status(self, pipeline: str, flows: Sequence[str] | None = None) -> list[FlowStatus]:
        """Every flow that the ledger knows, in name order.

        `*`, which stands for the pipeline itself, is among them only when it is asked for by name.
        """

    def tallies(self, pipeline: str, flows: Sequence[str]) -> dict[str, Tally]:
        """By flow; one that the ledger does not know has no entry."""

    def history(
        self,
        pipeline: str,
        *,
        flow: str | None = None,
        failed: bool = False,
        events: Sequence[str] | None = None,
        limit: int = 20,
    ) -> list[HistoryEvent]:
        """Newest first. `events`: only these kinds; `failed`: only what went wrong."""

    def runs(
        self,
        pipeline: str,
        *,
        since: datetime = datetime.min,
        flow: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        """Every attempt that began since then and is still kept, newest first; those under way too.

        `flow`, `run_id`: only that one's; `limit`: so many at the most.
        """

    def run_totals(self, pipeline: str) -> list[RunTotals]:
        """Of every attempt that is still kept, those under way too: by flow and state, in name order."""

    def event_totals(self, pipeline: str) -> list[EventTotals]:
        """Of the history that is still kept: by flow and event, in name order."""

    def pipelines(self) -> list[str]:
        """Every pipeline that the ledger knows, in name order."""

    def ticks(self, pipeline: str) -> TickBook:
        """What the pipeline's schedulers have done, and who they are."""

    def find_plan(self, plan_id: str) -> tuple[str, str, bool] | None:
        """Pipeline and flow of a plan, and whether it is active; None where it is not known (any more)."""


class LedgerWriter(LedgerReader, Protocol):
    """Changes to the ledger. Each call is one transaction: all of it or nothing."""

    def plan(self, drafts: Sequence[Draft], *, owner: Owner, run_id: str) -> dict[str, Plan]:
        """Keep the drafts as plans, all in one transaction; answers by flow.

        A flow that already has an active plan keeps it: that one is returned and the draft is dropped. A
        draft without batches is recorded as SKIPPED and has no entry in the answer. Nor has a draft whose
        flow has moved on since it was looked at (`Draft.seen`): its window would overlap what is committed.
        """

    def refuse(self, pipeline: str, flow: str, error: dict[str, Any], *, owner: Owner, run_id: str) -> None:
        """Record that a flow could not even be planned."""

    def note(
        self, pipeline: str, flow: str, event: str, *, owner: Owner, reason: str, rows: int | None = None
    ) -> None:
        """Keep in the history that something was done to a flow, and why; of how many rows, if of any."""

    def claim(
        self,
        plan: Plan,
        *,
        owner: Owner,
        run_id: str,
        lease: timedelta,
        dead: Owner | None = None,
        begins: bool = False,
    ) -> Claim:
        """Take the flow and raise its fence; the lease runs on the store's clock.

        `begins`: the next batch, if one is left, is begun in the same transaction; see `begin`.

        Raises FlowHeld, naming the holder and the end of its lease, while another's lease runs. `dead` is the
        holder which `status` showed and which is known to be gone: its lease does not count. If somebody
        else has taken the flow since, that one's does. Raises WrongState, retryable, once the plan has ended.
        """

    def renew(self, claim: Claim, lease: timedelta, *, least: timedelta | None = None) -> None:
        """Raises LeaseLost once another has raised the fence. A lease of which at least `least` is left is
        only looked at, and nothing is written."""

    def begin(self, claim: Claim, index: int) -> None:
        """Record that the batch is about to be written. Raises LeaseLost.

        From here on its tag may be in the output, so its rows and its tag never change any more.
        """

    def advance(self, claim: Claim, index: int, receipt: Receipt, *, ends: bool = False) -> None:
        """Move the watermark to the end of the batch. Compare-and-set on the fence; raises LeaseLost.

        A batch that reads `again` below the watermark counts, and leaves it where it is. `ends`: if it was
        the plan's last, the attempt ends as SUCCESS in the same transaction; see `finish`.
        """

    def finish(self, claim: Claim, state: State, error: dict[str, Any] | None = None) -> None:
        """End the attempt as SUCCESS or FAILED; as PLANNED when it only lets go of the lease.

        SKIPPED ends the plan too and moves nothing; the error's message is then the reason. Only before the
        first batch was begun.
        """

    def complete(
        self,
        pipeline: str,
        flow: str,
        plan_id: str,
        *,
        owner: Owner,
        run_id: str,
        rows: Mapping[str, int | None] | None = None,
        claim: Claim | None = None,
    ) -> FlowStatus:
        """Advance a plan that has one batch and no output of ours, for a caller that did the work.

        `rows` names the inputs that are done, with their counts where known; None: all that are left. Once
        none is left, the plan ends as SUCCESS. Raises WrongState for a plan that has ended, FlowHeld while
        another process holds it, and ConfigError for an input that it does not have. Whoever has claimed the
        plan gives the claim, and gets LeaseLost if it was taken over since.
        """

    def fail(
        self, pipeline: str, flow: str, plan_id: str, error: dict[str, Any], *, owner: Owner, run_id: str
    ) -> FlowStatus:
        """Record that the caller's work on a plan failed; the plan keeps its windows."""

    def move(self, draft: Draft, *, owner: Owner, run_id: str, rows: int | None = None) -> None:
        """Plan, advance and finish in one transaction, for a caller whose rows are there already.

        Raises FlowHeld or WrongState while the flow has an active plan.
        """

    def begin_override(
        self,
        pipeline: str,
        flow: str,
        kind: str,
        positions: Mapping[str, Position | None],
        *,
        owner: Owner,
        reason: str,
        expected: Stand | None = None,
    ) -> Override:
        """Raise the fence, so that nobody advances any more, and keep what is going to be changed.

        `undo` ignores `positions`. Raises WrongState where another override was begun and not ended, where
        there is nothing to undo, and where the flow stands elsewhere than `expected`. The output has to open
        `epoch` before `end_override`.
        """

    def end_override(self, pipeline: str, flow: str, *, epoch: int) -> None:
        """Supersede the plan, move the watermarks, and begin the epoch. Does nothing the second time."""

    def forget(self, pipeline: str, flow: str, *, owner: Owner, reason: str) -> None:
        """Drop the watermarks, supersede the plan and raise the fence; the history keeps all of it.

        The output is left as it is, and no tag is used again: a flow that had delivered is planned no more
        until `undo` brings its watermarks back, or a reset or `rebuild` gives it others.
        """

    def rebuild(
        self,
        pipeline: str,
        flow: str,
        marks: Mapping[str, Recalled],
        epoch: int,
        seq: int,
        *,
        owner: Owner,
        reason: str,
    ) -> bool:
        """Set the flow to where its output is: this epoch, this batch, and these watermarks.

        False: it is there already. Raises WrongState where the ledger is ahead of the output or an
        override was begun, and FlowHeld while a plan is active: only a run can say what became of that.
        """

    def suspend(self, pipeline: str, flow: str, *, owner: Owner, reason: str) -> bool:
        """From here on nobody may claim the flow; `*` is every flow. False: it was suspended already.

        Whoever holds the flow ends what it has claimed.
        """

    def resume(self, pipeline: str, flow: str, *, owner: Owner, reason: str) -> bool:
        """False: it was not suspended."""

    def join_schedulers(
        self,
        pipeline: str,
        me: SeenScheduler,
        schedules: Sequence[FlowSchedule],
        *,
        dead: Collection[Owner] = (),
    ) -> None:
        """Show that a scheduler is there, with every schedule of its file; a schedule that is new begins now.

        `dead` are schedulers which `ticks` showed and which are known to be gone. Raises SchedulersDisagree
        while one is there whose file has other flows or schedules.
        """

    def leave_schedulers(self, pipeline: str, *, owner: Owner) -> None: ...

    def take_tick(
        self, pipeline: str, schedule: FlowSchedule, *, owner: Owner, dead: Collection[Owner] = ()
    ) -> Tick:
        """The time that is due by the store's clock: of all who ask, one is given it.

        Whoever is given a time runs for it, and then calls `end_tick`. Until then, times that come are passed
        over and counted; if the runner is gone, its time is due again. `dead` are those that are known to be:
        also the caller itself, where a run in its name is none that it knows of.
        """

    def end_tick(self, pipeline: str, schedule: FlowSchedule, *, owner: Owner) -> None: ...

    def prune(self, *, before: datetime, pipeline: str | None = None) -> dict[str, int]:
        """Remove history, runs and ended plans older than a moment; how many of each.

        What recovery needs stays: watermarks, active plans with all their runs, overrides begun, and the
        last run of every flow.
        """
