"""How the work of a run is done in parallel."""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """What runs in parallel: nothing, tables, or the readers inside one table."""

    SEQUENTIAL = "sequential"
    INTER_TABLE = "inter-table"
    INTRA_TABLE = "intra-table"
