"""A small target, read and committed to without Spark.

Why: Delta's MERGE takes ten jobs, however few its rows are. Where the target and all that a batch reads
are small, Spark computes the rows of the change once, and the rest is done here: they are matched with the
target's rows by key, files with rows that change are written anew, and data files, change feed, tag and
counts are one commit of the log, put only if nobody else has put that version. The writer that comes second
reads the log again and starts over, as after any conflict.

Only for simple tables: on a local disk, with no feature or property that demands more of a writer than is
done here, and no column that Delta would check or fill. All else, and every hundredth commit, at which Delta
cleans its log, is left to Spark (`open_small` gives None). The checkpoint of every tenth commit is written
here.

Switch: `TIDEGAUGE_SMALL_BATCHES=off`, as for all shortcuts of `small_batches`.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.delta_log.application import application
from tidegauge.delta_log.batch_commit import batch_info, removal_of
from tidegauge.delta_log.commit import LOG, Action
from tidegauge.delta_log.data_files import FileColumns, NeedsSpark, concat_rows
from tidegauge.delta_log.snapshot import Log, Snapshot
from tidegauge.delta_log.write_checkpoint import is_due, write_checkpoint
from tidegauge.model.delta_flow import CHANGE_TYPE, DELETE
from tidegauge.model.lazy import lazy
from tidegauge.model.plan import Tag
from tidegauge.outputs.delta.small_batches import is_off, is_small
from tidegauge.spark.few_rows import frame_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_FEATURES = {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "columnMapping",
    "deletionVectors",
    "domainMetadata",
    "generatedColumns",
    "inCommitTimestamp",
    "invariants",
    "timestampNtz",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
"""Table features that demand nothing more of these commits, as long as no column or property uses them."""
_WRITERS = 7
"""The newest writer protocol that is known here."""
_CROWD = 50
"""With more files than this, a merge writes all of them anew as one."""


@dataclass(frozen=True)
class FewRows:
    """What a commit to a small target does. Rows have all columns of the target."""

    inserted: pa.Table
    updated: pa.Table | None = None
    """The updated rows, with their new values."""
    updated_at: Sequence[int] = ()
    """The positions of the updated rows in `SmallTarget.rows`."""
    deleted_at: Sequence[int] = ()
    """The positions of the deleted rows in `SmallTarget.rows`."""
    replaced: frozenset[int] | None = None
    """Which of `SmallTarget.adds` are removed whole; None: a merge or an append."""
    deleted: int | None = None
    """How many rows the removed files have; None where the commit does not note it."""
    append: bool = False
    read: int = 0
    """How many rows the change has."""

    @property
    def is_idle(self) -> bool:
        return not (self.inserted.num_rows or self.updated_at or self.deleted_at or self.replaced)


@dataclass(frozen=True)
class SmallTarget:
    """A small target, with all its rows in memory. `adds` are its files, `tables` the rows of each."""

    log: Log
    folder: str
    look: Snapshot
    columns: FileColumns
    adds: tuple[Action, ...]
    tables: tuple[pa.Table, ...]

    @lazy
    def rows(self) -> pa.Table:
        return concat_rows(self.tables, self.columns.schema)

    @lazy
    def _starts(self) -> list[int]:
        """The position of each file's first row in `rows`."""
        starts, count = [], 0
        for table in self.tables:
            starts.append(count)
            count += table.num_rows
        return starts

    def file_at(self, place: int) -> int:
        """Which of `adds` has the row at this position."""
        return bisect_right(self._starts, place) - 1

    def show(self, session: SparkSession, rows: pa.Table | None = None) -> DataFrame:
        """All rows of the target, or the given ones, as a frame."""
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(json.loads(self.look.state.schema))
        return frame_of(session, self.rows if rows is None else rows, schema)

    def commit(self, tag: Tag | None, said: str, few: FewRows) -> bool:
        """Commit the change, with the tag if there is one. False: somebody else has committed first, and
        nothing was changed."""
        now, state = int(time.time() * 1000), self.look.state
        gone = sorted([*few.updated_at, *few.deleted_at])
        crowded = few.replaced is None and not few.append and len(self.adds) > _CROWD
        touched = self._find_touched(few, gone, whole=crowded)
        store = self.log.store
        written = self.columns.write(store, self._collect_written(few, touched, gone), state)
        feed: list[Action] = []
        if (gone or crowded) and state.is_on("delta.enableChangeDataFeed"):
            feed = self.columns.write(store, self._make_feed(few), state, feed=True)
        info = batch_info(
            self.look, now, said, "WRITE" if few.append or few.replaced is not None else "MERGE"
        )
        info["commitInfo"] |= _make_metrics(few, touched, written, self.adds)
        tags = [{"txn": {"appId": application(tag), "version": tag.seq, "lastUpdated": now}}] if tag else []
        removed = [{"remove": removal_of(self.adds[at], now)} for at in touched]
        version = self.look.version + 1
        if not self.log.put(version, [info, *tags, *feed, *removed, *written]):
            paths = [one["path"] for action in (*feed, *written) for one in action.values()]
            store.delete(paths, below="_change_data")
            return False
        self._note_size(version, info, written, touched)
        if is_due(state, version):
            write_checkpoint(self.log, version)
        return True

    def _find_touched(self, few: FewRows, gone: Sequence[int], *, whole: bool) -> list[int]:
        """Which files are removed. `whole`: all of them, to be written anew as one: every merge that only
        inserts adds a small file."""
        if whole:
            return list(range(len(self.adds)))
        return sorted({self.file_at(place) for place in gone} | (few.replaced or frozenset()))

    def _collect_written(self, few: FewRows, touched: Sequence[int], gone: Sequence[int]) -> pa.Table:
        """All rows that are written: what is left of the removed files, updated rows and new ones."""
        import numpy as np
        import pyarrow as pa

        parts = []
        if few.replaced is None:
            for at in touched:
                stays = np.ones(self.tables[at].num_rows, dtype=bool)
                start = self._starts[at]
                stays[[place - start for place in gone if self.file_at(place) == at]] = False
                parts.append(self.tables[at].filter(pa.array(stays)))
        if few.updated is not None:
            parts.append(few.updated)
        parts.append(few.inserted)
        return concat_rows([one for one in parts if one.num_rows], self.columns.schema)

    def _make_feed(self, few: FewRows) -> pa.Table:
        """The rows of the change data feed."""
        import pyarrow as pa

        parts = [(self.rows.take(pa.array(few.deleted_at, pa.int64())), DELETE), (few.inserted, "insert")]
        if few.updated is not None:
            before = self.rows.take(pa.array(few.updated_at, pa.int64()))
            parts += [(before, "update_preimage"), (few.updated, "update_postimage")]
        marked = [
            rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(kind), rows.num_rows))
            for rows, kind in parts
            if rows.num_rows
        ]
        return concat_rows(marked, self.columns.schema)

    def _note_size(
        self, version: int, info: Action, written: Sequence[Action], touched: Sequence[int]
    ) -> None:
        """Write the version's checksum file, as Delta does. By it, readers know the table's size and state
        without reading the log."""
        state = self.look.state
        kept = [add for at, add in enumerate(self.adds) if at not in set(touched)]
        files = [*kept, *(one["add"] for one in written)]
        noted = {
            "txnId": info["commitInfo"]["txnId"],
            "tableSizeBytes": sum(int(one["size"]) for one in files),
            "numFiles": len(files),
            "numMetadata": 1,
            "numProtocol": 1,
            "metadata": state.metadata,
            "protocol": state.protocol,
            "allFiles": [{**one, "dataChange": False} for one in files],
        }
        if state.is_on("delta.enableInCommitTimestamps"):
            noted["inCommitTimestampOpt"] = info["commitInfo"]["inCommitTimestamp"]
        self.log.store.put_if_absent(f"{LOG}/{version:020}.crc", json.dumps(noted).encode())


