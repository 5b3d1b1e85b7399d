"""A flow from a database table to a warehouse or a Delta table, in one stage."""

from __future__ import annotations

from tidegauge.flows.table.database import DatabaseFlow


class ReplicateFlow(DatabaseFlow):
    """A flow from a database to its target. It deletes rows that the source no longer has, if configured."""
