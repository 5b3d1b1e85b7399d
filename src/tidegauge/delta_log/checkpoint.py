"""What a checkpoint of a Delta log holds, in whichever of its three forms: one file, several parts, or one of
version 2, whose files of data are named in files beside it."""

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
    """Only the columns that someone asks for are decoded. Raises ValueError where a file is damaged."""

    def __init__(
        self,
        version: int,
        names: Sequence[str],
        store: Store,
        folder: Path | None = None,
        bodies: Mapping[str, bytes] | None = None,
    ) -> None:
        """`names` are those of its files in the log's folder; `folder` is that one, if it is on a local disk;
        `bodies` what was read of them already."""
        self.version = version
        self._names = names
        self._store = store
        self._folder = folder
        self._bodies = dict(bodies or {})

    def transactions(self) -> dict[str, int]:
        return {str(one["appId"]): int(one["version"]) for one in self.actions("txn")}

    def facts(self) -> dict[str, Action]:
        """`protocol` and `metaData`."""
        found: dict[str, Action] = {}
        for name in self._names:
            if name.endswith(".json"):
                found |= facts_of(self._body(name))
            else:
                found |= {kind: one for kind in FACTS for one in self._read(name, kind)}
        return found

    def actions(self, kind: str, fields: Sequence[str] = ()) -> list[Action]:
        """`fields`: those that are needed of each action; none: all."""
        names = [*self._names, *(self._sidecars() if kind in ("add", "remove") else ())]
        return [action for name in names for action in self._read(name, kind, fields)]

    def _sidecars(self) -> list[str]:
        paths = [one["path"] for name in self._names for one in self._read(name, "sidecar", ("path",))]
        # They lie in one folder, whatever stands before their name.
        return [f"_sidecars/{unquote(path).rpartition('/')[2]}" for path in paths]

    def _read(self, name: str, kind: str, fields: Sequence[str] = ()) -> list[Action]:
        if name.endswith(".json"):
            return [action[kind] for action in parse_actions(self._body(name)) if action.get(kind)]
        import pyarrow as pa
        import pyarrow.parquet as pq

        where = self._folder / name if self._folder else io.BytesIO(self._body(name))
        try:
            with pq.ParquetFile(where) as file:
                if kind not in file.schema_arrow.names:
                    return []
                columns = [f"{kind}.{field}" for field in fields] or [kind]
                table = file.read(columns=columns, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{name}: {error}") from error
        return [_plain(one) for one in table.column(kind).drop_null().to_pylist()]

    def _body(self, name: str) -> bytes:
        if name not in self._bodies:
            body = self._store.get(f"{LOG}/{name}")
            if body is None:
                raise ValueError(f"{name} is gone")
            self._bodies[name] = body
        return self._bodies[name]


def open_checkpoint(store: Store, version: int) -> Checkpoint:
    """That of a version, where the log was not listed. Raises ValueError where it is not there as a whole."""
    name = f"{version:020}.checkpoint.parquet"
    if (body := store.get(f"{LOG}/{name}")) is not None:
        return Checkpoint(version, [name], store, bodies={name: body})
    names = list_log(store).checkpoints.get(version)
    if names is None:
        raise ValueError("it is not there, or not with all its parts")
    return Checkpoint(version, names, store)


def last_checkpoint(store: Store) -> int | None:
    """As `_last_checkpoint` says, which may be a little behind."""
    body = store.get(f"{LOG}/_last_checkpoint")
    if body is None:
        return None
    try:
        return int(json.loads(body)["version"])
    except (ValueError, KeyError, TypeError):
        return None  # a hint, no more: the log is listed


def _plain(action: Action) -> dict[str, Any]:
    """As the log's JSON would say it: maps come as pairs, what is not set is not there, and neither are
    statistics in columns of their own (`stats_parsed`), which are called as the table's columns are."""
    plain: dict[str, Any] = {}
    for key, value in action.items():
        if key.endswith("_parsed"):
            continue
        # The configuration of a domain (`domainMetadata`) is a text.
        if key in _MAPS and not isinstance(value, str):
            plain[key] = dict(value or ())
        elif isinstance(value, dict):
            plain[key] = _plain(value)
        elif value is not None:
            plain[key] = value
    return plain
