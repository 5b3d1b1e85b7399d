"""Keep in the history what a comparison found: what is proven of which flow, and since when."""

from __future__ import annotations

from tidegauge.compare.frames import Difference
from tidegauge.errors import LedgerError
from tidegauge.ledger.empty import EmptyLedger
from tidegauge.ledger.open import Ledger
from tidegauge.ledger.owner import this_process

VERIFIED, DIFFERS = "verified", "differs"
"""The events: source and target were compared, and are equal or not."""


def keep_proof(ledger: Ledger | EmptyLedger, pipeline: str, flow: str, found: Difference) -> str | None:
    """One event, with the rows of the source. A comparison holds also where the ledger may only be read: then
    the answer is what to say of it."""
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
