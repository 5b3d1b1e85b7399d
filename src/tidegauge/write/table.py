"""A lake table as its manifests tell it. A file in no manifest does not exist."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees, OutputError
from tidegauge.model.protocols import DataFile
from tidegauge.model.spec import Lake
from tidegauge.write import hadoop
from tidegauge.write.folder import check_folder
from tidegauge.write.manifest import DATA, Field, Manifest, Numbered, load, newest_epoch, numbered, path_of
from tidegauge.write.store import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEQ = "_tidegauge_seq"
_ATTEMPT = "_tidegauge_attempt"


@dataclass(frozen=True)
class CommittedFile:
    epoch: int
    seq: int
    file: DataFile


def committed(
    lake: Lake, folder: str, *, epoch: int | None = None, store: Store | None = None
) -> tuple[Manifest, ...]:
    """The manifests of one epoch in order; of the newest unless said."""
    store = store or open_store(lake)
    found = numbered(store, check_folder(folder))
    chosen = newest_epoch(found) if epoch is None else epoch
    return load_all(store, folder, [one for one in found if one.epoch == chosen])


def load_all(store: Store, folder: str, found: Sequence[Numbered]) -> tuple[Manifest, ...]:
    """Raises OutputDisagrees for one that was listed and is gone: a commit is never taken back."""

    def read(one: Numbered) -> Manifest:
        manifest = load(store, folder, one.epoch, one.seq)
        if manifest is None:
            path = path_of(folder, one.epoch, one.seq)
            raise OutputDisagrees(
                f"{store.place}/{path} was deleted while it was read", hint="try again, or restore the table"
            )
        return manifest

    with ThreadPoolExecutor(8) as pool:
        return tuple(pool.map(read, found))


def committed_files(lake: Lake, folder: str, *, epoch: int | None = None) -> tuple[CommittedFile, ...]:
    """What a reader of the table reads, batch by batch."""
    return tuple(
        CommittedFile(manifest.tag.epoch, manifest.tag.seq, file)
        for manifest in committed(lake, folder, epoch=epoch)
        for file in manifest.files
    )


def versions(spark: SparkSession, lake: Lake, folder: str, *, epoch: int | None = None) -> DataFrame:
    """Every row version of the table, with the batch that brought it in the column `_tidegauge_seq`.

    Lazy. Columns that came later are NULL in the rows from before. Raises OutputError for a table
    without a committed batch, which has no columns yet.
    """
    manifests = committed(lake, folder, epoch=epoch)
    if not manifests:
        raise OutputError(
            f"{open_store(lake).place}/{folder} has no committed batch", hint="run the flow first"
        )
    runs = [(schema, list(group)) for schema, group in groupby(manifests, key=lambda one: one.schema)]
    first, *rest = (_read(spark, lake, folder, schema, group) for schema, group in runs)
    for frame in rest:
        first = first.unionByName(frame, allowMissingColumns=True)
    return first


def latest(
    spark: SparkSession,
    lake: Lake,
    folder: str,
    *,
    key: Sequence[str],
    order: Sequence[str] = (),
    epoch: int | None = None,
) -> DataFrame:
    """The newest version of each key: of the last batch that has it, and there of the highest `order`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    frame = versions(spark, lake, folder, epoch=epoch)
    newest_first = [F.col(quoted(name)).desc() for name in (SEQ, *order)]
    window = Window.partitionBy(*[F.col(quoted(name)) for name in key]).orderBy(*newest_first)
    rank = "_tidegauge_rank"
    return frame.withColumn(rank, F.row_number().over(window)).where(F.col(rank) == 1).drop(rank)


def quoted(name: str) -> str:
    """A column's name where Spark would take dots and backticks for its own."""
    return "`" + name.replace("`", "``") + "`"


def _read(
    spark: SparkSession, lake: Lake, folder: str, schema: tuple[Field, ...], manifests: Sequence[Manifest]
) -> DataFrame:
    """Batches with the same columns, in one scan: a batch is told by its attempt's folder."""
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812

    struct = ", ".join(f"{quoted(field.name)} {field.type}" for field in schema)
    paths = [f"{folder}/{file.path}" for manifest in manifests for file in manifest.files]
    if not paths:
        return spark.range(0).select(
            *(F.lit(None).cast(field.type).alias(field.name) for field in schema),
            F.lit(None).cast("bigint").alias(SEQ),
        )
    attempts = {_attempt(file.path): one.tag.seq for one in manifests for file in one.files}
    batches = spark.createDataFrame(
        pa.table({_ATTEMPT: list(attempts), SEQ: pa.array(attempts.values(), pa.int64())})
    )
    reader = spark.read.options(**hadoop.options_of(lake)).schema(struct)
    frame = reader.parquet(*(hadoop.literal(hadoop.path_of(lake, path)) for path in paths))
    name = F.substring_index(frame.metadataColumn("_metadata").getField("file_path"), "/", -2)
    frame = frame.withColumn(_ATTEMPT, F.substring_index(name, "/", 1))
    joined = frame.join(F.broadcast(batches), _ATTEMPT)
    return joined.select(*(F.col(quoted(field.name)) for field in schema), F.col(SEQ))


def _attempt(path: str) -> str:
    """`data/<attempt>/part-…` → `<attempt>`."""
    folder, _, rest = path.partition("/")
    assert folder == DATA
    return rest.partition("/")[0]
