"""A lake table as its manifests describe it. A file in no manifest does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees, OutputError
from tidegauge.model.batch_data import LakeFile
from tidegauge.model.spec import Lake
from tidegauge.model.staged import DataFile
from tidegauge.model.table import Field
from tidegauge.model.types import quote
from tidegauge.outputs.lake.epochs import contents, follow, walk_back
from tidegauge.outputs.lake.manifest import BatchNumber, Manifest, load, path_of, refuse_removed
from tidegauge.spark import hadoop
from tidegauge.storage.folder import check_folder
from tidegauge.storage.store import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEQ = "_tidegauge_seq"
"""The column with the number of a row's batch, in frames and in compacted files; in compacted files it is the
number in the epoch."""
_ATTEMPT, _NUMBER, _PLACE = "_tidegauge_attempt", "_tidegauge_number", "_tidegauge_place"


@dataclass(frozen=True)
class CommittedFile:
    """A data file, with the epoch and the number of its batch."""

    epoch: int
    seq: int
    file: DataFile
    last: int | None = None
    """For a compacted file of `TableFiles`: the last of its batches, while `seq` is the first; else None."""


def load_committed(
    lake: Lake, folder: str, *, epoch: int | None = None, store: Store | None = None
) -> tuple[Manifest, ...]:
    """The manifests that make up the table of the newest epoch, or of `epoch`, in order.

    Those of earlier epochs that it continues come first.
    """
    store = store or open_store(lake)
    found = contents(store, check_folder(folder))
    return load_all(store, folder, follow(store, folder, found, epoch=epoch))


def chain(store: Store, folder: str, epoch: int, seq: int) -> tuple[tuple[int, int], ...]:
    """The batches that make up the table up to batch `seq` of an epoch: (epoch, last batch), in order.

    Reads one file for each epoch that the next one continues, however many batches there are.
    """
    before = (one.continues for one in walk_back(store, folder, epoch) if one.continues)
    return (*reversed(list(before)), (epoch, seq))


def load_all(store: Store, folder: str, found: Sequence[BatchNumber]) -> tuple[Manifest, ...]:
    """The manifests of these batches. Raises OutputDisagrees where one is missing: a commit is never taken
    back."""

    def read(one: BatchNumber) -> Manifest:
        manifest = load(store, folder, one.epoch, one.seq)
        if manifest is None:
            path = path_of(folder, one.epoch, one.seq)
            raise OutputDisagrees(
                f"{store.place}/{path} is a part of the table, and is not there",
                hint="somebody deletes files here: put it back from a backup",
            )
        return manifest

    if len(found) < 2 or not store.remote:  # reading a local file costs less than a thread
        return tuple(map(read, found))
    with ThreadPoolExecutor(8) as pool:
        return tuple(pool.map(read, found))


def lake_files(lake: Lake, folder: str, manifests: Iterable[Manifest]) -> tuple[LakeFile, ...]:
    """Where the rows of these batches are, in order. One file of a batch never has a key twice."""
    return tuple(
        LakeFile(lake, f"{folder}/{one.path}", one.rows, one.bytes, one.first)
        for manifest in manifests
        for one in manifest.sources
    )


def versions(spark: SparkSession, lake: Lake, folder: str, *, epoch: int | None = None) -> DataFrame:
    """Every row version of the table, with the number of its batch in the column `_tidegauge_seq`.

    Batches are numbered in the order that readers see: an epoch that continues another goes on counting where
    that one ends. The frame is lazy. A column that was added later is NULL in older rows. Raises OutputError
    for a table without a committed batch, which has no columns yet.
    """
    manifests = load_committed(lake, folder, epoch=epoch)
    place = f"{open_store(lake).place}/{folder}"
    refuse_removed(place, manifests, "`--full-refresh` of the table reads it whole")
    if not manifests:
        raise OutputError(f"{place} has no committed batch", hint="run the flow first")
    places = number_manifests(manifests)
    runs = [(schema, list(group)) for schema, group in groupby(places, key=lambda one: one[1].schema)]
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
    """The newest version of each key: in the last batch that has it, the row with the highest `order`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    frame = versions(spark, lake, folder, epoch=epoch)
    newest_first = [F.col(quote(name)).desc() for name in (SEQ, *order)]
    window = Window.partitionBy(*[F.col(quote(name)) for name in key]).orderBy(*newest_first)
    rank = "_tidegauge_rank"
    return frame.withColumn(rank, F.row_number().over(window)).where(F.col(rank) == 1).drop(rank)


def _read(
    spark: SparkSession,
    lake: Lake,
    folder: str,
    schema: tuple[Field, ...],
    manifests: Sequence[tuple[int, Manifest]],
) -> DataFrame:
    """The rows of batches with the same columns; `manifests` with the number of each."""
    from pyspark.sql import functions as F  # noqa: N812

    own = [(place, one) for place, one in manifests if one.files and not one.compacted]
    compacted = [(place, one) for place, one in manifests if one.files and one.compacted]
    frames = [_scan(spark, lake, folder, schema, part) for part in (own, compacted) if part]
    if not frames:
        return spark.range(0).select(
            *(F.lit(None).cast(field.type).alias(field.name) for field in schema),
            F.lit(None).cast("bigint").alias(SEQ),
        )
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def _scan(
    spark: SparkSession,
    lake: Lake,
    folder: str,
    schema: tuple[Field, ...],
    manifests: Sequence[tuple[int, Manifest]],
) -> DataFrame:
    """The rows of batches of which either all are compacted or none is, in one scan. The batch of a file is
    found by the folder of its attempt; in a compacted file each row has the number of its batch."""
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812

    struct = ", ".join(f"{quote(field.name)} {field.type}" for field in schema)
    compacted = manifests[0][1].compacted is not None
    found = {
        (_attempt_of(file.path), one.tag.seq if compacted else 0): place
        for place, one in manifests
        for file in one.sources
    }
    batches = spark.createDataFrame(
        pa.table(
            {
                _ATTEMPT: [attempt for attempt, _ in found],
                _NUMBER: pa.array([number for _, number in found], pa.int64()),
                _PLACE: pa.array(found.values(), pa.int64()),
            }
        )
    )
    reader = spark.read.options(**hadoop.options_of(lake)).schema(
        f"{struct}, {SEQ} bigint" if compacted else struct
    )
    paths = dict.fromkeys(file.path for _, one in manifests for file in one.sources)
    frame = reader.parquet(*(hadoop.literal(hadoop.path_of(lake, f"{folder}/{path}")) for path in paths))
    name = F.substring_index(frame.metadataColumn("_metadata").getField("file_path"), "/", -2)
    frame = frame.withColumns(
        {_ATTEMPT: F.substring_index(name, "/", 1), _NUMBER: F.col(SEQ) if compacted else F.lit(0)}
    )
    joined = frame.join(F.broadcast(batches), [_ATTEMPT, _NUMBER])
    return joined.select(*(F.col(quote(field.name)) for field in schema), F.col(_PLACE).alias(SEQ))


def number_manifests(manifests: Sequence[Manifest]) -> list[tuple[int, Manifest]]:
    """Each manifest with its number. An epoch that continues another goes on counting where that one ends."""
    found: list[tuple[int, Manifest]] = []
    for _, group in groupby(manifests, key=lambda one: one.tag.epoch):
        before = found[-1][0] if found else 0
        found += [(before + one.tag.seq, one) for one in group]
    return found


def _attempt_of(path: str) -> str:
    """`data/<attempt>/part-…` → `<attempt>`."""
    return path.split("/")[1]
