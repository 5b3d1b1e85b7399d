"""Where the rows of a sync are moved: through Spark, or inside the database that has both ends."""

from __future__ import annotations

from enum import StrEnum


class Execute(StrEnum):
    SPARK = "spark"
    DATABASE = "database"
