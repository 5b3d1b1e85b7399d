"""Overrides: changes of watermarks by hand, and what would undo them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegauge.model.position import Position

Identity = tuple[str | None, str | None]
"""Which table an input is, and the fingerprint of its columns; None: not known, any will do."""


@dataclass(frozen=True)
class Override:
    """A change by hand that was begun: no one advances any more, and whoever comes next ends it."""

    kind: str
    """`set`, `reset`, `refresh` (a reset that empties the output), `copy`, `import` or `undo`."""
    positions: Mapping[str, Position | None]
    """By input; inputs that are not named stay where they are."""
    epoch: int
    """The epoch that the output has to open before the ledger moves."""
    continues: tuple[int, int] | None
    """Epoch and batch up to which the new epoch shows what an earlier one wrote; None: nothing."""
    reason: str
    actor: str
    at: datetime
    identities: Mapping[str, Identity] = field(default_factory=dict)
    """By input, what the next plan shall compare its table with; inputs that are not named keep theirs."""


@dataclass(frozen=True)
class Stand:
    """Where a flow stood when somebody looked at it. Whoever takes, moves or plans it since makes another."""

    fence: int = 0
    plan_id: str | None = None
    done: int = 0
    """Batches of the plan."""


FORGET = "forget"


@dataclass(frozen=True)
class Undo:
    """What the last override replaced, or what was forgotten."""

    kind: str
    """As an override's, or FORGET."""
    positions: Mapping[str, Position | None]
    continues: tuple[int, int]
    at: datetime
    identities: Mapping[str, Identity] = field(default_factory=dict)

    @property
    def forgot(self) -> bool:
        """Whether the flow was forgotten after it had delivered: nothing is planned until a person says how
        it goes on."""
        return self.kind == FORGET and self.continues != (0, 0)


def show_continued(continues: tuple[int, int] | None) -> str:
    """What an epoch continues, as messages name it."""
    return "nothing" if continues is None else "epoch {} up to batch {}".format(*continues)
