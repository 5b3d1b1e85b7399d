"""Load files of a lake into a staging table of Redshift, by COPY with a manifest of its own.

COPY fills columns by position, and does not say which file a row came from. That matters only where a key is
in more than one file. So all files are copied at once; if a key repeats, the files of each attempt that wrote
them are copied together; if a key still repeats, each file is copied alone.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees, OutputError, OutputUnreachable, TidegaugeError
from tidegauge.model.batch_data import BatchRows, KeysToDelete, LakeFile
from tidegauge.model.secret import Secret, mask
from tidegauge.outputs.lake.manifest import COPIES, DATA
from tidegauge.outputs.warehouse import lake_files as lake
from tidegauge.outputs.warehouse.redshift.session import RedshiftSession
from tidegauge.outputs.warehouse.warehouse import StagingTable, ValueRejected, WarehouseColumn
from tidegauge.storage.parquet_footer import read_footer
from tidegauge.storage.store import open_store

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegauge.outputs.warehouse.redshift.warehouse import Redshift

_DENIED = re.compile(
    r"AccessDenied|Access ?Denied|InvalidAccessKeyId|SignatureDoesNotMatch|not authorized|credentials",
    re.IGNORECASE,
)
_GONE = re.compile(r"NoSuchKey|does not exist|FileNotFound", re.IGNORECASE)

Numbered = tuple[int, LakeFile]
"""A file and its number in the batch."""


_KEYS_AT_ONCE = 500


def _insert_keys(
    warehouse: Redshift, session: RedshiftSession, stage: StagingTable, batch_data: BatchRows
) -> int:
    """Insert keys to delete, which are in no lake, and are few: many in one statement. Returns how many."""
    names = ", ".join(
        warehouse.name(name) for name in (*(field.name for field in stage.fields), stage.ordinal)
    )
    count = 0
    for split in batch_data.splits:
        for batch in split.batches():
            rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            for first in range(0, len(rows), _KEYS_AT_ONCE):
                block = rows[first : first + _KEYS_AT_ONCE]
                marks = ", ".join(
                    [f"({', '.join([warehouse.placeholder] * len(stage.fields))}, 0)"] * len(block)
                )
                session.run(
                    f"INSERT INTO {warehouse.table(stage.table)} ({names}) VALUES {marks}",
                    [value for row in block for value in row],
                )
            count += len(rows)
    return count


def bring(warehouse: Redshift, session: RedshiftSession, stage: StagingTable, batch_data: BatchRows) -> int:
    """Make the staging table and fill it, in one transaction; returns how many rows were loaded."""
    columns = [
        WarehouseColumn(field.name, warehouse.type(field, key=field.name in stage.key))
        for field in stage.fields
    ]
    make = warehouse.create(stage.table, [*columns, WarehouseColumn(stage.ordinal, warehouse.integer_type)])
    if not batch_data.files:
        if isinstance(batch_data, KeysToDelete):
            session.run(make)
            counted = _insert_keys(warehouse, session, stage, batch_data)
            session.commit()
            return counted
        if batch_data.paths:
            raise OutputError(
                f"Redshift copies files as they are, and those of {batch_data.layout.table} do not all"
                " have the"
                " same columns",
                hint="`tidegauge sync --full-refresh` writes them anew; `mode: merge` loads them in turn",
            )
        if batch_data.rows != 0 and (batch_data.splits or batch_data.frame):
            raise OutputError(
                "Redshift loads files that lie on S3, and there is no lake between it and the source",
                hint="put a lake between them: `via:` with a connection of type parquet and an s3a:// path",
            )
        session.run(make)
        session.commit()
        return 0
    if not batch_data.files[0].lake.on_s3:
        raise OutputError(
            f"Redshift loads files that lie on S3, and the lake is at {batch_data.files[0].lake.path}",
            hint="give the lake of `via:` an s3a:// path",
        )
    lake.check(batch_data.files)
    session.run(make)
    counted = _Copies(warehouse, session, stage, batch_data.files).bring(list(enumerate(batch_data.files)))
    session.commit()
    return counted


class _Copies:
    """The COPYs that fill one staging table."""

    def __init__(
        self, warehouse: Redshift, session: RedshiftSession, stage: StagingTable, files: Sequence[LakeFile]
    ) -> None:
        self._warehouse, self._session, self._stage = warehouse, session, stage
        first = files[0]
        footer = read_footer(open_store(first.lake), first.path, first.bytes)
        self._schema = footer.schema.to_arrow_schema()
        self._access = _access(warehouse, files[0])

    def bring(self, files: Sequence[Numbered]) -> int:
        raw = self._warehouse.name(f"tidegauge_raw_{uuid.uuid4().hex[:12]}")
        kinds = ", ".join(f"c{place} {_raw_type(part)}" for place, part in enumerate(self._schema))
        self._session.run(f"CREATE TEMP TABLE {raw} ({kinds})")
        counted = self._copy(raw, [file for _, file in files])
        if len(files) > 1 and self._stage.key and self._has_repeats(raw):
            self._session.run(f"DROP TABLE {raw}")
            return sum(self.bring(part) for part in _split(files))
        self._take(raw, files[0][0])
        self._session.run(f"DROP TABLE {raw}")
        return counted

    def _copy(self, raw: str, files: Sequence[LakeFile]) -> int:
        with _manifest(files) as address:
            sql = f"COPY {raw} FROM {_text(address)} {self._access} FORMAT AS PARQUET MANIFEST"
            try:
                self._session.run(sql)
            except OutputUnreachable:
                raise
            except OutputError as error:
                raise self._explain(error, files) from error
        ((counted,),) = self._session.rows("SELECT pg_last_copy_count()")
        promised = sum(file.rows for file in files)
        if counted != promised:
            raise OutputDisagrees(
                f"Redshift copied {counted} rows out of {len(files)} files that have {promised}",
                hint="nothing was changed; run again, and compare the files with their manifests",
            )
        return int(counted)

    def _has_repeats(self, raw: str) -> bool:
        names = self._schema.names
        key = ", ".join(f"c{names.index(name)}" for name in self._stage.key)
        return bool(self._session.rows(f"SELECT 1 FROM {raw} GROUP BY {key} HAVING COUNT(*) > 1 LIMIT 1"))

    def _take(self, raw: str, ordinal: int) -> None:
        """Insert the copied rows into the staging table, with the ordinal in every row."""
        name, names = self._warehouse.name, self._schema.names
        values = []
        for field in self._stage.fields:
            place = f"c{names.index(field.name)}"
            # COPY knows no zones: a time with a zone arrives as the time in UTC.
            values.append(f"{place} AT TIME ZONE 'UTC'" if field.type == "timestamp" else place)
        into = ", ".join([*(name(field.name) for field in self._stage.fields), name(self._stage.ordinal)])
        self._session.run(
            f"INSERT INTO {self._warehouse.table(self._stage.table)} ({into})"
            f" SELECT {', '.join(values)}, {ordinal} FROM {raw}"
        )

    def _explain(self, error: OutputError, files: Sequence[LakeFile]) -> TidegaugeError:
        self._session.rollback()
        words = error.message
        if _DENIED.search(words):
            return OutputUnreachable(
                f"Redshift may not read {files[0].lake.path}: {words}",
                hint="check `iam_role`, or `access_key` and `secret_key`, of the warehouse's connection",
                retryable=False,
            )
        if _GONE.search(words):
            return OutputDisagrees(
                f"Redshift misses a file of the lake: {words}",
                hint="the file is in a manifest and not there any more",
            )
        try:
            ((pid,),) = self._session.rows("SELECT pg_backend_pid()")
            found = self._session.rows(
                "SELECT TRIM(colname), TRIM(raw_field_value), line_number, TRIM(filename), TRIM(err_reason)"
                " FROM stl_load_errors WHERE session = ? ORDER BY starttime DESC LIMIT 1",
                (pid,),
            )
        except TidegaugeError:
            found = []
        finally:
            self._session.rollback()
        if not found:
            return ValueRejected(words)
        column, value, line, file, reason = found[0]
        place = column.removeprefix("c")
        if place.isdigit() and int(place) < len(self._schema.names):
            column = self._schema.names[int(place)]
        shown = value if len(value) <= 60 else value[:60] + "…"
        return ValueRejected(
            mask(
                f"column {column} of row {line} in {file} holds {shown!r}, which Redshift did not take:"
                f" {reason}"
            )
        )


def _split(files: Sequence[Numbered]) -> list[list[Numbered]]:
    """The files of each attempt together, by its folder; where there is only one, each file alone."""
    folders = [list(part) for _, part in groupby(files, key=lambda one: one[1].path.rpartition("/")[0])]
    return folders if len(folders) > 1 else [[one] for one in files]


@contextmanager
def _manifest(files: Sequence[LakeFile]) -> Iterator[str]:
    """Write a manifest of these files for one COPY, and delete it at the end; yields its address."""
    first = files[0]
    store = open_store(first.lake)
    folder = (
        first.path.partition(f"/{DATA}/")[0] if f"/{DATA}/" in first.path else first.path.rpartition("/")[0]
    )
    below = f"{folder}/{COPIES}"
    path = f"{below}/{uuid.uuid4().hex}.manifest"
    entries = [
        {"url": _url(file.lake.path, file.path), "mandatory": True, "meta": {"content_length": file.bytes}}
        for file in files
    ]
    store.put_if_absent(path, json.dumps({"entries": entries}, ensure_ascii=False).encode())
    try:
        yield _url(first.lake.path, path)
    finally:
        # A leftover that nobody reads is better than an error that hides an earlier one.
        with suppress(TidegaugeError):
            store.delete([path], below=below)


def _url(top: str, path: str) -> str:
    return f"s3://{top.removeprefix('s3a://')}/{path}"


def _access(warehouse: Redshift, file: LakeFile) -> str:
    database, place = warehouse.database, file.lake
    if database.iam_role == "default":
        return "IAM_ROLE DEFAULT"
    if database.iam_role:
        return f"IAM_ROLE {_text(database.iam_role)}"
    pairs = ((database.access_key, database.secret_key), (place.access_key, place.secret_key))
    for key, secret in pairs:
        if isinstance(key, Secret) and isinstance(secret, Secret):
            return f"ACCESS_KEY_ID {_text(key.reveal())} SECRET_ACCESS_KEY {_text(secret.reveal())}"
    raise OutputError(
        f"Redshift has neither a role nor keys to read {place.path} with",
        hint="set `iam_role`, or `access_key` and `secret_key`, on the warehouse's connection",
    )


def _text(value: str) -> str:
    if "\\" in value or "\0" in value:
        raise OutputError(
            "a path, role or key with a backslash cannot be passed to Redshift's COPY", hint="use another"
        )
    return "'" + value.replace("'", "''") + "'"


def _raw_type(part: pa.Field) -> str:
    """The only column type into which COPY loads a column of a Parquet file: it converts nothing."""
    import pyarrow as pa

    kind = part.type
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "VARCHAR(65535)"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "VARBYTE(16777216)"
    known = {
        pa.bool_(): "BOOLEAN",
        pa.int8(): "SMALLINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INTEGER",
        pa.int64(): "BIGINT",
        pa.float32(): "REAL",
        pa.float64(): "DOUBLE PRECISION",
        pa.date32(): "DATE",
    }
    if kind not in known:
        raise OutputError(
            f"Redshift copies no column of the Parquet type {kind}: {part.name}", hint="use `types:`"
        )
    return known[kind]
