"""The rows of the files that versions of a Delta table added, read from those files and no others.

Names of folders do not count: the log says what the partition values are, and which column of a file is which
column of the table.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegauge.delta_log.commit import LOG, Action, parse_commit
from tidegauge.delta_log.commit_times import find_commit_times
from tidegauge.delta_log.location import lake_of, translate_errors
from tidegauge.delta_log.log import ListedLog
from tidegauge.delta_log.protocol import TableState
from tidegauge.errors import SourceError, TableMissing, VersionsMissing
from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, TableRef
from tidegauge.sources.delta.net_changes import INSERT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

_PHYSICAL, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/.*", re.DOTALL)
_PATTERN = re.compile(r"[\[\]{}*?\\]")
# Spark may write any other character differently when it says which file a row is from.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_MANY = 32
"""To look up more files than this, Spark starts a job."""
_FEW = 4
"""Up to this many separate reads cost less than a join."""
_FILE, _MICROSECONDS = "_tidegauge_file", "_tidegauge_at"


@dataclass(frozen=True)
class AddedFile:
    path: str
    """The full path as Hadoop takes it, without escapes."""
    version: int
    at: datetime | None
    """When the version was committed, in UTC."""
    values: Mapping[str, str | None]
    """The values of the partition columns, by the columns' names in files."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class DeltaFileSet:
    files: tuple[AddedFile, ...]
    state: TableState
    """The table at the window's end."""

    @property
    def fields(self) -> list[Action]:
        """The table's columns, as the JSON of its schema describes them."""
        return list(json.loads(self.state.schema)["fields"])

    @property
    def types(self) -> list[StructField]:
        """The table's columns, as Spark has them."""
        return types_of(self.state)

    @property
    def by_id(self) -> bool:
        """Whether files identify columns by a number, and not by name."""
        return self.state.properties.get("delta.columnMapping.mode") == "id"


def find_additions(table: TableRef, location: str, after: int | None, upto: int) -> DeltaFileSet:
    """The files that the versions `(after, upto]` added, from the log alone.

    Raises VersionsMissing, SourceUnreachable, or SourceError for a damaged log or a version that did more
    than to add files.
    """
    lake = lake_of(location, table.storage)
    root = lake.path if lake.on_s3 else f"file:{lake.path}"
    versions = range(0 if after is None else after + 1, upto + 1)
    files: list[AddedFile] = []
    with translate_errors(location):
        log = ListedLog(lake)
        state = log.state(upto)
        if state is None:
            raise version_gone(table, upto)
        bodies = list(log.bodies(versions))
        times = find_commit_times(log, versions)
        for version, body in zip(versions, bodies, strict=True):
            if body is None or version not in times:
                raise version_gone(table, version)
            commit = parse_commit(version, body)
            if commit.changes and not commit.only_adds:
                raise SourceError(
                    f"version {version} of {table} did more than to add files, so its files alone do not tell"
                    " what changed",
                    hint="switch its change data feed on, and begin anew with `tidegauge watermark reset`",
                )
            files += (_file(root, add, version, times[version]) for add in commit.came)
    return DeltaFileSet(tuple(files), state)


def find_files(table: TableRef, location: str, version: int | None) -> DeltaFileSet | None:
    """All files of a table at a version (None: the latest), from the log alone. None if there are none or
    many, or if Delta's own reader has to read them. Raises as `find_additions` does."""
    lake = lake_of(location, table.storage)
    with translate_errors(location):
        log = ListedLog(lake)
        version = log.latest if version is None else version
        if version is None:
            return None
        state, held = log.state(version), log.files(version, ("partitionValues",))
    if state is None or not held or len(held) > _MANY or any(one.get("deletionVector") for one in held):
        return None
    if any(feature.startswith("typeWidening") for feature in state.features):
        return None  # types in files may be narrower than the table's, and Delta's reader widens them
    return DeltaFileSet(tuple(_file(f"file:{lake.path}", one, version, None) for one in held), state)


