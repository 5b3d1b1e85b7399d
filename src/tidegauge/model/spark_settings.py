"""How the user wants Spark to be started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True)
class SparkSettings:
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """May hold secrets, as Spark's settings do."""
    keep_warm: timedelta | None = None
    """How long a Spark that nobody uses waits for the next command; None: it ends with its command."""
    digest: str = field(default="", repr=False)
    """Of the connections, for Java remembers a bucket's keys. Only where Spark is kept warm."""
