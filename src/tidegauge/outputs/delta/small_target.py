"""A small target, read and committed to without Spark.

Why: a MERGE of Delta's takes ten jobs, however few its rows are. Where the target and all that a batch reads
are small, Spark computes the rows of the change, once, and the rest is done here: they are matched with the
target's rows by key, files with rows that change are written anew, and data files, change feed, tag and
counts are one commit of the log, put only if nobody else has put that version. Whoever comes second looks
again and begins anew, as after any conflict.

Only where nothing is in doubt: a local disk, no feature or property that asks a writer for more than is done
here, no column that Delta would look at or fill. All else, and every hundredth commit, at which Delta cleans
its log, is left to Spark (`open_small` gives None). The checkpoint of every tenth is written here.

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
from tidegauge.delta_log.newest import Log, Snapshot
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
"""That ask nothing more of these commits, as long as no column and no property uses them otherwise."""
_WRITERS = 7
_CROWD = 50


@dataclass(frozen=True)
class FewRows:
    """What a commit does. Rows have all columns of the target, places count its rows."""

    inserted: pa.Table
    updated: pa.Table | None = None
    updated_at: Sequence[int] = ()
    deleted_at: Sequence[int] = ()
    replaced: frozenset[int] | None = None
    """Files that go whole; None: this is a merge."""
    deleted: int | None = None
    """Rows that go with them, where that is said."""
    append: bool = False
    read: int = 0

    @property
    def is_idle(self) -> bool:
        return not (self.inserted.num_rows or self.updated_at or self.deleted_at or self.replaced)


@dataclass(frozen=True)
class SmallTarget:
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
        starts, count = [], 0
        for table in self.tables:
            starts.append(count)
            count += table.num_rows
        return starts

    def file_at(self, place: int) -> int:
        return bisect_right(self._starts, place) - 1

    def show(self, session: SparkSession, rows: pa.Table | None = None) -> DataFrame:
        """All its rows, or those that are given."""
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(json.loads(self.look.state.schema))
        return frame_of(session, self.rows if rows is None else rows, schema)

    def commit(self, tag: Tag | None, said: str, few: FewRows) -> bool:
        """False: somebody else has committed, and nothing was changed."""
        now, state = int(time.time() * 1000), self.look.state
        gone = sorted([*few.updated_at, *few.deleted_at])
        crowded = few.replaced is None and not few.append and len(self.adds) > _CROWD
        touched = self._find_touched(few, gone, whole=crowded)
        store = self.log.store
        written = self.columns.write(store, self._left(few, touched, gone), state)
        feed: list[Action] = []
        if (gone or crowded) and state.is_on("delta.enableChangeDataFeed"):
            feed = self.columns.write(store, self._changes(few), state, feed=True)
        info = batch_info(
            self.look, now, said, "WRITE" if few.append or few.replaced is not None else "MERGE"
        )
        info["commitInfo"] |= _count(few, touched, written, self.adds)
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
        """The files that go. `whole`: every merge that only inserts leaves a file; as soon as they are many,
        one is made of them."""
        if whole:
            return list(range(len(self.adds)))
        return sorted({self.file_at(place) for place in gone} | (few.replaced or frozenset()))

    def _left(self, few: FewRows, touched: Sequence[int], gone: Sequence[int]) -> pa.Table:
        """All rows of the files that are written."""
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

    def _changes(self, few: FewRows) -> pa.Table:
        """As the feed has them."""
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
        """As Delta does it beside each commit; whoever reads the table next need not read its log for it."""
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
    """None: it is left to Spark."""
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


def _count(
    few: FewRows, touched: Sequence[int], written: Sequence[Action], adds: Sequence[Action]
) -> Mapping[str, object]:
    """As Delta counts, so that `DESCRIBE HISTORY` and receipts read the same whoever has committed."""
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
