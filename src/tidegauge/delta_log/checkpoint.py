"""What a checkpoint of a Delta log holds, in whichever of its three forms."""

from __future__ import annotations

import json
from typing import Any

from tidegauge.errors import OutputDisagrees
from tidegauge.storage.store import Store

_LOG = "_delta_log"
_MAPS = {"configuration", "options", "partitionValues", "tags"}


class Checkpoint:
    """Its files are read once, and of each only the columns that someone asks for are decoded."""

    def __init__(self, version: int, bodies: list[tuple[str, bytes]], place: str) -> None:
        self.version = version
        self._bodies = bodies
        self._place = place

    def transactions(self) -> dict[str, int]:
        return {str(one["appId"]): int(one["version"]) for one in self.actions("txn")}

    def actions(self, kind: str) -> list[dict[str, Any]]:
        try:
            return [action for name, body in self._bodies for action in _of_kind(name, body, kind)]
        except (OSError, ValueError, KeyError) as error:
            raise OutputDisagrees(
                f"the checkpoint {self.version} of the Delta table at {self._place} cannot be read: {error}",
                hint="restore its _delta_log, or the whole table; nothing was changed",
            ) from error


def newest_checkpoint(store: Store) -> int | None:
    """As `_last_checkpoint` says, which may be a little behind."""
    body = store.get(f"{_LOG}/_last_checkpoint")
    if body is None:
        return None
    try:
        return int(json.loads(body)["version"])
    except (ValueError, KeyError, TypeError):
        return None  # a hint, no more: the log is read from its beginning


def load_checkpoint(store: Store, version: int) -> Checkpoint:
    name = f"{_LOG}/{version:020}.checkpoint.parquet"
    if (body := store.get(name)) is not None:
        return Checkpoint(version, [(name, body)], store.place)
    found = [
        entry.path for entry in store.list(_LOG) if entry.path.startswith(f"{_LOG}/{version:020}.checkpoint.")
    ]
    parts = [path for path in found if path.count(".") == 4]
    if not parts:
        parts = sorted(found)[:1]  # one of version 2: any of them is whole
    bodies = [(path, store.get(path) or b"") for path in sorted(parts)]
    for path, body in list(bodies):
        for sidecar in _of_kind(path, body, "sidecar"):
            beside = f"{_LOG}/_sidecars/{sidecar['path'].rpartition('/')[2]}"
            bodies.append((beside, store.get(beside) or b""))
    return Checkpoint(version, bodies, store.place)


def _of_kind(name: str, body: bytes, kind: str) -> list[dict[str, Any]]:
    if name.endswith(".json"):
        lines = (json.loads(line) for line in body.splitlines() if line.strip())
        return [line[kind] for line in lines if line.get(kind)]
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(body))
    if kind not in file.schema_arrow.names:
        return []
    column = file.read(columns=[kind]).column(kind).combine_chunks()
    return [_plain(one) for one in column.filter(pc.is_valid(column)).to_pylist()]


def _plain(action: dict[str, Any]) -> dict[str, Any]:
    """As the log's JSON would say it: maps come as pairs, and what is not set is not there."""
    plain: dict[str, Any] = {}
    for key, value in action.items():
        if key in _MAPS:
            plain[key] = dict(value or ())
        elif isinstance(value, dict):
            plain[key] = _plain(value)
        elif value is not None:
            plain[key] = value
    return plain
