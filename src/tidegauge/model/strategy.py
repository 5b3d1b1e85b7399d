"""How the work of a run is spread."""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """What goes side by side: nothing, tables, or the readers inside one table."""

    SEQUENTIAL = "sequential"
    INTER_TABLE = "inter-table"
    INTRA_TABLE = "intra-table"
