"""What a Delta table says of itself, from its log alone: no Spark job, many tables at once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidegauge.errors import (
    OutputError,
    RuntimeMissing,
    SourceError,
    SourceUnreachable,
    TableMissing,
    TidegaugeError,
)
from tidegauge.model.secret import mask
from tidegauge.model.spec import Lake
from tidegauge.objects.delta import address, is_panic, library, options, said
from tidegauge.objects.store import Store, open_store

_LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*")
_NEWEST_READER = 3
_ELSEWHERE = {"catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"}
"""Features under which a catalogue knows of commits that the log does not have yet."""


@dataclass(frozen=True)
class TableLook:
    location: str
    version: int
    table_id: str
    """Another one means another table, whatever its name and version."""
    schema_version: str
    """Changes when a column's name, type or nullability does, and with nothing else."""
    commit_timestamp: datetime
    """When this version was committed, in UTC and with the zone."""


def look(location: str, *, storage: Lake | None = None) -> TableLook:
    """The newest version of the table at a local path, `file:` or `s3a://` location.

    `storage` has the endpoint, region and keys for S3; what it leaves out comes from the environment. Raises
    TableMissing, SourceUnreachable, or SourceError for a log that cannot be understood.
    """
    lake = _lake(location, storage)
    deltalake = library()
    try:
        table = deltalake.DeltaTable(address(lake), storage_options=options(lake))
        newest = table.history(1)[0]
        return TableLook(
            location=location,
            version=table.version(),
            table_id=str(table.metadata().id),
            schema_version=schema_digest(table.schema().to_json()),
            commit_timestamp=_moment(newest),
        )
    except deltalake.exceptions.TableNotFoundError as error:
        raise _missing(location, lake, error) from error
    except (deltalake.exceptions.DeltaError, KeyError, IndexError, ValueError) as error:
        # A feature or a path that the library does not know, a commit without a time, or real damage.
        return _by_hand(location, lake, error)
    except OSError as error:
        raise _unreachable(location, error) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise SourceError(
            f"the Delta table at {location} cannot be read here: {said(error)}",
            hint="start processes by `spawn` or `forkserver`; delta-rs does not survive a fork",
        ) from error


def look_many(
    tables: Mapping[str, str], *, storage: Lake | None = None, parallel: int = 16
) -> dict[str, TableLook | TidegaugeError]:
    """Every table by its name, at once. What stops one table is its answer, and stops no other."""

    def one(name: str, location: str) -> TableLook | TidegaugeError:
        try:
            return look(location, storage=storage)
        except RuntimeMissing:
            raise
        except TidegaugeError as error:
            named = type(error)(
                f"{name}: {error.message}", hint=error.hint, retryable=error.retryable, detail=error.detail
            )
            named.__cause__ = error
            return named

    if not tables:
        return {}
    library()  # once, before the threads
    with ThreadPoolExecutor(max(1, min(parallel, len(tables)))) as pool:
        return dict(zip(tables, pool.map(one, tables.keys(), tables.values()), strict=True))


def schema_digest(schema: str) -> str:
    """Short and stable: of the names, types and nullability in a schema's JSON, and of nothing else there."""
    text = json.dumps(_bare(json.loads(schema)), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _bare(part: Any) -> Any:
    match part:
        case {"type": "struct", "fields": fields}:
            return [[one["name"], _bare(one["type"]), one["nullable"]] for one in fields]
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            return ["array", _bare(element), nullable]
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}:
            return ["map", _bare(key), _bare(value), nullable]
        case _:
            return part


def _lake(location: str, storage: Lake | None) -> Lake:
    scheme, colon, rest = location.partition(":")
    if colon and scheme in ("s3", "s3a", "s3n"):
        path = f"s3a:{rest.rstrip('/')}"
    elif colon and scheme == "file":
        path = "/" + rest.lstrip("/")
    elif colon and "://" in location:
        raise SourceError(
            f"the Delta table at {location} is on a kind of store that is not known here",
            hint="the log is read from local paths, file: and s3a: locations",
        )
    else:
        path = str(Path(location).absolute())
    return Lake("", path) if storage is None else replace(storage, path=path)


