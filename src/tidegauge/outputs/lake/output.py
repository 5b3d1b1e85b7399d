"""A table in a lake as the output of a flow: Parquet files, and a manifest for each batch."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees
from tidegauge.model.batch_data import BatchData, BatchRows, TruncateTarget
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.protocols.output import Capabilities
from tidegauge.model.spec import Lake
from tidegauge.model.staged import DataFile, Staged
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.lake.epochs import (
    EpochOpening,
    contents,
    find_gap,
    follow,
    is_pending,
    load_opening,
    open_epoch,
)
from tidegauge.outputs.lake.manifest import (
    DATA,
    EARLIER,
    BatchNumber,
    Manifest,
    list_batches,
    load,
    manifest_of,
    path_of,
    put_once,
    render,
)
from tidegauge.outputs.lake.splits import write_splits
from tidegauge.outputs.lake.table import load_all
from tidegauge.outputs.other_batch import other_batch_error
from tidegauge.spark import hadoop
from tidegauge.storage.folder import check_folder
from tidegauge.storage.parquet_footer import read_footer
from tidegauge.storage.probe import check_store
from tidegauge.storage.store import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART = re.compile(r"part-[^/]*\.parquet")


class LakeOutput:
    """`model.protocols.output.Output` on a local folder or an S3 bucket.

    Why no writer of an older epoch can advance, wherever it was paused while an override opened the next one:

    1. `receipt` first reads the manifest and then looks for the next epoch. A manifest is never taken back,
       so when the next epoch is not open at that second look, the manifest is there at that same moment: the
       batch is part of what readers see. The other way round, the epoch could be opened between the two
       looks, and a batch would be confirmed that no reader sees.
    2. If the epoch is opened after that look, its override has raised the fence before (`begin_override`
       comes before `open_epoch`). Either `advance` comes after the fence was raised, and is refused by it; or
       it came before, and then the ledger counted the batch, and `continues` includes it if it names that
       epoch.
    3. A manifest that is put after the next epoch was opened is seen by nobody: readers take from an older
       epoch only the batches 1 to `upto`, which were there before. `commit` also looks for the next epoch
       before it puts, but only so that a late writer leaves nothing behind; nothing depends on it.

    Epochs are opened without a gap (by `open_epoch`), so a look at the next one is enough.
    """

    def __init__(self, lake: Lake, folder: str, *, store: Store | None = None) -> None:
        self._lake = lake
        self._folder = check_folder(folder)
        self._store = store or open_store(lake)

    @property
    def place(self) -> str:
        return f"{self._store.place}/{self._folder}"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(takes_tasks=True)

    def prepare(self) -> None:
        lake = self._lake
        check_store(self._store, (lake.path, lake.endpoint, lake.region, lake.access_key, lake.secret_key))

    def is_empty(self) -> bool:
        return not list_batches(self._store, self._folder)

    def is_open(self, epoch: int, *, kept: bool = False) -> bool:  # noqa: ARG002
        """`kept` is not checked: whoever reads the files of a manifest finds out which are gone."""
        return epoch == 0 or load_opening(self._store, self._folder, epoch) is not None

    def open_epoch(
        self,
        pipeline: str,
        flow: str,
        epoch: int,
        continues: tuple[int, int] | None,
        reason: str,
        *,
        empty: bool = False,
    ) -> None:
        assert not (empty and continues), "an epoch that continues another is not empty"
        opening = EpochOpening(pipeline, flow, epoch, continues, reason)
        open_epoch(self._store, self._folder, opening, refresh=empty)

    def shows_earlier_rows(self, epoch: int) -> bool:
        return is_pending(self._store, self._folder, epoch)

    def lacks(self, continues: tuple[int, int]) -> str | None:
        gap = find_gap(contents(self._store, self._folder), continues)
        if gap is not None or not continues[1]:
            return gap
        epoch, upto = continues
        batches = load_all(self._store, self._folder, [BatchNumber(epoch, seq) for seq in range(1, upto + 1)])
        # Batches that were removed because every load had passed them are not missed.
        gone = next((one for one in batches if one.gone and one.gone.why == EARLIER), None)
        return None if gone is None else f"batch {gone.tag.seq} of epoch {epoch}, {gone.gone}"

    def receipt(self, tag: Tag, *, like: Batch | None = None) -> Receipt | None:
        """As `Output` promises; of a batch's kind, a lake knows whether it was that of NULLs."""
        found = self._find_committed(tag)
        self._check_epoch(tag)  # after the manifest was read: see the class
        if found and like:
            self._check_same(found, like)
        return found.receipt if found else None

    def layout(self) -> tuple[Field, ...] | None:
        found = contents(self._store, self._folder)
        batches = follow(self._store, self._folder, found, epoch=found.newest)
        if not batches:
            return None
        [last] = load_all(self._store, self._folder, batches[-1:])
        return last.schema

    def stage(self, batch_data: BatchData, spark: Callable[[], SparkSession]) -> Staged:
        match batch_data:
            case TruncateTarget():
                return Staged(0)
            case BatchRows():
                return self._stage_rows(batch_data, spark)
            case _:
                raise AssertionError(f"a lake takes no {type(batch_data).__name__}")

    def _stage_rows(self, batch_data: BatchRows, spark: Callable[[], SparkSession]) -> Staged:
        attempt = f"{self._folder}/{DATA}/{uuid.uuid4().hex}"
        if batch_data.splits:
            start = len(self._folder) + 1
            written = write_splits(self._lake, attempt, batch_data, spark)
            files = tuple(replace(file, path=file.path[start:]) for file in written if file.rows)
        else:
            assert batch_data.frame is not None
            files = self._write_by_spark(batch_data.frame(spark()), attempt)
        return Staged(sum(file.rows for file in files), files)

    def _write_by_spark(self, frame: DataFrame, attempt: str) -> tuple[DataFile, ...]:
        counted = self._write_frame(frame, attempt)
        entries = list(self._store.list(attempt))
        parts = [entry for entry in entries if _PART.fullmatch(entry.path.removeprefix(f"{attempt}/"))]
        with ThreadPoolExecutor(8) as pool:
            counts = list(pool.map(lambda one: read_footer(self._store, one.path, one.bytes).num_rows, parts))
        # Spark writes at least one file, though it may be empty. If there are fewer rows than went in, the
        # executors wrote to disks of their own, which this process does not see.
        if not parts or (counted is not None and sum(counts) != counted):
            rows = "its" if counted is None else counted
            raise OutputDisagrees(
                f"Spark wrote {rows} rows to {self._store.place}/{attempt}, and {sum(counts)} are there",
                hint="a local path needs every executor on this machine; else use a shared mount or s3a://",
            )
        kept = [(entry, count) for entry, count in zip(parts, counts, strict=True) if count]
        wanted = {entry.path for entry, _ in kept}
        self._store.sync(sorted(wanted))
        rest = [entry.path for entry in entries if entry.path not in wanted]
        self._store.delete(rest, below=f"{self._folder}/{DATA}")
        start = len(self._folder) + 1
        return tuple(
            sorted(
                (DataFile(entry.path[start:], count, entry.bytes) for entry, count in kept),
                key=lambda file: file.path,
            )
        )

    def commit(self, tag: Tag, batch: Batch, staged: Staged, *, layout: Layout, run_id: str) -> Receipt:
        ours = manifest_of(tag, batch, staged.files, layout=layout, run_id=run_id)
        self._check_epoch(tag)
        path = path_of(self._folder, tag.epoch, tag.seq)
        theirs = put_once(self._store, path, render(ours), lambda: self._find_committed(tag))
        if theirs:
            self._check_same(theirs, batch)
        return (theirs or ours).receipt

    def discard(self, staged: Staged) -> None:
        """Nothing to do: `files clean` deletes files in no manifest, once they are old enough."""

    def _check_epoch(self, tag: Tag) -> None:
        later = load_opening(self._store, self._folder, tag.epoch + 1)
        if later is not None:
            raise OutputDisagrees(
                f"a later epoch of this table was opened in {self.place}: {later}; batch {tag.seq} of epoch"
                f" {tag.epoch} is no part of it",
                hint="nothing is lost: run again, and the flow goes on from where its watermark was set",
            )

    def _write_frame(self, frame: DataFrame, attempt: str) -> int | None:
        """Write the frame. If executors may write to disks of their own, its rows are counted in the same
        pass and returned; else None.

        Counting costs Spark a third of its time, because it cuts the generated code in two.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812

        seen = Observation()
        options = hadoop.COMMIT | hadoop.options_of(self._lake)
        try:
            hadoop.configure_session(frame.sparkSession)
            counting = not self._lake.on_s3 and hadoop.is_scattered(frame.sparkSession)
            if counting:
                frame = frame.observe(seen, F.count(F.lit(1)).alias("rows"))
            target = hadoop.path_of(self._lake, attempt)
            frame.write.options(**options).mode("error").parquet(target)
            return int(seen.get["rows"]) if counting else None
        except (PySparkException, Py4JError) as error:
            clearer = hadoop.translate_hadoop_error(error, self.place)
            if clearer is None:
                raise  # the frame itself failed, which only the caller can explain
            raise clearer from error

    def _find_committed(self, tag: Tag) -> Manifest | None:
        found = load(self._store, self._folder, tag.epoch, tag.seq, durable=True)
        if found is not None and found.tag != tag:
            raise OutputDisagrees(
                f"{self.place} belongs to the flow {found.tag.flow} of the pipeline {found.tag.pipeline}",
                hint="two flows cannot write one table: give this one another name with `rename:`",
            )
        return found

    def _check_same(self, found: Manifest, batch: Batch) -> None:
        if (found.windows, found.nulls) != (batch.windows, batch.nulls):
            path = path_of(self._folder, found.tag.epoch, found.tag.seq)
            raise other_batch_error(f"{self._store.place}/{path}", found.tag)
