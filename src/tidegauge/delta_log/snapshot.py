"""A Delta table at one version: its files, and what each commit of the log changes. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from json import loads
from typing import Any
from urllib.parse import unquote

PARTITION = "pipeline_name"


@dataclass(frozen=True)
class File:
    path: str
    """As the log names it. Ours are the same on disk; another writer's may be percent-encoded here."""
    pipeline: str
    rows: int
    bytes: int
    latest: datetime | None
    """The highest `at` inside, where statistics tell it."""

    @property
    def place(self) -> str:
        return unquote(self.path)

    def to_log(self) -> dict[str, Any]:
        return {"path": self.path, "partitionValues": {PARTITION: self.pipeline}, "size": self.bytes}


@dataclass(frozen=True)
class Snapshot:
    """Never changes."""

    version: int
    files: Mapping[str, File]
    counters: Mapping[str, int]
    """Application transactions since the table was opened; `Table.counter` knows the earlier ones."""
    seen: float = field(compare=False)
    """When it was the newest, by a clock that nobody can set."""

    def of(self, pipeline: str) -> list[File]:
        return [file for file in self.files.values() if file.pipeline == pipeline]


def after(snapshot: Snapshot, commits: Sequence[Sequence[Mapping[str, Any]]], seen: float) -> Snapshot | None:
    """The snapshot that these commits lead to; None if one of them changes what the table is."""
    files, counters = dict(snapshot.files), dict(snapshot.counters)
    for action in (action for commit in commits for action in commit):
        match action:
            case {"add": {"path": str(path)} as added}:
                files[path] = _file(added)
            case {"remove": {"path": str(path)}}:
                files.pop(path, None)
            case {"txn": {"appId": str(name), "version": int(number)}}:
                counters[name] = number
            case {"metaData": _} | {"protocol": _}:
                return None
    return Snapshot(snapshot.version + len(commits), files, counters, seen)


def _file(added: Mapping[str, Any]) -> File:
    stats = loads(added.get("stats") or "{}")
    latest = stats.get("maxValues", {}).get("at")
    return File(
        path=added["path"],
        pipeline=added["partitionValues"][PARTITION],
        rows=stats.get("numRecords", 0),
        bytes=added["size"],
        latest=None if latest is None else datetime.fromisoformat(latest).astimezone(UTC),
    )
