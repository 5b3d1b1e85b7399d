"""What an output gets for one batch. It has one of four forms:

- `BatchRows`: rows to be written
- `KeysToDelete`: keys of rows that go
- `EmptyTarget`: no row; all rows of the target go
- `DeltaBatch`: a change to a Delta table, which Spark computes
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tidegauge.errors import TidegaugeError
from tidegauge.model.expectation import CheckCount, Checks, Expectation
from tidegauge.model.plan import Batch
from tidegauge.model.spec import Lake, TableName
from tidegauge.model.table import Layout

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


GUARD = f"tidegauge-unexpected-{uuid.uuid4().hex}"
"""In the error that a row raises which is not as expected. No row can hold it: each process draws another."""


class Split(Protocol):
    """Rows that one task reads by itself, straight from where they are.

    Can be pickled and read again. One split never holds a key twice. Its errors are ours, or a sentence
    that begins with `tidegauge: `.
    """

    def batches(self) -> Iterator[pa.RecordBatch]:
        """With exactly `model.arrow.schema_of(layout)`."""


@dataclass(frozen=True)
class LakeFile:
    """A committed file of a lake."""

    lake: Lake
    path: str
    """Below the lake's path."""
    rows: int
    bytes: int
    """Of the whole file."""
    first: int | None = None
    """Only `rows` of its rows are meant, from this one on; None: all are."""


@dataclass(frozen=True)
class Verdict:
    """What the expectations of a flow found in a batch that may be written."""

    checks: Checks
    aside: DataFrame | None
    """`row`, the row as JSON, and `_reasons`, the names of the checks it fails; None: none is quarantined."""
    whole: bool
    """All that the transform gives was looked at: nothing else of the flow is left in quarantine."""


@dataclass(frozen=True)
class DeltaChange:
    """What a batch does to a Delta table, as lazy frames of one session.

    The columns of `rows` are those of the target, and besides:

    `append`, `overwrite`: none. `replace_partitions`: none; they are all rows of the partitions `touched`.
    `merge`: `_change_type`, which is `delete` for a key that goes (its other columns may be NULL) and
    anything else for a row as it shall be; a key comes once, or the batch fails. Of an `insert` nothing with
    that key was there before, as far as the rows that changed tell; see `again`.
    `scd2`: `_change_type` likewise, `_commit_version` (bigint) and `_commit_timestamp` (timestamp): each row
    is one event, in any order. Of a delete from the feed the sequence column is NULL: it closes at its
    commit's time.
    """

    rows: DataFrame
    touched: DataFrame | None = None
    """`replace_partitions`: the partition columns of every partition to be written anew, each once."""
    refused: DataFrame | None = None
    """`append`: deleted rows. One of them fails the batch."""
    again: Callable[[DataFrame], DataFrame] | None = None
    """`merge`: what the whole has under given keys, as `rows` have it: a key twice if it is there twice, and
    a delete if it is not. None: what `rows` say of a key is all there is. Else another row of the input,
    which has not changed, may have the key of an `insert`; it came out before, so the target has it."""
    unsure: bool = False
    """With `again`: every key has to be asked for, and not just that of an `insert`."""
    judge: Callable[[], Verdict | None] | None = None
    """What the expectations find. Asked before anything is committed; raises ExpectationFailed."""
    guarded: bool = False
    """As soon as a row is not as expected, `rows` fail with an error that says `GUARD`; `judge` says what
    holds if none does. False: `judge` looks at the rows itself."""
    count_repeated: Callable[[DataFrame], tuple[CheckCount, ...]] | None = None
    """Of the rows as they are about to be written, those whose values are there twice; raises likewise."""
    notes: tuple[str, ...] = ()
    kept: tuple[DataFrame, ...] = ()
    """Frames that stay in memory until the batch has ended: whoever commits it releases them."""


@dataclass(frozen=True)
class BatchData:
    """What every form has."""

    layout: Layout
    rows: int | None = None
    """Where they were counted before they are read: exact in a lake, at a live source a moment old."""
    paths: tuple[str, ...] = field(default=(), kw_only=True)
    """Where in the lake the rows come from, in full; also where the files cannot be read just as they are."""
    explain: Callable[[BaseException], TidegaugeError | None] | None = field(default=None, kw_only=True)
    """What made the rows impossible to read, where an error of the output shows that it was that."""


@dataclass(frozen=True)
class RowsInside:
    """The rows as a query, in the SQL of the database that they are in. One statement, so it sees one moment
    of the table."""

    table: TableName
    values: tuple[str, ...]
    """Of each of the layout's columns, as a column of that database takes it."""
    wrong: str
    """The number of the first column of a row whose value cannot be held exactly; empty: there is none."""
    rest: str
    """From FROM on: the table, and the condition on its rows."""
    types: str
    """A SELECT of the table's columns now: name and type first, in the words of the layout."""
    refuse: Callable[[int, Mapping[str, Any]], TidegaugeError]
    """What to raise for such a column, of the row with this key."""
    masked: frozenset[str] = frozenset()
    """Columns whose values are not what the table holds, so that its types say nothing of them."""


@dataclass(frozen=True)
class BatchRows(BatchData):
    """Rows, as files, as splits and as a frame, as far as they can be had so. An output takes what is fastest
    for it: each has all the rows.

    At least one of `splits` and `frame` is there, or else `inside`; `files` only where the rows are in a lake
    already. Splits and files are in the order in which they were read: of two rows with one key the later
    counts.
    """

    files: tuple[LakeFile, ...] = ()
    """In order; a file in here has as many rows and bytes as it says, or the batch fails. Only one without
    `first` can be taken as it is; of the others, the splits."""
    splits: tuple[Split, ...] = ()
    """With files: one for each, in the same order."""
    frame: Callable[[SparkSession], DataFrame] | None = None
    """Lazy: nothing is read until the frame is written."""
    inside: RowsInside | None = None
    """For an output in the same database (`Capabilities.inside`); then there is nothing else."""
    anew: bool = False
    """A person asked for just these rows: that the output has lost what came before them is no fault."""
    checked: CheckedRows | None = None
    """The same rows with what each fails; None where nothing is expected of them."""


@dataclass(frozen=True)
class CheckedRows:
    """Rows that are checked while they are read: whoever writes them takes these instead."""

    expect: tuple[Expectation, ...]
    rows: BatchRows
    """Splits and frame have two columns more, `model.marks.FAILED` and `ROW`, and so has the layout."""


@dataclass(frozen=True)
class KeysToDelete(BatchRows):
    """The rows are keys alone, and what the output has under them goes."""


@dataclass(frozen=True)
class EmptyTarget(BatchData):
    """There are no rows, and what the output has goes."""

    rows: int | None = 0


@dataclass(frozen=True)
class DeltaBatch(BatchData):
    change: Callable[[SparkSession, Callable[[], DataFrame] | None], DeltaChange] = field(kw_only=True)
    reads_little: bool = field(default=False, kw_only=True)
    """All tables that it reads are small."""
    """Given a session of the flow's own, and the target as it is now (None while there is none), what the
    batch does to it. Lazy."""
    guarded: Callable[[SparkSession, Callable[[], DataFrame] | None], DeltaChange] | None = field(
        default=None, kw_only=True
    )
    """The same, `guarded`, which costs less as long as every row is as expected. None: cannot be had. It may
    itself raise what `GUARD` says."""


ReadBatch = Callable[[Batch], BatchData]
"""The rows of a batch, whenever they are asked for: a retry asks again."""
