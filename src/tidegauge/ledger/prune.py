"""Remove old history, runs and ended plans that no recovery needs."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, and_, delete, func, not_, select

from tidegauge.ledger.keys import pipeline_key
from tidegauge.ledger.sql_tables import flows, history, plans, runs


def prune(connection: Connection, *, before: datetime, pipeline: str | None) -> dict[str, int]:
    """See LedgerWriter.prune."""
    only = select(flows.c.flow_key)
    if pipeline is not None:
        only = only.where(flows.c.pipeline_key == pipeline_key(pipeline))
    mine = [key for (key,) in connection.execute(only)]
    # Plans and runs are listed here, because MySQL does not let a DELETE select from its own table.
    active = set(connection.execute(select(plans.c.plan_id).where(plans.c.active == 1)).scalars())
    newest = set(connection.execute(select(func.max(runs.c.id)).group_by(runs.c.flow_key)).scalars())
    kept = {
        plan_id
        for (plan_id,) in connection.execute(select(runs.c.plan_id).where(runs.c.id.in_(newest)))
        if plan_id is not None
    }
    counts = {}
    old_runs = and_(
        runs.c.flow_key.in_(mine),
        runs.c.ended_at < before,
        runs.c.id.not_in(newest),
        not_(func.coalesce(runs.c.plan_id, "").in_(active | kept)),
    )
    counts["runs"] = connection.execute(delete(runs).where(old_runs)).rowcount
    old_plans = and_(
        plans.c.flow_key.in_(mine),
        plans.c.active.is_(None),
        plans.c.updated_at < before,
        plans.c.plan_id.not_in(kept),
    )
    counts["plans"] = connection.execute(delete(plans).where(old_plans)).rowcount
    # By pipeline, not by flow: some events belong to flows that the ledger does not list.
    old_events = history.c.at < before
    if pipeline is not None:
        old_events = and_(old_events, history.c.pipeline_key == pipeline_key(pipeline))
    counts["history"] = connection.execute(delete(history).where(old_events)).rowcount
    return counts
