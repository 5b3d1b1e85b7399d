"""Delta tables made by delta-rs, and logs written by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from tidegauge.model.versions import FEED, DeltaHistory

ROWS = pa.table({"id": [1, 2], "p": ["a", "b: c"]})
FED = {FEED: "true"}


def append(path: Path, **changes: Any) -> None:
    write_deltalake(path, ROWS, mode="append", **changes)


def log(path: Path, version: int, kind: str = "json") -> Path:
    return path / "_delta_log" / f"{version:020}.{kind}"


def actions(path: Path, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log(path, version).read_text().splitlines()]


def commit(path: Path, version: int, *written: dict[str, Any], at: int | None = 1_700_000_000_000) -> None:
    info = [] if at is None else [{"commitInfo": {"timestamp": at, "operation": "HAND"}}]
    log(path, version).parent.mkdir(parents=True, exist_ok=True)
    log(path, version).write_text("\n".join(map(json.dumps, [*info, *written])))


def metadata(table_id: str = "id1", **properties: str) -> dict[str, Any]:
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    return {
        "metaData": {
            "id": table_id,
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {name.replace("_", "."): text for name, text in properties.items()},
        }
    }


def protocol(*features: str) -> dict[str, Any]:
    if not features:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    named = {"readerFeatures": list(features), "writerFeatures": list(features)}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **named}}


def add(path: str, **facts: Any) -> dict[str, Any]:
    return {"add": {"path": path, "size": 7, "partitionValues": {}, "dataChange": True, **facts}}


def facts(found: DeltaHistory, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(version, name) for name in names) for version in found.versions]


def same(found: DeltaHistory, known: DeltaHistory) -> bool:
    """Compare all but the time of reading and the earliest version, which cleaning the log changes."""
    return replace(found, read_at=known.read_at, earliest=known.earliest) == known
