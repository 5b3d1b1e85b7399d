"""The error for a batch that the output has under a tag, and that is not the ledger's."""

from __future__ import annotations

from tidegauge.errors import OutputDisagrees
from tidegauge.model.plan import Tag


def other_batch_error(place: str, tag: Tag) -> OutputDisagrees:
    return OutputDisagrees(
        f"{place} holds another window than the ledger's batch {tag.seq} of epoch {tag.epoch}, or another"
        " kind of batch (rows, rows without a cursor, deletes)",
        hint="this ledger is an older copy, or another one writes here; nothing was changed",
    )
