"""The page of proofs: comparisons, and what weakens them: failed checks, retention, changed columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
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
    from tidegauge.operations.retention import RetentionMargin

_EVENTS = 1000
ROWS = 200
"""How many tables are on one page."""
SCHEMA_CHANGED = "schema_changed"


@dataclass(frozen=True)
class TableProof:
    table: str
    flow: str
    """The flow whose output was compared."""
    last: HistoryEvent | None
    """The event of the last comparison; None if there was none, or it is older than the history."""

    @property
    def equal(self) -> bool | None:
        return None if self.last is None else self.last.event == VERIFIED


@dataclass(frozen=True)
class CheckedFlow:
    """The batches of a flow that had rows which were not as expected."""

    flow: str
    counts: tuple[float, ...]
    """Rows that were set aside in each of the last 40 such batches, oldest first."""
    first: HistoryEvent
    last: HistoryEvent
    times: int
    week: int
    """How many of the batches are of the last seven days."""


@dataclass(frozen=True)
class ProofFilter:
    page: int = 1

    def but(self, *, page: int) -> ProofFilter:
        return replace(self, page=page)

    def to_query(self) -> dict[str, str]:
        return {"page": str(self.page)} if self.page != 1 else {}


@dataclass(frozen=True)
class ProofPage:
    at: datetime
    proofs: tuple[TableProof, ...]
    """One page of tables: those that differ first, then those never compared, then by age, oldest first."""
    proven: int
    total: int
    asked: ProofFilter
    pages: int
    checks: tuple[CheckedFlow, ...]
    margins: tuple[RetentionMargin, ...]
    """The margin of each Delta input, unknown ones first, then the shortest first."""
    drift: tuple[HistoryEvent, ...]


def make_proof_page(
    snapshots: FleetSnapshots, asked: ProofFilter | None = None, *, rows: int = ROWS
) -> ProofPage:
    asked = asked or ProofFilter()
    project, snapshot = snapshots.project, snapshots.read()
    with open_ledger(project.ledger, create=False) as ledger:
        compared = ledger.history(project.pipeline, events=[VERIFIED, DIFFERS], limit=_EVENTS)
        aside = ledger.history(project.pipeline, events=[NOT_AS_EXPECTED], limit=_EVENTS)
        drift = ledger.history(project.pipeline, events=[SCHEMA_CHANGED], limit=50)
        margins = _find_margins(project, ledger)
    flows = [one for one in snapshot.flows if one.pipeline == project.pipeline]
    proofs = sorted(_find_proofs(flows, compared), key=_urgency)
    pages = max(1, -(-len(proofs) // rows))
    page = min(max(asked.page, 1), pages)
    return ProofPage(
        at=snapshot.at,
        proofs=tuple(proofs[(page - 1) * rows : page * rows]),
        proven=sum(one.equal is True for one in proofs),
        total=len(proofs),
        asked=ProofFilter(page),
        pages=pages,
        checks=tuple(
            _make_checked_flow(flow, found, snapshot.at)
            for flow, found in sorted(gather_by_flow(aside).items())
        ),
        margins=tuple(sorted(margins, key=_shortness)),
        drift=tuple(drift),
    )


def _find_margins(project: Project, ledger: Ledger | EmptyLedger) -> Sequence[RetentionMargin]:
    if not project.delta_flows:
        return ()
    # Imported here, as it imports every kind of flow and is slow; other pages do not need it.
    from tidegauge.operations.retention import find_margins

    return find_margins(project, ledger)


def _shortness(margin: RetentionMargin) -> tuple[float, str, str]:
    return -1e9 if margin.days is None else margin.days, margin.flow, margin.input


def _find_proofs(flows: Sequence[SeenFlow], compared: Sequence[HistoryEvent]) -> list[TableProof]:
    """One for each table. Of two stages `load`, unless only `extract` was compared."""
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


def _make_checked_flow(flow: str, found: Sequence[HistoryEvent], now: datetime) -> CheckedFlow:
    counts = tuple(float(one.rows or 0) for one in reversed(found[:40]))
    week = sum(one.at > now - timedelta(days=7) for one in found)
    return CheckedFlow(flow, counts, found[-1], found[0], len(found), week)
