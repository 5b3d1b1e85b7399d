"""The user's settings for starting Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True)
class SparkSettings:
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark's configuration, which may contain secrets."""
    keep_warm: timedelta | None = None
    """How long an idle Spark waits for the next command; None: it ends with its command."""
    digest: str = field(default="", repr=False)
    """Digest of the connections, because Java remembers a bucket's keys. Set only if Spark is kept warm."""
