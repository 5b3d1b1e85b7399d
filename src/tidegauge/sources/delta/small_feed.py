"""A small feed or table, read from the files that the log names, and its net effect: without a Spark job.

The rows are those of Delta's own reader: of a commit with change files the rows in these, of any other those
of its added and removed files. Anything unusual raises NeedsSpark, and Delta reads the feed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.delta_log.commit import Action, Commit, parse_commit
from tidegauge.delta_log.commit_times import find_commit_times
from tidegauge.delta_log.data_files import FileColumns, NeedsSpark, concat_rows
from tidegauge.delta_log.location import lake_of
from tidegauge.delta_log.log import ListedLog
from tidegauge.delta_log.protocol import TableState
from tidegauge.errors import OutputError
from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DELETE, TableRef
from tidegauge.model.lazy import lazy
from tidegauge.model.spec import Lake
from tidegauge.sources.delta.net_changes import AFTER, INSERT

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES = 4 * 2**20
"""The most bytes of all files of a feed."""
_WHOLE_BYTES, _WHOLE_FILES = 2**18, 32
"""The most bytes and files of a table that is read as a whole: to send more rows to Java costs more than to
let it read them."""
_TIMES = "__tidegauge_times"


@dataclass(frozen=True)
class SmallFeed:
    columns: FileColumns
    rows: pa.Table
    """The feed, with its own columns behind those of the table."""

    @lazy
    def _net(self) -> tuple[pa.Table, pa.Table]:
        """The rows that came and those that are gone; a row that came and went again cancels out. Raises
        NeedsSpark."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.types as t

        schema = self.columns.schema
        comes = pc.is_in(self.rows.column(CHANGE_TYPE), value_set=pa.array([INSERT, AFTER]))
        own = self.rows.select(schema.names)
        if any(t.is_nested(one.type) or t.is_floating(one.type) for one in schema):
            raise NeedsSpark("rows that only Spark compares")
        if not schema.names or _TIMES in schema.names:
            raise NeedsSpark("no columns")
        times = pc.subtract(pc.multiply(comes.cast(pa.int64()), 2), 1)
        counted = (
            own.append_column(_TIMES, times)
            .group_by(schema.names, use_threads=False)
            .aggregate([(_TIMES, "sum")])
        )
        net = counted.column(f"{_TIMES}_sum")
        found = counted.select(schema.names)
        return _repeat(found, net), _repeat(found, pc.negate(net))

    @property
    def came(self) -> pa.Table:
        return self._net[0]

    @property
    def gone(self) -> pa.Table:
        return self._net[1]


def _repeat(rows: pa.Table, times: pa.ChunkedArray) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    count = np.maximum(times.to_numpy(), 0)
    return rows.take(pa.array(np.repeat(np.arange(rows.num_rows), count)))


def read_small_feed(table: TableRef, location: str, first: int, upto: int) -> SmallFeed:
    """The feed of the versions from `first` to `upto`, in the columns that the table has at the end. Raises
    NeedsSpark."""
    import pyarrow as pa

    lake = lake_of(location, table.storage)
    if lake.on_s3:
        raise NeedsSpark("not on a disk")
    columns, commits, times = _look(lake, first, upto)
    if sum(int(action.get("size") or 0) for one in commits for action, _ in _list_change_files(one)) > _BYTES:
        raise NeedsSpark("a large feed")
    feed = [
        pa.field(CHANGE_TYPE, pa.string()),
        pa.field(COMMIT_VERSION, pa.int64()),
        pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", "UTC")),
    ]
    parts = []
    for commit in commits:
        version = pa.scalar(commit.version, pa.int64())
        at = pa.scalar(times[commit.version], pa.timestamp("us", "UTC"))
        for action, kind in _list_change_files(commit):
            rows = columns.read(Path(lake.path), action, *(() if kind else feed[:1]))
            stamps = [(COMMIT_VERSION, version), (COMMIT_TIMESTAMP, at)]
            for name, value in [(CHANGE_TYPE, pa.scalar(kind)), *stamps] if kind else stamps:
                rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
            parts.append(rows)
    return SmallFeed(columns, concat_rows(parts, pa.schema([*columns.schema, *feed])))


def read_small_table(table: TableRef, location: str, version: int) -> tuple[TableState, pa.Table]:
    """The state of a table at a version, and all its rows. Raises NeedsSpark."""
    lake = lake_of(location, table.storage)
    try:
        log = ListedLog(lake)
        state, held = log.state(version), log.files(version, ("partitionValues", "size"))
    except (OutputError, ValueError, KeyError) as error:
        raise NeedsSpark(str(error)) from error
    if state is None or held is None:
        raise NeedsSpark("the log does not reach back")
    if sum(int(one.get("size") or _WHOLE_BYTES) for one in held) > _WHOLE_BYTES or len(held) > _WHOLE_FILES:
        raise NeedsSpark("not so few rows")
    columns = FileColumns.of(state)
    return state, concat_rows([columns.read(Path(lake.path), one) for one in held], columns.schema)


def _look(lake: Lake, first: int, upto: int) -> tuple[FileColumns, list[Commit], dict[int, datetime]]:
    try:
        log = ListedLog(lake)
        state = log.state(upto)
        bodies = [log.commit(version) for version in range(first, upto + 1)]
        commits = [parse_commit(first + at, body) for at, body in enumerate(bodies) if body is not None]
        times = find_commit_times(log, range(first, upto + 1))
    except (OutputError, OSError, ValueError, KeyError) as error:
        raise NeedsSpark(str(error)) from error
    if state is None or len(commits) < len(bodies) or len(times) < len(bodies):
        raise NeedsSpark("the log does not reach back")
    if any(commit.facts for commit in commits):
        raise NeedsSpark("columns or properties change on the way")
    return FileColumns.of(state), commits, times


def _list_change_files(commit: Commit) -> Iterator[tuple[Action, str | None]]:
    """The files that have a commit's changes, each with the change type of its rows; None if the file itself
    has it for each row."""
    if commit.cdc:
        yield from ((action, None) for action in commit.cdc)
        return
    if any(action.get("deletionVector") for action in (*commit.came, *commit.went)):
        raise NeedsSpark("rows of a file are marked as deleted")
    yield from ((action, INSERT) for action in commit.came)
    yield from ((action, DELETE) for action in commit.went)