def describe_columns(table: TableRef, location: str, version: int) -> tuple[list[StructField], bool]:
    """The table's columns at a version, as Spark has them; and whether a type may have been widened by now.
    From the log alone. Raises TableMissing, and as `find_additions` does."""
    with translate_errors(location):
        log = ListedLog(lake_of(location, table.storage))
        if log.latest is None:
            raise TableMissing(
                f"there is no Delta table any more at {location}",
                hint="check the path, or whether somebody is making the table anew",
            )
        then, now = log.state(version), log.state(log.latest)
        if then is None or now is None:
            raise version_gone(table, version)
        return types_of(then), any(feature.startswith("typeWidening") for feature in now.features)


def commit_time(table: TableRef, location: str, version: int) -> datetime:
    """When a version was committed, in UTC, as `find_commit_times` says it; where the commit is gone, by the
    date of its checkpoint."""
    with translate_errors(location):
        log = ListedLog(lake_of(location, table.storage))
        found = find_commit_times(log, [version])
        if version in found:
            return found[version]
        named = f"{LOG}/{version:020}."
        dates = [one.modified for one in log.store.list(LOG) if one.path.startswith(named)]
    if not dates:
        raise version_gone(table, version)
    return min(dates)


def version_gone(table: TableRef, version: int) -> VersionsMissing:
    return VersionsMissing(
        f"version {version} of {table} is gone from its log",
        hint="begin anew with `tidegauge watermark reset`, or set `on_missing: rebaseline` or `diff`",
    )


def read_added_rows(session: SparkSession, added: DeltaFileSet, *, stamps: bool) -> DataFrame:
    """The rows of all the files, in the table's columns; with `stamps` also the feed's columns, as inserts by
    the version that added the file.

    There is at least one file. Files are looked up when the frame is made: one that is gone is an error then.
    """
    alike: dict[tuple[Any, ...], list[AddedFile]] = {}
    for file in added.files:
        alike.setdefault((stamps and file.version, *sorted(file.values.items())), []).append(file)
    if len(alike) <= _FEW:
        parts = list(alike.values())
    else:
        # One read for all files that their names alone tell apart; every other file by itself.
        many = Counter(file.name for file in added.files)
        known = [many[file.name] == 1 and bool(_PLAIN_NAME.fullmatch(file.name)) for file in added.files]
        parts = [[file] for file, plain in zip(added.files, known, strict=True) if not plain]
        parts.append([file for file, plain in zip(added.files, known, strict=True) if plain])
    return reduce(
        lambda one, other: one.unionAll(other),
        (_read(session, added, part, stamps=stamps) for part in parts if part),
    )


