"""Imitates Redshift's COPY of Parquet files by manifest: columns by position, exact types, load errors."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from tests.support.redshift_sql import CopyCommand, Refused

_IDLE = {"STATUPDATE", "FILLRECORD", "ACCEPTINVCHARS"}
_CREDENTIALS = {"IAM_ROLE", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY"}
_INTERNAL = "XX000"


@dataclass(frozen=True)
class Target:
    """A column of the table to load, as in PostgreSQL's catalogue."""

    name: str
    kind: str
    """The type, such as `character varying(20)`."""

    @property
    def length(self) -> int | None:
        head, _, tail = self.kind.partition("(")
        return int(tail[:-1]) if head in ("character varying", "character") and tail else None


@dataclass(frozen=True)
class LoadError:
    """A row of stl_load_errors."""

    filename: str
    line: int
    column: str
    kind: str
    length: str
    value: str
    code: int
    reason: str


class LoadFailed(Refused):
    def __init__(self, message: str, *, detail: str, error: LoadError | None = None) -> None:
        super().__init__(message, code=_INTERNAL, detail=detail)
        self.error = error


@dataclass(frozen=True)
class Access:
    """The credentials that may read the bucket."""

    role: str
    access_key: str
    secret_key: str


def check(command: CopyCommand, access: Access) -> None:
    """Raise Refused for options that a COPY of Parquet does not take, and for wrong credentials."""
    options = dict(command.options)
    if "PARQUET" not in options:
        raise Refused("the stand-in copies Parquet only")
    if "MANIFEST" not in options:
        raise Refused("the stand-in copies by manifest only")
    for word in options:
        if word not in _IDLE | _CREDENTIALS | {"PARQUET", "MANIFEST"}:
            raise Refused(f"{word} argument is not supported for PARQUET based COPY")
    role, key, secret = (options.get(word) for word in ("IAM_ROLE", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY"))
    if role is not None and (key is not None or secret is not None):
        raise Refused("conflicting or redundant options", code="42601")
    if role is None and (key is None or secret is None):
        raise Refused(
            "No S3 credentials were given: COPY needs IAM_ROLE or ACCESS_KEY_ID and SECRET_ACCESS_KEY"
        )
    if role is not None and role != access.role:
        raise LoadFailed(
            f"Not authorized to get credentials of role {role}",
            detail="error: User is not authorized to assume IAM Role",
        )
    if key is not None and key != access.access_key:
        raise _make_service_error(
            "The AWS Access Key Id you provided does not exist in our records.", "InvalidAccessKeyId", 403
        )
    if secret is not None and secret != access.secret_key:
        raise _make_service_error(
            "The request signature we calculated does not match.", "SignatureDoesNotMatch", 403
        )


def entries(s3: Any, source: str) -> list[tuple[str, bytes]]:
    """Read every existing file that the manifest names, as (address, body)."""
    try:
        manifest = json.loads(_get(s3, source))
        named = [
            (one["url"], bool(one.get("mandatory")), one["meta"]["content_length"])
            for one in manifest["entries"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise LoadFailed(
            "Manifest file is not in correct json format",
            detail=f"context: Manifest file location = {source}",
        ) from error
    found: list[tuple[str, bytes]] = []
    for url, mandatory, size in named:
        try:
            body = _get(s3, url)
        except LoadFailed:
            if mandatory:
                raise
            continue
        if len(body) != size:
            raise _make_spectrum_error(
                15001, f"File '{url}' has {len(body)} bytes, its manifest entry says {size}."
            )
        found.append((url, body))
    if not found:
        raise LoadFailed(
            "no files were found", detail=f"error: The specified S3 prefix does not exist, context: {source}"
        )
    return found


def rows(files: list[tuple[str, bytes]], targets: list[Target]) -> Iterator[tuple[int, bytes]]:
    """Yield each file's number of rows and its CSV for PostgreSQL; raise LoadFailed before a bad file."""
    for url, body in files:
        try:
            table = pq.read_table(io.BytesIO(body))
        except pa.ArrowException as error:
            raise _make_spectrum_error(15007, f"File '{url}' has an invalid Parquet footer.") from error
        if table.num_columns != len(targets):
            raise _make_spectrum_error(
                15007,
                "Unmatched number of columns between table and file."
                f" Table columns: {len(targets)}, Data columns: {table.num_columns}, File name: {url}",
            )
        for column, target in zip(table.itercolumns(), targets, strict=True):
            _check_type(url, table, column.type, target)
            _check_length(url, column, target)
        out = io.BytesIO()
        shown = pa.table(
            [_text(column) for column in table.itercolumns()], names=[str(n) for n in range(len(targets))]
        )
        csv.write_csv(shown, out, csv.WriteOptions(include_header=False, quoting_style="needed"))
        yield table.num_rows, out.getvalue()


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_binary(column.type):
        shown = [None if value is None else "\\x" + value.hex() for value in column.to_pylist()]
        return pa.chunked_array([pa.array(shown, pa.string())])
    if pa.types.is_timestamp(column.type):
        # COPY knows no time zones: an instant becomes a timestamp in UTC.
        return pc.cast(pc.cast(column, pa.timestamp("us")), pa.string())
    return column if pa.types.is_string(column.type) else pc.cast(column, pa.string())


def _check_type(url: str, table: pa.Table, kind: pa.DataType, target: Target) -> None:
    wanted = _find_required_type(kind)
    base = target.kind.partition("(")[0] if wanted != target.kind else target.kind
    if base != wanted and not (wanted == "character varying" and base == "character"):
        raise _make_spectrum_error(
            15007,
            f"File '{url}' has an incompatible Parquet schema for column '{target.name}'."
            f" Column type: {target.kind.upper()}, Parquet schema: {kind}",
        )


def _find_required_type(kind: pa.DataType) -> str:
    """Find the one type that a column must have, because Redshift's scan of Parquet widens nothing."""
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp without time zone"
    known = {
        pa.bool_(): "boolean",
        pa.int8(): "smallint",
        pa.int16(): "smallint",
        pa.int32(): "integer",
        pa.int64(): "bigint",
        pa.float32(): "real",
        pa.float64(): "double precision",
        pa.string(): "character varying",
        pa.binary(): "bytea",
        pa.date32(): "date",
    }
    return known.get(kind, "nothing")


def _check_length(url: str, column: pa.ChunkedArray, target: Target) -> None:
    """Raise LoadFailed for a text that is too long; Redshift counts bytes."""
    if target.length is None or not pa.types.is_string(column.type):
        return
    sizes = pc.binary_length(column)
    longest = pc.max(sizes).as_py() or 0
    if longest <= target.length:
        return
    line = pc.index(pc.greater(sizes, target.length), True).as_py()
    error = LoadError(
        url,
        line + 1,
        target.name,
        "varchar",
        str(target.length),
        str(column[line].as_py())[:1024],
        1204,
        "String length exceeds DDL length",
    )
    raise _make_spectrum_error(
        15001,
        f"The length of the data column {target.name} is longer than the length defined in the table."
        f" Table: {target.length}, Data: {longest}, File name: {url}",
        error,
    )


def _make_spectrum_error(code: int, context: str, error: LoadError | None = None) -> LoadFailed:
    return LoadFailed(
        "Spectrum Scan Error",
        detail=f"error: Spectrum Scan Error, code: {code}, context: {context}",
        error=error,
    )


def _make_service_error(message: str, word: str, status: int, key: str = "") -> LoadFailed:
    return LoadFailed(f"S3ServiceException:{message},Status {status},Error {word}", detail=f"context: {key}")


def _get(s3: Any, url: str) -> bytes:
    if not url.startswith("s3://"):
        raise Refused(f"COPY reads s3:// only, not {url}")
    bucket, _, key = url.removeprefix("s3://").partition("/")
    try:
        body: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except s3.exceptions.ClientError as error:
        raise _make_service_error("The specified key does not exist.", "NoSuchKey", 404, url) from error
    return body
