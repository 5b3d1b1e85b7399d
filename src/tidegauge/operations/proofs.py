"""Records in the history what a comparison of source and target found."""

from __future__ import annotations

from tidegauge.compare.frames import Difference
from tidegauge.errors import LedgerError
from tidegauge.ledger.empty import EmptyLedger
from tidegauge.ledger.open import Ledger
from tidegauge.ledger.owner import this_process

VERIFIED, DIFFERS = "verified", "differs"
"""The events: source and target were compared, and are equal or differ."""


def keep_proof(ledger: Ledger | EmptyLedger, pipeline: str, flow: str, found: Difference) -> str | None:
    """Record one event, with the number of source rows. Return None, or a note if the ledger cannot be
    written: the comparison is valid all the same."""
    if isinstance(ledger, EmptyLedger):
        return None
    event = VERIFIED if found.equal else DIFFERS
    try:
        ledger.note(
            pipeline, flow, event, owner=this_process(), reason=tell_proof(found), rows=found.source_rows
        )
    except LedgerError as error:
        return f"not kept in the history: {error.message}"
    return None


def tell_proof(found: Difference) -> str:
    parts = {
        "missing": found.missing,
        "extra": found.extra,
        "different": found.different,
        "columns lost": len(found.lost),
    }
    said = ", ".join(f"{count:,} {word}" for word, count in parts.items() if count) or "equal"
    newer = f", {found.newer:,} newer" if found.newer else ""
    return (
        f"{said}: source {found.source_rows:,} rows, target {found.target_rows:,}{newer}, by {found.method}"
    )
