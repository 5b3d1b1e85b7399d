"""How far an input has been delivered, according to the ledger or the output, and what was done so far."""

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
    """How far the source was looked at; on an idle table that is further than `position`, the last row."""
    epoch: int
    seq: int
    """The last sequence number committed in this epoch; 0 before the first."""
    pending: str | None
    """What the next plan has to know, as the text of `model.pending.Pending`."""
    source_id: str | None
    updated_at: datetime
    fingerprint: str | None = None
    """Fingerprint of the columns in the last plan that this input completed."""
    stamp: str | None = None
    """When the source committed the data at `position`, if the source says so."""


@dataclass(frozen=True)
class Recalled:
    """Where an input stands, according to what the output stores with its last batch. None: not stored."""

    cursor: str
    """The cursor's kind; empty if not stored."""
    position: Position | None
    source_id: str | None = None
    fingerprint: str | None = None
    stamp: str | None = None
    pending: str | None = None


@dataclass(frozen=True)
class Tally:
    """What a flow has done since its last reset. Only shown to people; nothing depends on it."""

    rows: int = 0
    """Number of rows written; `batches` and `files` likewise."""
    batches: int = 0
    files: int | None = 0
    """None if the ledger is older than this count."""
    seconds: float = 0.0
    """Total duration of the runs that have ended."""
    advanced_at: datetime | None = None
    """When a batch last moved the watermark."""
    manual: bool = False
    """Whether a person set the position, and no batch has moved it since."""
    strategy: str | None = None
    """The `Strategy` of the newest run, from its plan."""
    loaded: tuple[str, ...] = ()
    """The newest thousand of the lake files that it has loaded, oldest first."""
    loaded_files: int = 0
    """Number of all lake files that it has loaded."""
    created_at: datetime | None = None
    """When the ledger first listed the flow; None if the flow is older than this field."""
    updated_at: datetime | None = None
