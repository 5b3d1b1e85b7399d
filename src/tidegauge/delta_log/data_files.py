"""The rows of a Delta table's files as Arrow tables, read and written without Spark.

For tables so small that a Spark job costs more than reading their rows. Whatever is not plain (a feature,
a type or a file that this module does not know for certain) raises NeedsSpark, and the caller uses Spark.
"""

from __future__ import annotations

import io
import json
import struct
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegauge.delta_log.commit import Action
from tidegauge.delta_log.deletion_vector import read_deleted
from tidegauge.delta_log.file_stats import find_stats
from tidegauge.delta_log.protocol import TableState
from tidegauge.storage.store import Store

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

CHANGE_DATA = "_change_data"
_PHYSICAL, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
_KNOWN_OF_FIELDS = {"comment", _PHYSICAL, _ID, "delta.typeChanges"}
_LEGACY = ("org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96")
"""Files of Spark 2 have these keys: their dates before 1582 are of another calendar."""
_SPARK = {b"org.apache.spark.version": b"4.2.0"}
"""Tells readers that dates before 1582 are of the calendar that Spark uses since version 3."""


class NeedsSpark(Exception):
    """The table or file is not plain enough to be read or written here."""


@dataclass(frozen=True)
class FileColumns:
    """The columns of a table, and the name that each has in data files."""

    schema: pa.Schema
    inside: Mapping[str, str]
    """The name of each column in data files."""
    ids: Mapping[str, int]
    """The Parquet field id of each column that has one."""
    partition_by: tuple[str, ...]
    strict: bool
    """Whether a column is NOT NULL, or has metadata that Spark checks or fills it by."""

    @classmethod
    def of(cls, state: TableState) -> FileColumns:
        import pyarrow as pa

        mapping = state.properties.get("delta.columnMapping.mode", "none")
        if mapping not in ("none", "name"):
            raise NeedsSpark(f"columns are mapped by {mapping}")
        fields, inside, ids, strict = [], {}, {}, False
        for field in json.loads(state.schema)["fields"]:
            known = field.get("metadata") or {}
            name = field["name"]
            fields.append(pa.field(name, _arrow_type(field["type"], mapped=mapping != "none")))
            inside[name] = str(known.get(_PHYSICAL, name))
            if _ID in known:
                ids[name] = int(known[_ID])
            strict = strict or not field["nullable"] or bool(known.keys() - _KNOWN_OF_FIELDS)
            strict = strict or _is_strict(field["type"])
        by = tuple(state.metadata.get("partitionColumns") or ())
        return cls(pa.schema(fields), inside, ids, by, strict)

    def read(self, folder: Path, action: Action, *besides: pa.Field) -> pa.Table:
        """The rows of a file that an `add`, `remove` or `cdc` names; `besides`: further columns of that file,
        which the table does not have."""
        return self._read([*self.schema, *besides], folder, action)

    def read_column(self, folder: Path, adds: Iterable[Action], name: str) -> pa.ChunkedArray:
        """One column, from all these files."""
        import pyarrow as pa

        field = self.schema.field(name)
        parts = [self._read([field], folder, add).column(0) for add in adds]
        return pa.chunked_array([chunk for part in parts for chunk in part.chunks], field.type)

    def _read(self, fields: Sequence[pa.Field], folder: Path, action: Action) -> pa.Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = unquote(action["path"])
        if path.startswith("/") or ":" in path:
            raise NeedsSpark("a file is kept elsewhere")
        try:
            with pq.ParquetFile(folder / path, coerce_int96_timestamp_unit="us") as file:
                if any(name.encode() in (file.metadata.metadata or {}) for name in _LEGACY):
                    raise NeedsSpark("dates are of another calendar")
                held = set(file.schema_arrow.names)
                wanted = [self.inside.get(field.name, field.name) for field in fields]
                table = file.read([name for name in wanted if name in held], use_threads=False)
            if vector := action.get("deletionVector"):
                table = _drop_rows(table, read_deleted(folder, vector))
        except (pa.ArrowException, OSError, ValueError, struct.error) as error:
            raise NeedsSpark(f"{path}: {error}") from error
        values = action.get("partitionValues") or {}
        columns = []
        for field in fields:
            inside = self.inside.get(field.name, field.name)
            if field.name in self.partition_by:
                columns.append(_repeat(values.get(inside), field.type, table.num_rows))
            elif inside in held:
                columns.append(_fit(table.column(inside), field.type))
            else:
                columns.append(pa.nulls(table.num_rows, field.type))
        return pa.table(columns, schema=pa.schema(fields))

    def write(self, store: Store, rows: pa.Table, state: TableState, *, feed: bool = False) -> list[Action]:
        """Write these rows to new files, one for each partition, and return the `add` of each file, or its
        `cdc` for a change feed.

        The files are complete and durable, but no part of the table before a commit names them.
        """
        return [
            self._write_one(store, part, self._map_partition_values(values), state, feed=feed)
            for values, part in self.split(rows)
        ]

    def _write_one(
        self, store: Store, rows: pa.Table, values: dict[str, str | None], state: TableState, *, feed: bool
    ) -> Action:
        import pyarrow as pa
        import pyarrow.parquet as pq

        fields = []
        for field in rows.schema:
            about = (
                {b"PARQUET:field_id": str(self.ids[field.name]).encode()} if field.name in self.ids else None
            )
            fields.append(pa.field(self.inside.get(field.name, field.name), field.type, metadata=about))
        body = io.BytesIO()
        shown = pa.table(rows.columns, schema=pa.schema(fields, metadata=_SPARK))
        pq.write_table(shown, body, compression="snappy", version="2.6", store_schema=False)
        name = f"{'cdc' if feed else 'part'}-00000-{uuid.uuid4()}.c000.snappy.parquet"
        path = f"{CHANGE_DATA}/{name}" if feed else name
        store.put_if_absent(path, body.getvalue())
        action: Action = {
            "path": path,
            "partitionValues": values,
            "size": body.tell(),
            "dataChange": not feed,
        }
        if feed:
            return {"cdc": action}
        stats = find_stats(shown, state.properties)
        return {"add": {**action, "modificationTime": int(time.time() * 1000), "stats": json.dumps(stats)}}

    def _map_partition_values(self, values: tuple[str | None, ...]) -> dict[str, str | None]:
        return {self.inside[name]: value for name, value in zip(self.partition_by, values, strict=True)}

    def split(self, rows: pa.Table) -> list[tuple[tuple[str | None, ...], pa.Table]]:
        """The rows of each partition, without the partition columns, with the partition's values as text."""
        if not self.partition_by:
            return [((), rows)] if rows.num_rows else []
        import pyarrow as pa

        texts = [[partition_text(one) for one in rows.column(name).to_pylist()] for name in self.partition_by]
        places: dict[tuple[str | None, ...], list[int]] = {}
        for place, key in enumerate(zip(*texts, strict=True)):
            places.setdefault(key, []).append(place)
        rest = rows.drop_columns(list(self.partition_by))
        return [(key, rest.take(pa.array(at, pa.int64()))) for key, at in places.items()]


