"""Complete the tables of a plan, with their row counts; and the plan inside its `with` block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegauge.errors import ConfigError, WrongState
from tidegauge.model.claim import Claim
from tidegauge.model.plan import Plan
from tidegauge.model.run import FlowStatus
from tidegauge.model.state import State
from tidegauge.tracker.ledger import TrackerLedger, check_rows
from tidegauge.tracker.processing import ProcessingPlan

Records = int | Mapping[str, int | None]


class Processing:
    """A plan inside its `with` block."""

    def __init__(self, tracker_ledger: TrackerLedger, plan: ProcessingPlan, claim: Claim | None) -> None:
        self.plan = plan
        self.run_id = plan.run_id
        self.pipeline = plan.pipeline
        self.ranges = plan.ranges
        self.tables = plan.tables
        self.state = State.RUNNING if claim else plan.state
        self._tracker_ledger = tracker_ledger
        self._claim = claim

    def complete(self, table: str, *, records: int | None = None) -> None:
        """Record that this table is done, whatever becomes of the others."""
        check_rows(records)
        if self._claim is None or table not in self.ranges:
            raise ConfigError(
                f"{self.pipeline}: the plan has no table '{table}' left",
                hint=f"it has: {list_names(self.ranges)}",
            )
        status = self._tracker_ledger.check(self._claim)
        refuse_twice(status, [table])
        self._tracker_ledger.complete(self._claim, {table: records})


def count_records(
    status: FlowStatus, plan: Plan, named: list[str] | None, records: Records | None
) -> dict[str, int | None]:
    """Row counts of the tables to complete: those that are `named`, else all that are left."""
    wanted = _select_tables(status, plan, named)
    if records is None:
        return dict.fromkeys(wanted)
    if not isinstance(records, Mapping):
        if len(wanted) != 1:
            raise ConfigError(
                f"{status.pipeline}: one number of records for {len(wanted)} tables",
                hint="give records={table: number}",
            )
        return {wanted[0]: check_rows(records)}
    strange = [name for name in records if name not in wanted]
    if strange:
        raise ConfigError(
            f"{status.pipeline}: records are counted for '{strange[0]}', which is not being completed",
            hint=f"these are: {list_names(wanted)}",
        )
    return {name: check_rows(records.get(name)) for name in wanted}


def _select_tables(status: FlowStatus, plan: Plan, named: list[str] | None) -> list[str]:
    parts = [part.input for part in plan.draft.inputs]
    if named is None:
        return [name for name in parts if name not in status.completed]
    unknown = [name for name in named if name not in parts]
    if unknown:
        raise ConfigError(
            f"{status.pipeline}: the plan has no table '{unknown[0]}'", hint=f"it has: {list_names(parts)}"
        )
    refuse_twice(status, named)
    return named


def refuse_twice(status: FlowStatus, tables: list[str]) -> None:
    for name in tables:
        if name in status.completed:
            raise WrongState(
                f"{status.pipeline}: {name} is completed already in this plan",
                hint="load_version_ranges has what is left",
            )


def list_names(tables: Any) -> str:
    found = list(tables)
    return ", ".join(found[:10]) + (f" and {len(found) - 10} more" if len(found) > 10 else "")
