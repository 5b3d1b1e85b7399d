"""A table of a Delta ledger at one version: its files, and what each commit of the log changes. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from json import loads
from typing import Any
from urllib.parse import unquote

from tidegauge.delta_log.commit import Commit


def partition_of(columns: Mapping[str, str]) -> str:
    """The column that holds the pipeline, by which every table of a ledger is partitioned."""
    return "pipeline" if "pipeline" in columns else "pipeline_name"


@dataclass(frozen=True)
class LedgerFile:
    path: str
    """The path as the log has it; another writer's may be percent-encoded."""
    pipeline: str
    rows: int
    bytes: int
    latest: datetime | None
    """The latest `at` of its rows; None where the statistics do not say."""

    @property
    def place(self) -> str:
        """The path on disk, below the table's folder."""
        return unquote(self.path)

    def to_log(self, partition: str) -> dict[str, Any]:
        return {"path": self.path, "partitionValues": {partition: self.pipeline}, "size": self.bytes}


@dataclass(frozen=True)
class LedgerSnapshot:
    """A table's files at one version; immutable."""

    version: int
    files: Mapping[str, LedgerFile]
    counters: Mapping[str, int]
    """Application transactions since the table was opened; `LedgerTable.counter` knows the earlier ones."""
    seen: float = field(compare=False)
    """When this was the newest version, in seconds of a clock that nobody can set."""

    def of(self, pipeline: str) -> list[LedgerFile]:
        return [file for file in self.files.values() if file.pipeline == pipeline]


def apply_commits(snapshot: LedgerSnapshot, commits: Sequence[Commit], seen: float) -> LedgerSnapshot | None:
    """The snapshot after these commits; None if one of them changes the table's metadata or protocol."""
    files, counters = dict(snapshot.files), dict(snapshot.counters)
    for commit in commits:
        if commit.facts:
            return None
        for removed in commit.removed:
            files.pop(removed["path"], None)
        files |= {added["path"]: _file(added) for added in commit.added}
        counters |= commit.transactions
    return LedgerSnapshot(snapshot.version + len(commits), files, counters, seen)


def _file(added: Mapping[str, Any]) -> LedgerFile:
    stats = loads(added.get("stats") or "{}")
    latest = stats.get("maxValues", {}).get("at")
    return LedgerFile(
        path=added["path"],
        pipeline=next(iter(added["partitionValues"].values())),
        rows=stats.get("numRecords", 0),
        bytes=added["size"],
        latest=None if latest is None else datetime.fromisoformat(latest).astimezone(UTC),
    )
