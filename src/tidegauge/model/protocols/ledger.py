"""What a ledger promises to code that reads it and to code that changes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from tidegauge.model.claim import Claim, Owner
from tidegauge.model.override import FlowRevision, Override
from tidegauge.model.plan import Draft, Plan, Receipt
from tidegauge.model.position import Position
from tidegauge.model.run import EventTotals, FlowStatus, HistoryEvent, RunRecord, RunTotals
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.state import State
from tidegauge.model.ticks import SchedulerRecords, SeenScheduler, Tick
from tidegauge.model.watermark import Recalled, Tally, Watermark


class LedgerReader(Protocol):
    def now(self) -> datetime:
        """Return the time by the store's clock, in UTC without a zone."""

    def watermarks(self, pipeline: str, flows: Sequence[str] | None = None) -> list[Watermark]: ...

    def status(self, pipeline: str, flows: Sequence[str] | None = None) -> list[FlowStatus]:
        """Return every flow that the ledger knows, in name order.

        `*`, which stands for the pipeline itself, is included only if `flows` names it.
        """

    def tallies(self, pipeline: str, flows: Sequence[str]) -> dict[str, Tally]:
        """Return what each flow has done, by flow; a flow that the ledger does not know has no entry."""

    def history(
        self,
        pipeline: str,
        *,
        flow: str | None = None,
        failed: bool = False,
        events: Sequence[str] | None = None,
        limit: int = 20,
    ) -> list[HistoryEvent]:
        """Return events, newest first. `events`: only these kinds; `failed`: only failures."""

    def runs(
        self,
        pipeline: str,
        *,
        since: datetime = datetime.min,
        flow: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        """Return all stored attempts that began since then, newest first, including those still running.

        `flow`, `run_id`: only that flow's or run's; `limit`: at most this many.
        """

    def run_totals(self, pipeline: str) -> list[RunTotals]:
        """Add up all stored attempts, including those still running, by flow and state, in name order."""

    def event_totals(self, pipeline: str) -> list[EventTotals]:
        """Add up the stored history by flow and event, in name order."""

    def pipelines(self) -> list[str]:
        """Return every pipeline that the ledger knows, in name order."""

    def ticks(self, pipeline: str) -> SchedulerRecords:
        """Return the pipeline's schedulers, and the times that they have handled."""

    def find_plan(self, plan_id: str) -> tuple[str, str, bool] | None:
        """Return pipeline and flow of a plan, and whether it is active; None if not known (any more)."""


class LedgerWriter(LedgerReader, Protocol):
    """Changes the ledger. Each call is one transaction: all or nothing."""

    def plan(self, drafts: Sequence[Draft], *, owner: Owner, run_id: str) -> dict[str, Plan]:
        """Store the drafts as plans, all in one transaction; return the plans by flow.

        A flow that already has an active plan keeps it: that plan is returned and the draft is dropped. A
        draft without batches is recorded as SKIPPED and is not in the result. Nor is a draft whose flow has
        changed since it was read (`Draft.seen`): its window would overlap what is committed.
        """

    def refuse(self, pipeline: str, flow: str, error: dict[str, Any], *, owner: Owner, run_id: str) -> None:
        """Record that a flow could not be planned."""

    def note(
        self, pipeline: str, flow: str, event: str, *, owner: Owner, reason: str, rows: int | None = None
    ) -> None:
        """Record in the history that something was done to a flow, why, and to how many rows, if any."""

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
        """Claim the flow and raise its fence; the lease runs on the store's clock.

        `begins`: begin the next batch, if one is left, in the same transaction; see `begin`.

        Raises FlowHeld, naming the holder and the end of its lease, while another lease runs. `dead` is a
        holder that `status` showed and that is known to be gone: its lease is ignored, but not that of a
        process which has claimed the flow since. Raises WrongState, retryable, once the plan has ended.
        """

    def renew(self, claim: Claim, lease: timedelta, *, least: timedelta | None = None) -> None:
        """Extend the lease. Raises LeaseLost if another process has raised the fence. If at least `least` of
        the lease is left, only this is checked and nothing is written."""

    def begin(self, claim: Claim, index: int) -> None:
        """Record that the batch is about to be written. Raises LeaseLost.

        From here on its tag may be in the output, so its rows and tag must not change any more.
        """

    def advance(self, claim: Claim, index: int, receipt: Receipt, *, ends: bool = False) -> None:
        """Move the watermark to the end of the batch. Compare-and-set on the fence; raises LeaseLost.

        A batch that `rereads` below the watermark is counted but leaves the watermark as it is. `ends`:
        after the plan's last batch, end the attempt as SUCCESS in the same transaction; see `finish`.
        """

    def finish(self, claim: Claim, state: State, error: dict[str, Any] | None = None) -> None:
        """End the attempt as SUCCESS or FAILED, or as PLANNED to only release the lease.

        SKIPPED also ends the plan, moves nothing, and takes the error's message as its reason; allowed only
        before the first batch was begun.
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
        """Advance a plan that has one batch and no output of Tidegauge's, for a caller that did the work.

        `rows` names the inputs that are done, with their counts if known; None: all that are left. When none
        is left, the plan ends as SUCCESS. Raises WrongState for a plan that has ended, FlowHeld while another
        process holds it, and ConfigError for an unknown input. A caller that has claimed the plan passes its
        claim, and gets LeaseLost if another process has taken over.
        """

    def fail(
        self, pipeline: str, flow: str, plan_id: str, error: dict[str, Any], *, owner: Owner, run_id: str
    ) -> FlowStatus:
        """Record that the caller's work on a plan failed; the plan keeps its windows."""

    def move(self, draft: Draft, *, owner: Owner, run_id: str, rows: int | None = None) -> None:
        """Plan, advance and finish in one transaction, for a caller that has already written its rows.

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
        expected: FlowRevision | None = None,
    ) -> Override:
        """Raise the fence, so that nobody can advance, and store the change that is to be made.

        `undo` ignores `positions`. Raises WrongState if another override was begun and not ended, if there is
        nothing to undo, or if the flow no longer stands at `expected`. The output has to open the override's
        `epoch` before `end_override`.
        """

    def end_override(self, pipeline: str, flow: str, *, epoch: int) -> None:
        """Supersede the plan, move the watermarks, and begin the epoch. A second call does nothing."""

    def forget(self, pipeline: str, flow: str, *, owner: Owner, reason: str) -> None:
        """Drop the watermarks, supersede the plan and raise the fence; the history records all of it.

        The output stays as it is, and no tag is reused: a flow that had delivered is not planned again until
        `undo` restores its watermarks, or a reset or `rebuild` sets others.
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
        """Set the flow to the state of its output: this epoch, this batch, and these watermarks.

        False: it has this state already. Raises WrongState if the ledger is ahead of the output or an
        override was begun, and FlowHeld while a plan is active: only a run can settle that plan.
        """

    def suspend(self, pipeline: str, flow: str, *, owner: Owner, reason: str) -> bool:
        """Forbid to claim the flow from now on; `*` means every flow. False: it was already suspended.

        A process that holds the flow finishes what it has claimed.
        """

    def resume(self, pipeline: str, flow: str, *, owner: Owner, reason: str) -> bool:
        """End the suspension. False: the flow was not suspended."""

    def join_schedulers(
        self,
        pipeline: str,
        me: SeenScheduler,
        schedules: Sequence[FlowSchedule],
        *,
        dead: Collection[Owner] = (),
    ) -> None:
        """Record that a scheduler runs, with every schedule of its file; a new schedule counts from now.

        `dead` are schedulers that `ticks` showed and that are known to be gone. Raises SchedulersDisagree
        while another scheduler runs whose file has other flows or schedules.
        """

    def leave_schedulers(self, pipeline: str, *, owner: Owner) -> None: ...

    def take_tick(
        self, pipeline: str, schedule: FlowSchedule, *, owner: Owner, dead: Collection[Owner] = ()
    ) -> Tick:
        """Return the time that is due by the store's clock; only one of all callers gets it.

        The caller that gets a time runs for it, and then calls `end_tick`. Times that come due until then are
        skipped and counted; under `catch_up: all` they wait. If the runner is gone, its time is due again.
        `dead` are runners known to be gone; the caller lists itself if it knows of no run of its own.
        """

    def end_tick(self, pipeline: str, schedule: FlowSchedule, *, owner: Owner) -> None: ...

    def prune(self, *, before: datetime, pipeline: str | None = None) -> dict[str, int]:
        """Remove history, runs and ended plans older than a moment; return how many of each.

        Keeps what recovery needs: watermarks, active plans with all their runs, overrides that were begun,
        and the last run of every flow.
        """