def _drop_rows(table: pa.Table, places: np.ndarray[Any, Any]) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    stays = np.ones(table.num_rows, dtype=bool)
    stays[places] = False
    return table.filter(pa.array(stays))


def partition_text(value: Any) -> str | None:
    """A partition's value as the log has it. Raises NeedsSpark for an empty text, which would be NULL there,
    and for other types."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str() if value:
            return value
        case _ if type(value).__name__ == "date":
            return str(value)
        case _:
            raise NeedsSpark(f"a partition by {type(value).__name__}")


def _repeat(text: str | None, type_of: pa.DataType, times: int) -> pa.Array:
    import pyarrow as pa

    if not text:
        return pa.nulls(times, type_of)
    try:
        return pa.repeat(pa.scalar(text).cast(type_of), times)
    except pa.ArrowException as error:
        raise NeedsSpark(f"a partition by {type_of}") from error


def _fit(column: pa.ChunkedArray, type_of: pa.DataType) -> pa.ChunkedArray:
    """Convert a file's column to the table's present type, which may be wider or have more fields."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    have = column.type
    if have == type_of:
        return column
    try:
        if t.is_struct(type_of) and t.is_struct(have):
            return pa.chunked_array([_fit_struct(column.combine_chunks(), type_of)])
        if t.is_timestamp(have) and t.is_timestamp(type_of) and not have.tz and type_of.tz:
            return pc.assume_timezone(column.cast(pa.timestamp("us")), "UTC")  # INT96 has no zone
        if _can_cast(have, type_of):
            return column.cast(type_of)
    except pa.ArrowException as error:
        raise NeedsSpark(f"{have} is no {type_of}") from error
    raise NeedsSpark(f"{have} is no {type_of}")


