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

    @property
    def effective_master(self) -> str:
        """Where Spark runs: `spark.master` of `conf`, which Spark obeys first, else `master`, else here."""
        return (self.conf.get("spark.master") or self.master or "local[*]").strip()

    @property
    def is_local(self) -> bool:
        """Whether Spark and its tasks run on this machine alone."""
        return self.effective_master.startswith("local")

    @property
    def is_connect(self) -> bool:
        """Whether the master is a Spark Connect server."""
        return self.effective_master.startswith("sc://")
