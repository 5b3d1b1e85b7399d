"""The ledger as a tracker uses it: with an owner, and with a thread that renews the leases of its claims."""

from __future__ import annotations

import threading
import uuid
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tidegauge.errors import ConfigError, FlowHeld, LeaseLost, LedgerError, TidegaugeError, WrongState
from tidegauge.ledger.heartbeat import Heartbeat
from tidegauge.ledger.owner import is_gone, this_process
from tidegauge.ledger.rule_records import name_owner
from tidegauge.model.claim import Claim, Owner
from tidegauge.model.error_json import error_to_json
from tidegauge.model.plan import Plan
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.run import FlowStatus
from tidegauge.model.secret import mask
from tidegauge.model.state import State
from tidegauge.tracker.pipeline_state import PipelineState, look

TRIES = 20
"""Each lost race means that somebody else won it, so nobody loses this many in a row by chance."""
Error = BaseException | str
HEARTBEAT = "tidegauge-heartbeat"
"""The name of the thread that renews leases."""


class TrackerLedger:
    """Safe to share between threads."""

    def __init__(self, ledger: LedgerWriter, *, lease: timedelta, actor: str | None) -> None:
        self.ledger = ledger
        self.lease = lease
        self._actor = actor
        self._lock = threading.Lock()
        self._heartbeat: Heartbeat | None = None
        self._held: dict[tuple[str, int], tuple[Claim, AbstractContextManager[None]]] = {}

    @property
    def owner(self) -> Owner:
        # Asked each time: a process that was forked off is another owner.
        owner = this_process()
        return replace(owner, actor=self._actor) if self._actor else owner

    def look(self, pipeline: str, kind: str) -> PipelineState:
        """The pipeline's state. An override that was begun is ended first: there is no output to wait for."""
        found = look(self.ledger, pipeline, kind)
        if found.status is not None and found.status.override is not None:
            self.ledger.end_override(pipeline, pipeline, epoch=found.status.override.epoch)
            found = look(self.ledger, pipeline, kind)
        return found

    def claim(self, plan: Plan, status: FlowStatus | None, *, run_id: str) -> Claim:
        """Take the plan and renew its lease from now on. The lease of a holder that is certainly gone does
        not count."""
        holder = status.owner if status else None
        owner = self.owner
        try:
            claim = self.ledger.claim(
                plan,
                owner=owner,
                run_id=run_id,
                lease=self.lease,
                dead=holder if holder is not None and is_gone(holder) else None,
            )
        except FlowHeld as error:
            raise FlowHeld(error.message, hint=_hint(holder, owner), retryable=error.retryable) from error
        self._hold(claim)
        return claim

    def check(self, claim: Claim) -> FlowStatus:
        """Raises LeaseLost when another has taken the pipeline since, WrongState when the run has ended."""
        flow = claim.plan.draft.flow
        [status] = self.ledger.status(claim.plan.draft.pipeline, [flow])
        if status.fence != claim.fence:
            self.release(claim)
            raise lease_lost_error(flow, status.owner)
        if (
            status.plan is None
            or status.plan.plan_id != claim.plan.plan_id
            or status.state is not State.RUNNING
        ):
            self.release(claim)
            raise WrongState(
                f"{flow}: this run has ended already as {status.state}",
                hint="a run ends once; start again for what is new",
            )
        return status

    def complete(self, claim: Claim, rows: dict[str, int | None]) -> FlowStatus:
        """Complete the inputs in `rows`, with their counts, in one change of the ledger."""
        draft = claim.plan.draft
        try:
            status = self.ledger.complete(
                draft.pipeline,
                draft.flow,
                claim.plan.plan_id,
                owner=claim.owner,
                run_id=claim.run_id,
                rows=rows,
                claim=claim,
            )
        except (LeaseLost, WrongState):
            self.release(claim)
            raise
        if status.plan is None or status.plan.plan_id != claim.plan.plan_id:
            self.release(claim)
        return status

    def finish(self, claim: Claim, state: State, error: dict[str, Any] | None) -> None:
        """End the attempt and stop renewing its lease."""
        try:
            self.ledger.finish(claim, state, error)
        except (LeaseLost, WrongState):
            self.release(claim)
            raise
        self.release(claim)

    def release(self, claim: Claim) -> None:
        """Stop renewing the claim's lease."""
        with self._lock:
            _, held = self._held.pop(_name(claim), (None, None))
        if held is not None:
            held.__exit__(None, None, None)

    def close(self) -> None:
        """Give back what is still held, so that the next runner gets the same windows without waiting."""
        with self._lock:
            claims = [claim for claim, _ in self._held.values()]
        for claim in claims:
            try:
                self.finish(claim, State.PLANNED, None)
            except LedgerError:
                # Taken over, ended, or the store is away: the lease ends by itself.
                self.release(claim)
        self.stop_heartbeat()

    def stop_heartbeat(self) -> None:
        """Stop the thread that renews leases, if it runs."""
        with self._lock:
            heartbeat, self._heartbeat = self._heartbeat, None
            self._held.clear()
        if heartbeat is None:
            return
        if threading.current_thread().name == HEARTBEAT:
            # The tracker was garbage-collected in the heartbeat's own thread, which cannot wait for itself.
            threading.Thread(target=heartbeat.__exit__, daemon=True).start()
        else:
            heartbeat.__exit__()

    def _hold(self, claim: Claim) -> None:
        with self._lock:
            if self._heartbeat is None:
                self._heartbeat = Heartbeat(self.ledger, self.lease)
                self._heartbeat.__enter__()
            held = self._heartbeat.hold(claim)
            held.__enter__()
            self._held[_name(claim)] = (claim, held)


def lease_lost_error(flow: str, holder: Owner | None) -> LeaseLost:
    return LeaseLost(
        f"{flow} was taken over by {name_owner(holder)}",
        hint="nothing is lost: whoever took it over goes on with the same window",
    )


def busy_error(pipeline: str) -> WrongState:
    return WrongState(
        f"{pipeline} is changed by others faster than it can be read", hint="try again", retryable=True
    )


def check_rows(rows: int | None) -> int | None:
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 0):
        raise ConfigError(f"{rows!r} is not a number of rows", hint="give a whole number, or nothing")
    return rows


def new_id() -> str:
    return str(uuid.uuid4())


def describe_error(error: Error) -> dict[str, Any]:
    """What the ledger keeps of an error; secrets are masked."""
    match error:
        case TidegaugeError():
            return error_to_json(error)
        case BaseException():
            return {"type": type(error).__name__, "message": mask(str(error)), "retryable": True}
        case str():
            return {"type": None, "message": mask(error), "retryable": True}
    raise ConfigError(f"{type(error).__name__} is not an error", hint="give the exception, or its text")


def _hint(holder: Owner | None, owner: Owner) -> str:
    if holder is not None and (holder.host, holder.pid, holder.started) == (
        owner.host,
        owner.pid,
        owner.started,
    ):
        return "it is this very process: finalize the run that it began, or close the tracker that began it"
    return (
        "wait until it ends; if that process is gone, its lease ends by itself and its window is taken over"
    )


def _name(claim: Claim) -> tuple[str, int]:
    return claim.plan.plan_id, claim.fence
