"""Which runner holds a flow, as far as the ledger and this machine can tell."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from tidegauge.ledger.owner import is_gone
from tidegauge.ledger.rule_records import name_owner
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus
from tidegauge.model.state import State


def is_held(status: FlowStatus, now: datetime) -> bool:
    """Whether a runner is working on the flow."""
    return (
        status.state is State.RUNNING
        and status.owner is not None
        and (status.lease_until or now) > now
        and not is_gone(status.owner)
    )


def is_abandoned(status: FlowStatus, now: datetime) -> bool:
    """Whether the flow is RUNNING but its runner is gone or has let its lease run out."""
    return status.state is State.RUNNING and not is_held(status, now)


def find_held(ledger: LedgerReader, statuses: Iterable[FlowStatus]) -> set[str]:
    """Return the flows that a runner is working on.

    The ledger's clock is asked only if a flow is RUNNING, since a store of files answers by being written to.
    """
    running = [one for one in statuses if one.state is State.RUNNING]
    if not running:
        return set()
    now = ledger.now()
    return {one.flow for one in running if is_held(one, now)}


def name_holders(
    ledger: LedgerReader, statuses: Iterable[FlowStatus], *, leases: bool = False
) -> dict[str, str]:
    """Return, by flow, the runner that is working on it, in words. `leases`: say how long its lease lasts."""
    found = list(statuses)
    held = find_held(ledger, found)
    return {
        one.flow: name_owner(one.owner)
        + (f" until {one.lease_until:%Y-%m-%d %H:%M:%S} UTC" if leases else "")
        for one in found
        if one.flow in held
    }
