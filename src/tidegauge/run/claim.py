"""Claim a flow, so that nobody else executes its plan."""

from __future__ import annotations

from tidegauge.errors import FlowHeld, Stopped
from tidegauge.model.claim import Claim
from tidegauge.model.plan import Plan
from tidegauge.model.suspension import ALL
from tidegauge.run.context import RunContext
from tidegauge.run.suspended import find_suspension

_POLL = 0.5
"""Seconds between two tries to claim a flow that another runner holds, under `--wait`."""


def claim_plan(run: RunContext, plan: Plan, *, begins: bool = False) -> Claim:
    """Claim the plan's flow. While another runner holds it, try again for as long as `--wait` allows.

    A holder whose process is gone is not waited for. `begins`: begin the next batch in the same transaction,
    see `LedgerWriter.claim`. Raises FlowHeld, FlowSuspended, Stopped, or WrongState once the plan has ended.
    """
    environment = run.environment
    until = environment.clock() + run.options.wait.total_seconds()
    while True:
        if run.stop.is_set():
            raise Stopped("stopped as asked, before it began", hint="the next run takes up the same plan")
        statuses = run.ledger.status(plan.draft.pipeline, [plan.draft.flow, ALL])
        why = find_suspension(statuses, plan.draft.flow)
        if why is not None:
            raise why
        [owner] = [one.owner for one in statuses if one.flow == plan.draft.flow]
        dead = owner if owner is not None and environment.is_gone(owner) else None
        try:
            return run.ledger.claim(
                plan,
                owner=environment.owner,
                run_id=run.run_id,
                lease=run.project.lease,
                dead=dead,
                begins=begins,
            )
        except FlowHeld:
            if environment.clock() >= until:
                raise
            environment.sleep(_POLL)
