"""How far an input has got, as the ledger or the output itself says, and what was done on the way."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegauge.model.position import Position


@dataclass(frozen=True)
class Watermark:
    pipeline: str
    flow: str
    input: str
    cursor: str
    position: Position | None
    checked: Position | None
    """How far the source was looked at, which on an idle table is further than the last row."""
    epoch: int
    seq: int
    """The last sequence number committed in this epoch; 0 before the first."""
    pending: str | None
    """What the next plan has to know: `model.pending.Pending` as text."""
    source_id: str | None
    updated_at: datetime
    fingerprint: str | None = None
    """Of the columns as they were in the last plan that this input completed."""
    stamp: str | None = None
    """When the source committed what the position stands for, where the source says so."""


@dataclass(frozen=True)
class Recalled:
    """Where an input stands by what the output keeps of its last batch. None: the output does not say."""

    cursor: str
    """The cursor's kind; empty where the output does not say."""
    position: Position | None
    source_id: str | None = None
    fingerprint: str | None = None
    stamp: str | None = None
    pending: str | None = None


@dataclass(frozen=True)
class Tally:
    """What a flow has done since it was last reset. For people: nothing is decided by it."""

    rows: int = 0
    """Written, as are `batches` and `files`."""
    batches: int = 0
    files: int | None = 0
    """None where the ledger is older than this count."""
    seconds: float = 0.0
    """Of the runs that have ended."""
    advanced_at: datetime | None = None
    """When the watermark last moved by itself."""
    manual: bool = False
    """Whether a person set the position, and no batch has moved it since."""
    strategy: str | None = None
    """Of the newest run, as its plan says."""
    loaded: tuple[str, ...] = ()
    """The newest thousand of the lake's files that it has taken, oldest first."""
    loaded_files: int = 0
    """All of them."""
    created_at: datetime | None = None
    """When the ledger first listed the flow; None where the flow is older than this field."""
    updated_at: datetime | None = None
