"""What a run did, flow by flow. The tables on the terminal and `--json` are made from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegauge.errors import LimitReached, Stopped, TidegaugeError
from tidegauge.flows.maintenance.base import MaintenanceResult
from tidegauge.model.error_json import error_to_json
from tidegauge.model.expectation import Checks, add_up
from tidegauge.model.moved_by import MovedBy
from tidegauge.model.plan import Draft, Receipt
from tidegauge.model.secret import mask
from tidegauge.model.state import SUSPENDED, State, tell_state


@dataclass(frozen=True)
class FlowReport:
    flow: str
    state: State
    seconds: float
    receipts: tuple[Receipt, ...] = ()
    draft: Draft | None = None
    error: TidegaugeError | None = None
    resumed: bool = False
    """Whether an earlier run made the plan."""
    reason: str | None = None
    """Why the flow was skipped; None: it was not, or there was nothing new."""
    noted: tuple[str, ...] = ()
    """Notes of the output about the batches."""
    optimized: tuple[MaintenanceResult, ...] = ()
    """For an optimize flow: what was done to each table."""
    suspended: bool = False
    """Whether the flow was not run because a person has suspended it."""
    moved_by: tuple[MovedBy, ...] = ()
    """Who moved the rows of its batches, each once."""

    @property
    def ok(self) -> bool:
        return self.error is None or isinstance(self.error, LimitReached)

    @property
    def shown_state(self) -> str:
        return SUSPENDED if self.suspended else self.state.value

    @property
    def told_state(self) -> str:
        return tell_state(self.state, suspended=self.suspended, prevented=self.reason is not None)

    @property
    def batches(self) -> int:
        return len(self.receipts)

    @property
    def rows(self) -> int:
        return sum(receipt.rows for receipt in self.receipts)

    @property
    def read(self) -> int:
        return sum(one.rows if one.read is None else one.read for one in self.receipts)

    def count(self, which: str) -> int | None:
        """How many rows were `inserted`, `updated` or `deleted`; None if the output could not tell."""
        counts = [getattr(receipt, which) for receipt in self.receipts]
        return None if None in counts else sum(counts)

    @property
    def counts(self) -> dict[str, int | None]:
        """Row counts by what happened to the rows; None where the output could not tell."""
        return {
            "read": self.read,
            "written": self.rows,
            **{which: self.count(which) for which in ("inserted", "updated", "deleted")},
            "quarantined": self.checks.quarantined if self.checks else 0,
        }

    @property
    def checks(self) -> Checks | None:
        """What the flow's expectations found in all batches; None if it has no expectations."""
        return add_up(one.checks for one in self.receipts if one.checks is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        said = self.draft.notes if self.draft else ()
        return (*said, *self.noted, *self.endings)

    @property
    def limit_notes(self) -> tuple[str, ...]:
        return self.draft.limit_notes if self.draft else ()

    @property
    def endings(self) -> tuple[str, ...]:
        """Notes on how the flow ended without an error: at a limit, or the reason why it was skipped."""
        stopped = self.error.message if self.error is not None and self.ok else None
        return tuple(said for said in (stopped, self.reason) if said)

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "state": self.shown_state,
            "batches": self.batches,
            **{f"rows_{which}": count for which, count in self.counts.items()},
            "rows_waiting": self.draft.rows_waiting if self.draft else 0,
            "rows_null_cursor": self.draft.rows_null if self.draft else 0,
            "seconds": round(self.seconds, 3),
            "moved_by": list(self.moved_by),
            "resumed": self.resumed,
            "windows": self.draft.windows_to_json() if self.draft else [],
            **({"expectations": self.checks.to_json()} if self.checks else {}),
            **({"tables": [one.to_json() for one in self.optimized]} if self.optimized else {}),
            "notes": [mask(note) for note in self.notes],
            "error": error_to_json(self.error) if self.error and not self.ok else None,
        }


@dataclass(frozen=True)
class RunReport:
    run_id: str
    flows: tuple[FlowReport, ...] = field(default=())
    notes: tuple[str, ...] = ()
    """Remarks on parts of the project file that have no effect."""
    lineage: dict[str, Any] | None = None
    """The result of sending lineage events; None if the project does not send them."""

    @property
    def errors(self) -> list[TidegaugeError]:
        """The errors of the flows, in their order. Reaching the row limit is no error."""
        return [report.error for report in self.flows if report.error is not None and not report.ok]

    @property
    def state(self) -> State:
        """FAILED if a flow failed; PLANNED if flows were only stopped, and the next run does the rest.

        Else SUCCESS if any flow wrote something, SKIPPED if none did.
        """
        states = {report.state for report in self.flows}
        if self.errors:
            stopped = all(isinstance(error, Stopped) for error in self.errors)
            return State.PLANNED if stopped else State.FAILED
        if State.PLANNED in states:
            return State.PLANNED
        return State.SUCCESS if State.SUCCESS in states else State.SKIPPED

    def to_json(self, command: str = "run") -> dict[str, Any]:
        return {
            "schema": f"tidegauge/{command}/1",
            "run_id": self.run_id,
            "state": self.state.value,
            "flows": [report.to_json() for report in self.flows],
            "notes": [mask(note) for note in self.notes],
            **({} if self.lineage is None else {"lineage": self.lineage}),
        }
