"""A table from a database to a lake: the first of two stages, or the only one."""

from __future__ import annotations

from tidegauge.flows.database import DatabaseFlow


class Extract(DatabaseFlow):
    """The lake keeps every version of a row, so nothing is ever deleted there."""
