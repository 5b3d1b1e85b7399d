"""The write modes, and the facts about each.

What a mode does to a target is in `outputs/warehouse/modes.py` and `outputs/delta/modes.py`. All other code
asks for a fact of the mode, and never compares the mode itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OutputKind(StrEnum):
    LAKE = "lake"
    WAREHOUSE = "warehouse"
    DELTA = "delta"


class Mode(StrEnum):
    """How rows land in a target. A lake keeps every version of a row, whatever the mode."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    SCD2 = "scd2"
    REPLACE_PARTITIONS = "replace_partitions"

    @property
    def facts(self) -> ModeFacts:
        return _FACTS[self]

    def needs_key(self, output: OutputKind) -> bool:
        """Whether the mode needs a key in this kind of output, to find rows of the target."""
        return output in self.facts.keyed_in

    def one_row_per_key(self, output: OutputKind) -> bool:
        """Whether a target of this kind has only the newest row of each key."""
        return self.needs_key(output) and not self.facts.keeps_history


@dataclass(frozen=True)
class ModeFacts:
    keyed_in: frozenset[OutputKind] = frozenset()
    """Kinds of output in which the mode finds rows of the target by their key."""
    only_adds: bool = False
    """Rows of the target are never changed or removed: a row delivered twice is there twice."""
    keeps_history: bool = False
    """A row of the target is a version of a key, with the time span in which it was valid."""
    replaces_all: bool = False
    """A batch is the whole table: nothing that was there before stays."""
    replaces_partitions: bool = False
    """A batch has all rows of each partition that it touches."""

    @property
    def keeps_every_change(self) -> bool:
        """Whether the target keeps all changes of a row, and not just its current state."""
        return self.only_adds or self.keeps_history


MODES: dict[OutputKind, tuple[Mode, ...]] = {
    OutputKind.LAKE: (Mode.APPEND,),
    OutputKind.WAREHOUSE: (Mode.APPEND, Mode.MERGE, Mode.OVERWRITE, Mode.SCD2),
    OutputKind.DELTA: (Mode.APPEND, Mode.MERGE, Mode.SCD2, Mode.REPLACE_PARTITIONS, Mode.OVERWRITE),
}
"""The modes of each kind of output, in the order in which messages name them."""

_ANY_TARGET = frozenset({OutputKind.WAREHOUSE, OutputKind.DELTA})

_FACTS = {
    Mode.APPEND: ModeFacts(only_adds=True),
    Mode.MERGE: ModeFacts(keyed_in=_ANY_TARGET),
    # A warehouse updates existing rows that differ; a Delta table gets new files.
    Mode.OVERWRITE: ModeFacts(keyed_in=frozenset({OutputKind.WAREHOUSE}), replaces_all=True),
    Mode.SCD2: ModeFacts(keyed_in=_ANY_TARGET, keeps_history=True),
    Mode.REPLACE_PARTITIONS: ModeFacts(replaces_partitions=True),
}
