"""A checkpoint of a small table's log, made without Spark: the table's whole state in one Parquet file.

Every Delta writer makes one for each tenth commit, so that readers need not read the commits before it. It
only sums up the commits: if it is missing, or the process is killed half-way, nothing is lost.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

from tidegauge.delta_log.commit import LOG, Action, file_identity
from tidegauge.delta_log.data_files import NeedsSpark
from tidegauge.delta_log.protocol import TableState
from tidegauge.delta_log.snapshot import Log, Snapshot
from tidegauge.errors import TidegaugeError
from tidegauge.storage.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

_INTERVAL = 10
_CLEANED = 10
"""Every tenth checkpoint is left to Spark, which also removes old commits."""
_KINDS = ("protocol", "metaData", "txn", "domainMetadata", "remove", "add")
_PASSING = {"commitInfo", "cdc"}
"""Actions that concern one version only, and do not go into a checkpoint."""
_OF_SPARK = ("delta.checkpoint", "delta.setTransactionRetentionDuration")
"""Prefixes of the properties that ask for a checkpoint which only Spark makes."""
_NOT_KEPT = {"stats", "tags"}
"""Fields of a `remove` that a checkpoint leaves out."""
_WEEK = 7 * 24 * 3600 * 1000
"""Milliseconds for which Delta remembers a removed file, unless a property of the table sets the time."""


def is_due(state: TableState, version: int) -> bool:
    """Whether this version has to have a checkpoint. Raises NeedsSpark where only Spark can make it."""
    interval = int(state.properties.get("delta.checkpointInterval", _INTERVAL))
    if version % interval:
        return False
    if version % (interval * _CLEANED) == 0:
        raise NeedsSpark("old commits are to be removed")
    others = (name for name in state.properties if name != "delta.checkpointInterval")
    if "v2Checkpoint" in state.features or any(name.startswith(_OF_SPARK) for name in others):
        raise NeedsSpark("another kind of checkpoint")
    return True


def write_checkpoint(log: Log, version: int) -> None:
    """Write the checkpoint of a version that is committed already. Errors are ignored: the commit stands, and
    the next checkpoint makes up for this one."""
    try:
        look = log.look()
        if look is not None and look.version == version:
            actions = list(_sum_up(look, int(time.time() * 1000)))
            body = _pack(actions)
            log.store.put_if_absent(f"{LOG}/{version:020}.checkpoint.parquet", body)
            files = sum("add" in one for one in actions)
            said = {"version": version, "size": len(actions), "sizeInBytes": len(body)}
            _point_to(log.store, said | {"numOfAddFiles": files})
    except (NeedsSpark, TidegaugeError, OSError, ValueError, KeyError):
        return


def _sum_up(look: Snapshot, now: int) -> Iterator[Action]:
    said = [action for commit in look.since_checkpoint() for action in commit.actions]
    if any(action.keys() - {*_KINDS, *_PASSING} for action in said):
        raise NeedsSpark("an action that is not known here")
    yield {"protocol": look.state.protocol}
    yield {"metaData": look.state.metadata}
    yield from ({"txn": one} for one in _find_latest("txn", "appId", said, look))
    for one in _find_latest("domainMetadata", "domain", said, look):
        if not one.get("removed"):
            yield {"domainMetadata": one}
    # `dataChange` is false: a checkpoint describes the state and changes nothing.
    files = list(look.files())
    for one in _find_tombstones(said, look, now, there=set(map(file_identity, files))):
        yield {"remove": {**one, "dataChange": False}}
    for one in files:
        yield {"add": {**one, "dataChange": False}}


def _find_latest(kind: str, name: str, said: Iterable[Action], look: Snapshot) -> Iterable[Action]:
    found: dict[str, Action] = {}
    for one in (*_pick_kind(kind, said), *look.checkpoint_actions(kind)):
        found.setdefault(one[name], one)
    return found.values()


def _find_tombstones(
    said: Iterable[Action], look: Snapshot, now: int, there: Set[tuple[str, str]]
) -> Iterator[Action]:
    """The `remove` of each file that VACUUM has to keep for a while."""
    always = "delta.deletedFileRetentionDuration" in look.state.properties
    found: dict[tuple[str, str], Action] = {}
    for one in (*_pick_kind("remove", said), *look.checkpoint_actions("remove")):
        if always or int(one.get("deletionTimestamp") or 0) > now - _WEEK:
            found.setdefault(file_identity(one), one)
    for name, one in found.items():
        if name not in there:
            yield {key: value for key, value in one.items() if key not in _NOT_KEPT}


def _pick_kind(kind: str, actions: Iterable[Action]) -> Iterator[Action]:
    return (one[kind] for one in actions if one.get(kind) is not None)


def _pack(actions: list[Action]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _make_schema()
    rows = [{kind: _fit(one, schema.field(kind).type) for kind, one in row.items()} for row in actions]
    body = io.BytesIO()
    try:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), body, store_schema=False)
    except (pa.ArrowException, TypeError) as error:
        raise NeedsSpark(str(error)) from error
    return body.getvalue()


def _fit(value: Any, type_of: pa.DataType) -> Any:
    """Convert a value to what Arrow takes for this type. Raises NeedsSpark for a field that the schema here
    does not have."""
    import pyarrow.types as t

    if t.is_map(type_of):
        return None if value is None else [*value.items()]
    if not t.is_struct(type_of) or value is None:
        return value
    known = {field.name: field.type for field in type_of}
    if any(one is not None and name not in known for name, one in value.items()):
        raise NeedsSpark("something is said of a file that is not known here")
    return {name: _fit(value.get(name), kind) for name, kind in known.items()}


def _make_schema() -> pa.Schema:
    import pyarrow as pa

    text, long, number, flag = pa.string(), pa.int64(), pa.int32(), pa.bool_()
    texts, names = pa.map_(text, text), pa.list_(pa.field("element", text))
    rows_of = {"baseRowId": long, "defaultRowCommitVersion": long}
    vector = _struct(
        {"storageType": text, "pathOrInlineDv": text, "offset": number, "sizeInBytes": number}
        | {"cardinality": long, "maxRowIndex": long}
    )
    kinds = {
        "txn": {"appId": text, "version": long, "lastUpdated": long},
        "add": {"path": text, "partitionValues": texts, "size": long, "modificationTime": long}
        | {"dataChange": flag, "tags": texts, "deletionVector": vector, **rows_of}
        | {"clusteringProvider": text, "stats": text},
        "remove": {"path": text, "deletionTimestamp": long, "dataChange": flag}
        | {"extendedFileMetadata": flag, "partitionValues": texts, "size": long}
        | {"deletionVector": vector, **rows_of},
        "metaData": {"id": text, "name": text, "description": text}
        | {"format": _struct({"provider": text, "options": texts}), "schemaString": text}
        | {"partitionColumns": names, "configuration": texts, "createdTime": long},
        "protocol": {"minReaderVersion": number, "minWriterVersion": number}
        | {"readerFeatures": names, "writerFeatures": names},
        "domainMetadata": {"domain": text, "configuration": text, "removed": flag},
    }
    return pa.schema([pa.field(kind, _struct(fields)) for kind, fields in kinds.items()])


def _struct(fields: Mapping[str, pa.DataType]) -> pa.StructType:
    import pyarrow as pa

    return pa.struct([pa.field(name, type_of) for name, type_of in fields.items()])


def _point_to(store: Store, said: Action) -> None:
    """Write `_last_checkpoint`, unless it is newer. The file is only a hint: a reader that does not find it
    lists the log."""
    path = f"{LOG}/_last_checkpoint"
    found = store.read(path)
    if found is not None and json.loads(found[0])["version"] >= said["version"]:
        return
    store.replace(path, json.dumps(said).encode(), found[1] if found else None)
