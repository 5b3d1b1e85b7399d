"""Shared by the tests of the Parquet output: a local or S3 lake, and a batch to write to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.servers import S3
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.plan import Batch, Tag
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake, TableName, TableOptions
from tidegauge.model.staged import DataFile, Staged
from tidegauge.model.table import OrderedColumn, SourceColumn, SourceTable
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.outputs.lake.table import CommittedFile, load_committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHAPE = SourceTable(
    table=TableName("shop", "orders"),
    options=TableOptions(cursor="at"),
    columns=(
        SourceColumn("id", "bigint(20)", "bigint", "`id`", "bigint", "{}"),
        SourceColumn("at", "datetime(6)", "timestamp_ntz", "`at`", "bigint", "{}"),
    ),
    cursor=OrderedColumn("at", "`at`", "`at`", ValueKind.TIMESTAMP, nullable=False, scale=6),
    cursor_kind="timestamp",
    key=(OrderedColumn("id", "`id`", "`id`", ValueKind.INT, nullable=False),),
    key_proven=True,
    source_id="source",
)


LAYOUT = SHAPE.layout


def staged(files: Sequence[DataFile] = ()) -> Staged:
    return Staged(sum(file.rows for file in files), tuple(files))


def write(output: LakeOutput, frame: DataFrame) -> tuple[DataFile, ...]:
    """Stage a frame's rows as files that no manifest names yet."""
    return output.stage(BatchRows(LAYOUT, frame=lambda _: frame), lambda: frame.sparkSession).files


def local_lake(folder: Path) -> Lake:
    return Lake("lake", str(folder))


def s3_lake(server: S3, *, bucket: str | None = None, secret: str | None = None) -> Lake:
    """Make a lake whose prefix has characters that a careless client would encode twice."""
    return Lake(
        "lake",
        f"s3a://{bucket or server.create_bucket()}/raw zone/50%25é",
        endpoint=server.endpoint,
        region=server.region,
        access_key=Secret(server.access_key),
        secret_key=Secret(secret or server.secret_key),
    )


def tag(seq: int, *, epoch: int = 0, pipeline: str = "shop", flow: str = "shop.orders") -> Tag:
    return Tag(pipeline, flow, epoch, seq)


def batch(upto: str, *, after: str | None = None, nulls: bool = False) -> Batch:
    """Make a batch up to a moment; its key has two columns, one of them text."""
    return Batch(windows=(Window(_position(after) if after else None, _position(upto)),), nulls=nulls)


def _position(moment: str) -> RowPosition:
    return RowPosition(
        Value(ValueKind.TIMESTAMP, moment),
        (Value(ValueKind.INT, "18446744073709551615"), Value(ValueKind.TEXT, 'é "x"')),
    )


def committed_files(lake: Lake, folder: str, *, epoch: int | None = None) -> tuple[CommittedFile, ...]:
    """The files that a reader of the table reads, batch by batch, without batches that were cleaned away."""
    return tuple(
        CommittedFile(manifest.tag.epoch, manifest.tag.seq, file)
        for manifest in load_committed(lake, folder, epoch=epoch)
        for file in (() if manifest.gone else manifest.sources)
    )
