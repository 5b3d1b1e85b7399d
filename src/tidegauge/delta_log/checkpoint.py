"""Reads a checkpoint of a Delta log in any of its three forms: one file, several parts, or version 2, which
names its data files in files beside it (sidecars)."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tidegauge.delta_log.commit import FACTS, LOG, Action, facts_of, parse_actions
from tidegauge.delta_log.listing import list_log
from tidegauge.storage.store import Store

_MAPS = {"configuration", "options", "partitionValues", "tags"}


class Checkpoint:
    """Decodes only the columns that are asked for. Its methods raise ValueError where a file is damaged."""

    def __init__(
        self,
        version: int,
        names: Sequence[str],
        store: Store,
        folder: Path | None = None,
        bodies: Mapping[str, bytes] | None = None,
    ) -> None:
        """`names`: the checkpoint's files in the log's folder; `folder`: the log's folder, if it is on a
        local disk; `bodies`: the content of files that were read already, by name."""
        self.version = version
        self._names = names
        self._store = store
        self._folder = folder
        self._bodies = dict(bodies or {})

    def transactions(self) -> dict[str, int]:
        """The last version of each application."""
        return {str(one["appId"]): int(one["version"]) for one in self.actions("txn")}

    def facts(self) -> dict[str, Action]:
        """The table's `protocol` and `metaData`, by these names."""
        found: dict[str, Action] = {}
        for name in self._names:
            if name.endswith(".json"):
                found |= facts_of(self._read_body(name))
            else:
                found |= {kind: one for kind in FACTS for one in self._read(name, kind)}
        return found

    def actions(self, kind: str, fields: Sequence[str] = ()) -> list[Action]:
        """All actions of one kind. `fields`: the fields that are read of each; empty: all of them."""
        names = [*self._names, *(self._list_sidecars() if kind in ("add", "remove") else ())]
        return [action for name in names for action in self._read(name, kind, fields)]

    def _list_sidecars(self) -> list[str]:
        paths = [one["path"] for name in self._names for one in self._read(name, "sidecar", ("path",))]
        # All sidecars lie in one folder, so only the file name of each path counts.
        return [f"_sidecars/{unquote(path).rpartition('/')[2]}" for path in paths]

    def _read(self, name: str, kind: str, fields: Sequence[str] = ()) -> list[Action]:
        if name.endswith(".json"):
            return [action[kind] for action in parse_actions(self._read_body(name)) if action.get(kind)]
        import pyarrow as pa
        import pyarrow.parquet as pq

        where = self._folder / name if self._folder else io.BytesIO(self._read_body(name))
        try:
            with pq.ParquetFile(where) as file:
                if kind not in file.schema_arrow.names:
                    return []
                columns = [f"{kind}.{field}" for field in fields] or [kind]
                table = file.read(columns=columns, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{name}: {error}") from error
        return [_to_log_form(one) for one in table.column(kind).drop_null().to_pylist()]

    def _read_body(self, name: str) -> bytes:
        if name not in self._bodies:
            body = self._store.get(f"{LOG}/{name}")
            if body is None:
                raise ValueError(f"{name} is gone")
            self._bodies[name] = body
        return self._bodies[name]


def open_checkpoint(store: Store, version: int) -> Checkpoint:
    """The checkpoint of a version, for a log that was not listed. Raises ValueError where any of its files is
    missing."""
    name = f"{version:020}.checkpoint.parquet"
    if (body := store.get(f"{LOG}/{name}")) is not None:
        return Checkpoint(version, [name], store, bodies={name: body})
    names = list_log(store).checkpoints.get(version)
    if names is None:
        raise ValueError("it is not there, or not with all its parts")
    return Checkpoint(version, names, store)


def last_checkpoint(store: Store) -> int | None:
    """The version in the file `_last_checkpoint`, which may be a little behind; None where it cannot be
    read."""
    body = store.get(f"{LOG}/_last_checkpoint")
    if body is None:
        return None
    try:
        return int(json.loads(body)["version"])
    except (ValueError, KeyError, TypeError):
        return None  # the file is only a hint: without it, the log is listed


def _to_log_form(action: Action) -> dict[str, Any]:
    """The action as the log's JSON has it: maps, which Parquet gives as pairs, become objects. NULL fields
    are left out, and so are parsed statistics (`stats_parsed`), whose fields are the table's columns."""
    plain: dict[str, Any] = {}
    for key, value in action.items():
        if key.endswith("_parsed"):
            continue
        # In `domainMetadata` the configuration is a string and no map.
        if key in _MAPS and not isinstance(value, str):
            plain[key] = dict(value or ())
        elif isinstance(value, dict):
            plain[key] = _to_log_form(value)
        elif value is not None:
            plain[key] = value
    return plain