def _by_hand(location: str, lake: Lake, error: Exception) -> TableLook:
    """The same four answers out of the log's files, for a table that the library does not take."""
    try:
        found = _read_log(open_store(lake))
    except OutputError as unreachable:
        raise _unreachable(location, unreachable) from unreachable
    except (ValueError, KeyError, OSError) as damage:
        raise _damaged(location, error) from damage
    if found is None:
        raise _missing(location, lake, error) from error
    protocol, metadata, version, at = found
    features = set(protocol.get("readerFeatures") or ()) | set(protocol.get("writerFeatures") or ())
    if protocol["minReaderVersion"] > _NEWEST_READER:
        raise SourceError(
            f"the Delta table at {location} has reader protocol {protocol['minReaderVersion']}, "
            f"and {_NEWEST_READER} is the newest that is known",
            hint="update tidegauge and deltalake",
        ) from error
    if features & _ELSEWHERE:
        raise SourceError(
            f"the Delta table at {location} is committed through a catalogue, so its log does not tell the "
            "newest version",
            hint="give the latest versions yourself (latest_versions)",
        ) from error
    return TableLook(location, version, str(metadata["id"]), schema_digest(metadata["schemaString"]), at)


def _read_log(store: Store) -> tuple[dict[str, Any], dict[str, Any], int, datetime] | None:
    """Protocol, metadata, newest version and its time; None where there is no log."""
    entries = {
        entry.path.rpartition("/")[2]: entry for entry in store.list(_LOG) if entry.path.count("/") == 1
    }
    commits = sorted(name for name in entries if _COMMIT.fullmatch(name))
    checkpoints = sorted(name for name in entries if _CHECKPOINT.fullmatch(name))
    names = [*commits, *checkpoints]
    if not names:
        return None
    version = max(int(name[:20]) for name in names)
    newest = next(name for name in names if int(name[:20]) == version)
    at = entries[newest].modified
    checkpoint = checkpoints[-1][:20] if checkpoints else ""
    found: dict[str, dict[str, Any]] = {}
    for name in reversed(commits):
        if len(found) == 2 or (name[:20] <= checkpoint and name != newest):
            break
        actions = _lines(store.get(f"{_LOG}/{name}") or b"")
        info: dict[str, Any] = next(
            (action["commitInfo"] for action in actions if "commitInfo" in action), {}
        )
        if name == newest and ("inCommitTimestamp" in info or "timestamp" in info):
            at = _moment(info)
        _gather(found, actions)
    for name in checkpoints:
        if len(found) < 2 and name.startswith(f"{checkpoint}."):
            _gather(found, _checkpoint(name, store.get(f"{_LOG}/{name}") or b""))
    return found["protocol"], found["metaData"], version, at


def _gather(found: dict[str, dict[str, Any]], actions: list[dict[str, Any]]) -> None:
    for action in actions:
        for kind in ("protocol", "metaData"):
            if action.get(kind):
                found.setdefault(kind, action[kind])


def _checkpoint(name: str, body: bytes) -> list[dict[str, Any]]:
    if name.endswith(".json"):
        return _lines(body)
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(
        pa.BufferReader(body), columns=["protocol", "metaData"]
    ).to_pylist()
    return rows


def _lines(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.splitlines() if line.strip()]


def _moment(info: Mapping[str, Any]) -> datetime:
    """Of a commit, as the commit itself says; a file's own time changes when a table is copied."""
    stamp = info.get("inCommitTimestamp")
    milliseconds = int(info["timestamp"] if stamp is None else stamp)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def _missing(location: str, lake: Lake, error: Exception) -> SourceError:
    if lake.on_s3:
        # Here the library calls a bucket that is not there, or not ours to see, a missing table too.
        try:
            there = next(iter(open_store(lake).list(_LOG)), None) is not None
        except OutputError as unreachable:
            return _unreachable(location, unreachable)
    else:
        there = Path(lake.path).exists()
    sentence = f"{location} is not a Delta table" if there else f"there is no Delta table at {location}"
    return TableMissing(
        sentence,
        hint="check the location, and that this user may read it",
        detail=mask(str(error)),
    )


def _unreachable(location: str, error: Exception) -> SourceUnreachable:
    retryable = error.retryable if isinstance(error, TidegaugeError) else None
    hint = error.hint if isinstance(error, TidegaugeError) else None
    return SourceUnreachable(
        f"the log of the Delta table at {location} cannot be reached: {said(error)}",
        hint=hint or "check the path, the endpoint and region, the keys and the network",
        retryable=retryable,
        detail=mask(str(error)),
    )


def _damaged(location: str, error: Exception) -> SourceError:
    return SourceError(
        f"the log of the Delta table at {location} cannot be read: {said(error)}",
        hint="a commit or checkpoint in its _delta_log is damaged or missing; restore it, or the table",
        detail=mask(str(error)),
    )
