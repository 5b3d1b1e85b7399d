"""How rows get into a target, and what is true of each way.

What a mode does to a target is in `outputs/warehouse/modes.py` and `outputs/delta/modes.py`. Whoever else has
to know something of a mode asks for a fact, and never for the mode itself.
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
        """Whether it finds rows of the target by their key there."""
        return output in self.facts.keyed_in

    def one_row_per_key(self, output: OutputKind) -> bool:
        """Whether a target there has the newest row of each key, and no other."""
        return self.needs_key(output) and not self.facts.keeps_history


@dataclass(frozen=True)
class ModeFacts:
    keyed_in: frozenset[OutputKind] = frozenset()
    """Kinds of output in which it finds rows of the target by their key."""
    only_adds: bool = False
    """No row of the target is ever changed or removed: what is delivered twice is there twice."""
    keeps_history: bool = False
    """A row of the target is a version of a key, with the time from and to which it was true."""
    replaces_all: bool = False
    """A batch is the whole table: nothing that was there before stays."""
    replaces_partitions: bool = False
    """A batch has all rows of each partition that it touches."""

    @property
    def keeps_every_change(self) -> bool:
        """The target shows what came in between too, and not just how each row is now."""
        return self.only_adds or self.keeps_history


MODES: dict[OutputKind, tuple[Mode, ...]] = {
    OutputKind.LAKE: (Mode.APPEND,),
    OutputKind.WAREHOUSE: (Mode.APPEND, Mode.MERGE, Mode.OVERWRITE, Mode.SCD2),
    OutputKind.DELTA: (Mode.APPEND, Mode.MERGE, Mode.SCD2, Mode.REPLACE_PARTITIONS, Mode.OVERWRITE),
}
"""Which each kind of output has, in the order in which messages name them."""

_ANY_TARGET = frozenset({OutputKind.WAREHOUSE, OutputKind.DELTA})

_FACTS = {
    Mode.APPEND: ModeFacts(only_adds=True),
    Mode.MERGE: ModeFacts(keyed_in=_ANY_TARGET),
    # A warehouse updates the rows that are there and differ; a Delta table gets new files.
    Mode.OVERWRITE: ModeFacts(keyed_in=frozenset({OutputKind.WAREHOUSE}), replaces_all=True),
    Mode.SCD2: ModeFacts(keyed_in=_ANY_TARGET, keeps_history=True),
    Mode.REPLACE_PARTITIONS: ModeFacts(replaces_partitions=True),
}