def _fit_struct(column: pa.StructArray, type_of: pa.StructType) -> pa.StructArray:
    import pyarrow as pa

    here = {one.name: at for at, one in enumerate(column.type)}
    if here.keys() - {one.name for one in type_of}:
        raise NeedsSpark("a field that the table does not have")
    parts = []
    for one in type_of:
        if one.name in here:
            inside = pa.chunked_array([column.field(here[one.name])])
            parts.append(_fit(inside, one.type).combine_chunks())
        else:
            parts.append(pa.nulls(len(column), one.type))
    return pa.StructArray.from_arrays(parts, fields=list(type_of), mask=column.is_null())


def _can_cast(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether a cast keeps every value, or fails. That is so within the whole numbers, the decimals and the
    timestamps, also for a file with the wider type. Lists and maps: whether only the names differ that files
    give to their elements."""
    import pyarrow.types as t

    if t.is_list(want) and t.is_list(have):
        return bool(want.value_type == have.value_type)
    if t.is_map(want) and t.is_map(have):
        return bool((want.key_type, want.item_type) == (have.key_type, have.item_type))
    if t.is_timestamp(want) and t.is_timestamp(have):
        return bool(want.tz) == bool(have.tz)
    if t.is_floating(want) and t.is_floating(have):
        return bool(want.bit_width > have.bit_width)  # a cast to the narrower one rounds, and says nothing
    return any(is_one(want) and is_one(have) for is_one in (t.is_signed_integer, t.is_decimal))


def _arrow_type(part: Any, *, mapped: bool) -> pa.DataType:
    import pyarrow as pa

    plain = {
        "string": pa.string(),
        "long": pa.int64(),
        "integer": pa.int32(),
        "short": pa.int16(),
        "byte": pa.int8(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    match part:
        case str() if part in plain:
            return plain[part]
        case str() if part.startswith("decimal("):
            precision, scale = part.removeprefix("decimal(").rstrip(")").split(",")
            return pa.decimal128(int(precision), int(scale))
        case {"type": "struct", "fields": [_, *_] as fields} if not mapped:
            return pa.struct(
                [pa.field(one["name"], _arrow_type(one["type"], mapped=mapped)) for one in fields]
            )
        case {"type": "array", "elementType": element}:
            return pa.list_(pa.field("element", _arrow_type(element, mapped=mapped)))
        case {"type": "map", "keyType": key, "valueType": value}:
            return pa.map_(_arrow_type(key, mapped=mapped), _arrow_type(value, mapped=mapped))
        case _:
            raise NeedsSpark(f"a column of type {part}")


def _is_strict(part: Any) -> bool:
    """Whether anything inside the type is NOT NULL, or has metadata that Spark checks or fills it by."""
    match part:
        case {"type": "struct", "fields": fields}:
            return any(
                not one["nullable"]
                or bool((one.get("metadata") or {}).keys() - _KNOWN_OF_FIELDS)
                or _is_strict(one["type"])
                for one in fields
            )
        case {"type": "array", "elementType": element, "containsNull": nulls}:
            return not nulls or _is_strict(element)
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nulls}:
            return not nulls or _is_strict(key) or _is_strict(value)
        case _:
            return False


def concat_rows(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(tables) if tables else schema.empty_table()
