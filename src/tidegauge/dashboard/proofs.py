"""What is proven, and what wears the proof out: comparisons, expectations, retention, changed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidegauge.dashboard.snapshot import FleetSnapshots, SeenFlow
from tidegauge.flows.names import table_of
from tidegauge.ledger.open import open_ledger
from tidegauge.model.by_flow import gather_by_flow
from tidegauge.model.expectation import NOT_AS_EXPECTED
from tidegauge.model.run import HistoryEvent
from tidegauge.operations.proofs import DIFFERS, VERIFIED

if TYPE_CHECKING:
    from tidegauge.ledger.empty import EmptyLedger
    from tidegauge.ledger.open import Ledger
    from tidegauge.model.spec import Project
    from tidegauge.operations.retention import Notice

_EVENTS = 1000
SCHEMA_CHANGED = "schema_changed"


@dataclass(frozen=True)
class TableProof:
    table: str
    flow: str
    """Whose output was compared."""
    last: HistoryEvent | None
    """Its last comparison; None: never, or longer ago than the history is kept."""

    @property
    def equal(self) -> bool | None:
        return None if self.last is None else self.last.event == VERIFIED

    @property
    def stale(self) -> bool:
        return self.last is None


@dataclass(frozen=True)
class CheckedFlow:
    """Rows of a flow that were not as expected, over time."""

    flow: str
    counts: tuple[float, ...]
    """Rows set aside, oldest first."""
    last: HistoryEvent
    times: int


@dataclass(frozen=True)
class ProofPage:
    at: datetime
    proofs: tuple[TableProof, ...]
    """What differs first, then what was never compared, then the oldest comparison."""
    checks: tuple[CheckedFlow, ...]
    retention: Mapping[str, Sequence[Notice]]
    has_delta: bool
    drift: tuple[HistoryEvent, ...]

    @property
    def proven(self) -> int:
        return sum(one.equal is True for one in self.proofs)


def make_proof_page(snapshots: FleetSnapshots) -> ProofPage:
    project, snapshot = snapshots.project, snapshots.read()
    with open_ledger(project.ledger, create=False) as ledger:
        compared = ledger.history(project.pipeline, events=[VERIFIED, DIFFERS], limit=_EVENTS)
        aside = ledger.history(project.pipeline, events=[NOT_AS_EXPECTED], limit=_EVENTS)
        drift = ledger.history(project.pipeline, events=[SCHEMA_CHANGED], limit=50)
        retained = _find_notices(project, ledger)
    flows = [one for one in snapshot.flows if one.pipeline == project.pipeline]
    return ProofPage(
        at=snapshot.at,
        proofs=tuple(sorted(_find_proofs(flows, compared), key=_urgency)),
        checks=tuple(_check(flow, found) for flow, found in sorted(gather_by_flow(aside).items())),
        retention=retained,
        has_delta=bool(project.delta_flows),
        drift=tuple(drift),
    )


def _find_notices(project: Project, ledger: Ledger | EmptyLedger) -> Mapping[str, Sequence[Notice]]:
    if not project.delta_flows:
        return {}
    # Knows every kind of flow, and takes its time to import: other pages do without.
    from tidegauge.operations.retention import notices

    return notices(project, ledger)


def _find_proofs(flows: Sequence[SeenFlow], compared: Sequence[HistoryEvent]) -> list[TableProof]:
    """One for each table: of two stages, the one that was compared last, or the second."""
    newest = {flow: found[0] for flow, found in gather_by_flow(compared).items()}
    ends: dict[str, str] = {}
    for one in flows:  # in name order, so that `load` comes after `extract`
        table = table_of(one.flow)
        if one.flow in newest or ends.get(table) not in newest:
            ends[table] = one.flow
    return [TableProof(table, flow, newest.get(flow)) for table, flow in ends.items()]


def _urgency(proof: TableProof) -> tuple[int, datetime, str]:
    rank = 0 if proof.equal is False else 1 if proof.last is None else 2
    return rank, proof.last.at if proof.last else datetime.min, proof.table


def _check(flow: str, found: Sequence[HistoryEvent]) -> CheckedFlow:
    counts = tuple(float(one.rows or 0) for one in reversed(found[:40]))
    return CheckedFlow(flow, counts, found[0], len(found))
