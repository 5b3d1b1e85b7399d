"""How the user wants Spark to be started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SparkSettings:
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """May hold secrets, as Spark's settings do."""