def open_small(log: Log, folder: str, look: Snapshot) -> SmallTarget | None:
    """The target with its rows; None: the commit has to be made by Spark."""
    if is_off() or log.store.remote or not is_small(look):
        return None
    try:
        columns = _check_writable(look)
        adds = tuple(look.files())
        return SmallTarget(
            log, folder, look, columns, adds, tuple(columns.read(Path(folder), add) for add in adds)
        )
    except NeedsSpark:
        return None


def _check_writable(look: Snapshot) -> FileColumns:
    """The table's columns. Raises NeedsSpark where a commit cannot be made here."""
    state = look.state
    features = {name.removesuffix("-preview") for name in state.features}
    if state.protocol["minWriterVersion"] > _WRITERS or features - _FEATURES:
        raise NeedsSpark("a feature of the table")
    if state.is_on("delta.appendOnly") or any(
        one.startswith("delta.constraints.") for one in state.properties
    ):
        raise NeedsSpark("a property of the table")
    is_due(state, look.version + 1)
    columns = FileColumns.of(state)
    if columns.strict:
        raise NeedsSpark("a column that Delta looks at")
    return columns


def _make_metrics(
    few: FewRows, touched: Sequence[int], written: Sequence[Action], adds: Sequence[Action]
) -> Mapping[str, object]:
    """The commit's metrics, counted as Delta does, so that `DESCRIBE HISTORY` and receipts are the same as
    after a commit by Spark."""
    size = sum(int(one["add"]["size"]) for one in written)
    if few.append or few.replaced is not None:
        mode = "Append" if few.append else "Overwrite"
        found = {"numFiles": len(written), "numOutputRows": few.inserted.num_rows, "numOutputBytes": size}
        if few.deleted is not None:
            found["numDeletedRows"] = few.deleted
        parameters = {"mode": mode}
    else:
        found = {
            "numSourceRows": few.read,
            "numTargetRowsInserted": few.inserted.num_rows,
            "numTargetRowsUpdated": len(few.updated_at),
            "numTargetRowsDeleted": len(few.deleted_at),
            "numTargetFilesAdded": len(written),
            "numTargetFilesRemoved": len(touched),
            "numTargetBytesAdded": size,
            "numTargetBytesRemoved": sum(int(adds[at]["size"]) for at in touched),
        }
        parameters = {}
    metrics = {name: str(value) for name, value in found.items()}
    return {"operationMetrics": metrics, "operationParameters": parameters, "isBlindAppend": few.append}
