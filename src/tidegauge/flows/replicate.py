"""A table from a database to a warehouse or a Delta table, in one stage."""

from __future__ import annotations

from tidegauge.flows.database import DatabaseFlow


class Replicate(DatabaseFlow):
    """Rows that the source no longer has are deleted from the target, where the user wants that."""