def _read(
    session: SparkSession, added: DeltaFileSet, files: Sequence[AddedFile], *, stamps: bool
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    by = set(added.state.metadata.get("partitionColumns") or ())
    held = [_describe(field, inside=True) for field in added.fields if field["name"] not in by]
    if added.by_id:
        session.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    # Spark shall not look for more files in folders, nor for columns in their names.
    reader = session.read.option("recursiveFileLookup", "true")
    frame = reader.schema(StructType.fromJson({"fields": held})).parquet(
        *(_PATTERN.sub(r"\\\g<0>", file.path) for file in files)
    )
    partitions = [_inside(field) for field in added.fields if field["name"] in by]
    rows, values, stamp = _with_log_values(session, frame, files, partitions, stamps=stamps)
    columns = []
    for field, typed in zip(added.fields, added.types, strict=True):
        name = _inside(field)
        value = values[name] if field["name"] in by else F.col("row").getField(name)
        columns.append(value.cast(typed.dataType).alias(field["name"]))
    return rows.select(*columns, *(stamp if stamps else ()))


def _with_log_values(
    session: SparkSession,
    frame: DataFrame,
    files: Sequence[AddedFile],
    partitions: Sequence[str],
    *,
    stamps: bool,
) -> tuple[DataFrame, dict[str, Column], tuple[Column, ...]]:
    """The files' rows as a column `row`; and, as columns, what the log says about the file of each: its
    partition values, and the feed's columns."""
    from pyspark.sql import functions as F  # noqa: N812

    one = files[0]
    if all((stamps and file.version, file.values) == (stamps and one.version, one.values) for file in files):
        # An empty text stands for NULL.
        values = {name: F.lit(one.values.get(name) or None) for name in partitions}
        return frame.select(F.struct("*").alias("row")), values, stamp_columns(one.version, one.at)
    mark = F.substring_index(frame.metadataColumn("_metadata").getField("file_path"), "/", -1)
    rows = frame.select(F.struct("*").alias("row"), mark.alias(_FILE)).join(
        F.broadcast(_list_files(session, files, partitions)), _FILE, "left"
    )
    # A row whose file is not in the list is an error.
    lost = F.raise_error(F.concat(F.lit("tidegauge: the log does not name the file "), F.col(_FILE)))
    version = F.coalesce(F.col(COMMIT_VERSION), lost.cast("bigint"))
    values = {name: F.when(version >= 0, F.col(f"p{index}")) for index, name in enumerate(partitions)}
    return rows, values, _stamp(version, F.col(_MICROSECONDS))


def stamp_columns(version: int, at: datetime | None) -> tuple[Column, ...]:
    """The feed's columns, for rows that a version inserted."""
    from pyspark.sql import functions as F  # noqa: N812

    return _stamp(F.lit(version), F.lit(_microseconds(at)))


def _stamp(version: Column, microseconds: Column) -> tuple[Column, ...]:
    from pyspark.sql import functions as F  # noqa: N812

    return (
        F.lit(INSERT).alias(CHANGE_TYPE),
        version.cast("bigint").alias(COMMIT_VERSION),
        F.timestamp_micros(microseconds.cast("bigint")).alias(COMMIT_TIMESTAMP),
    )


def _list_files(session: SparkSession, files: Sequence[AddedFile], partitions: Sequence[str]) -> DataFrame:
    import pyarrow as pa

    columns: dict[str, Any] = {
        _FILE: [file.name for file in files],
        COMMIT_VERSION: pa.array([file.version for file in files], pa.int64()),
        _MICROSECONDS: pa.array([_microseconds(file.at) for file in files], pa.int64()),
    }
    for index, name in enumerate(partitions):
        # An empty text stands for NULL.
        columns[f"p{index}"] = pa.array([file.values.get(name) or None for file in files], pa.string())
    return session.createDataFrame(pa.table(columns))


def _microseconds(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1_000_000)


def types_of(state: TableState) -> list[StructField]:
    """The table's columns, as Spark has them."""
    from pyspark.sql.types import StructType

    fields = json.loads(state.schema)["fields"]
    return StructType.fromJson({"fields": [_describe(one, inside=False) for one in fields]}).fields


def _inside(field: Action) -> str:
    """A column's name in files."""
    return str((field.get("metadata") or {}).get(_PHYSICAL, field["name"]))


def _describe(field: Action, *, inside: bool) -> Action:
    known = field.get("metadata") or {}
    return {
        "name": _inside(field) if inside else field["name"],
        "type": _type(field["type"], inside=inside),
        "nullable": True,
        "metadata": {"parquet.field.id": known[_ID]} if inside and _ID in known else {},
    }


def _type(part: Any, *, inside: bool) -> Any:
    match part:
        case {"type": "struct", "fields": fields}:
            return {"type": "struct", "fields": [_describe(field, inside=inside) for field in fields]}
        case {"type": "array", "elementType": element}:
            return {"type": "array", "elementType": _type(element, inside=inside), "containsNull": True}
        case {"type": "map", "keyType": key, "valueType": value}:
            return {
                "type": "map",
                "keyType": _type(key, inside=inside),
                "valueType": _type(value, inside=inside),
                "valueContainsNull": True,
            }
        case _:
            return part


def _file(root: str, add: Action, version: int, at: datetime | None) -> AddedFile:
    path = unquote(add["path"])
    if not _URI.fullmatch(path) and not path.startswith("/"):
        path = f"{root}/{path}"
    return AddedFile(path, version, at, add.get("partitionValues") or {})
