"""Overrides: changes of watermarks by hand, and what is needed to undo them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegauge.model.position import Position

Identity = tuple[str | None, str | None]
"""The source table of an input, and the fingerprint of its columns; None: not known, so any is accepted."""

OVERRIDES = ("set", "reset", "refresh", "copy", "import", "undo")
"""The kinds of overrides; `refresh` is a reset that empties the output. The history has an event for each."""
BEGIN_EPOCH = (*OVERRIDES, "forgotten", "rebuilt")
"""The events of changes by hand that each begin an epoch."""
BY_HAND = (*BEGIN_EPOCH, "imported", "backfill", "repair", "suspended", "resumed", "retried", "files_cleaned",
           "files_compacted", "vacuumed", "quarantine_discarded", "quarantine_replayed")  # fmt: skip
"""The events of all changes by hand; `optimized` is not among them, as runs leave it too."""


@dataclass(frozen=True)
class Override:
    """A change by hand that was begun: nobody can advance the flow until the override ends."""

    kind: str
    """One of OVERRIDES."""
    positions: Mapping[str, Position | None]
    """The new positions by input; inputs that are not named stay where they are."""
    epoch: int
    """The epoch that the output has to open before the ledger changes."""
    continues: tuple[int, int] | None
    """Earlier epoch and its last batch that the new epoch still shows; None: nothing earlier is shown."""
    reason: str
    actor: str
    at: datetime
    identities: Mapping[str, Identity] = field(default_factory=dict)
    """By input, the identity that the next plan compares the table with; inputs not named keep theirs."""


@dataclass(frozen=True)
class FlowRevision:
    """Where a flow stood when it was looked at. Any later claim, advance, override or plan changes it."""

    fence: int = 0
    plan_id: str | None = None
    done: int = 0
    """How many batches of the plan were done."""


FORGET = "forget"


@dataclass(frozen=True)
class Undo:
    """What the last override replaced, or what `forget` removed; `undo` brings it back."""

    kind: str
    """The kind of the override, or FORGET."""
    positions: Mapping[str, Position | None]
    continues: tuple[int, int]
    at: datetime
    identities: Mapping[str, Identity] = field(default_factory=dict)

    @property
    def forgot(self) -> bool:
        """Whether the flow was forgotten after it had delivered rows: it is not planned until a person
        decides how it continues."""
        return self.kind == FORGET and self.continues != (0, 0)


def show_continued(continues: tuple[int, int] | None) -> str:
    """Describe what an epoch continues, for messages."""
    return "nothing" if continues is None else "epoch {} up to batch {}".format(*continues)
