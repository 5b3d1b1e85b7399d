"""The data of one batch, as an output receives it, in one of four forms:

- `BatchRows`: rows to be written
- `KeysToDelete`: keys of rows to be deleted
- `TruncateTarget`: no rows; all rows of the target are deleted
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
"""Part of the error that an unexpected row raises. Random for each process, so that no row contains it."""


class Split(Protocol):
    """Rows that one task reads by itself, directly from the source or lake.

    Can be pickled and read more than once. One split never holds a key twice. Its errors are TidegaugeErrors,
    or their text begins with `tidegauge: `.
    """

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with exactly the schema `model.arrow.schema_of(layout)`."""


@dataclass(frozen=True)
class LakeFile:
    """A committed file of a lake."""

    lake: Lake
    path: str
    """Path of the file, relative to the lake's path."""
    rows: int
    bytes: int
    """Size of the whole file."""
    first: int | None = None
    """Index of the first row of the batch, if only `rows` of the file's rows belong to it; None: all do."""


@dataclass(frozen=True)
class Verdict:
    """What the expectations of a flow found in a batch that passed them."""

    checks: Checks
    aside: DataFrame | None
    """Quarantined rows: `row`, the row as JSON, and `_reasons`, its failed checks' names; None: no rows."""
    whole: bool
    """Whether every row of the transform was checked: these rows then replace all that is in quarantine."""


@dataclass(frozen=True)
class DeltaChange:
    """What a batch does to a Delta table, as lazy frames of one session.

    `rows` has the columns of the target. Depending on the mode it also has:

    `append`, `overwrite`: nothing. `replace_partitions`: nothing; `rows` are all rows of the partitions in
    `touched`.
    `merge`: `_change_type`, which is `delete` for a key to be deleted (its other columns may be NULL) and
    anything else for the row's new state; a repeated key fails the batch. An `insert` means that no row with
    the key existed before, as far as the changed rows tell; see `recompute_keys`.
    `scd2`: `_change_type` as for `merge`, `_commit_version` (bigint) and `_commit_timestamp` (timestamp):
    each row is one event, in any order. A delete from the feed has NULL as its sequence column: it closes
    the version at the time of its commit.
    """

    rows: DataFrame
    touched: DataFrame | None = None
    """`replace_partitions`: partition columns of each partition to be rewritten, without repeats."""
    refused: DataFrame | None = None
    """`append`: deleted rows. If there is any, the batch fails."""
    recompute_keys: Callable[[DataFrame], DataFrame] | None = None
    """`merge`: returns what the whole inputs give for some keys, in the columns of `rows`: a key that is
    there twice comes twice, a key that is not there comes as a delete. Needed if an unchanged input row,
    which is in the target already, may have the key of an `insert`. None: `rows` are complete for their
    keys."""
    recompute_all_keys: bool = False
    """With `recompute_keys`: every key has to be evaluated again, not just the keys of inserts."""
    judge: Callable[[], Verdict | None] | None = None
    """Checks the expectations, before anything is committed. Raises ExpectationFailed."""
    whole: bool = False
    """Whether the whole result of the transform was compared with the target, so that afterwards every row of
    the target has all of its columns. False: some rows stay as they were."""
    guarded: bool = False
    """True: reading `rows` fails at the first unexpected row with an error that contains `GUARD`, and `judge`
    returns the result for a batch without such rows. False: `judge` reads the rows itself."""
    count_repeated: Callable[[DataFrame], tuple[CheckCount, ...]] | None = None
    """Counts rows to be written whose values are repeated (`unique`). Raises ExpectationFailed."""
    notes: tuple[str, ...] = ()
    cached: tuple[DataFrame, ...] = ()
    """Frames cached in memory until the batch has ended; the code that commits releases them."""


@dataclass(frozen=True)
class BatchData:
    """The fields that all four forms have."""

    layout: Layout
    rows: int | None = None
    """Number of rows, if counted before reading: exact in a lake, possibly outdated at a live source."""
    paths: tuple[str, ...] = field(default=(), kw_only=True)
    """Full paths of the lake files that the rows come from, even if those cannot be taken as they are."""
    explain: Callable[[BaseException], TidegaugeError | None] | None = field(default=None, kw_only=True)
    """Turns an error of the output into the read error that caused it; None if reading did not cause it."""


@dataclass(frozen=True)
class RowsQuery:
    """The rows as a query, in the SQL of the database that holds them. A single statement, so it reads a
    consistent snapshot of the table."""

    table: TableName
    values: tuple[str, ...]
    """SQL for the value of each of the layout's columns, in a type that the database can store."""
    wrong: str
    """SQL for the number of a row's first column whose value cannot be held exactly; empty: none can fail."""
    rest: str
    """The rest of the query, from FROM on: the table, and the condition on its rows."""
    types: str
    """A SELECT that lists the table's current columns: name and type come first, written as in the layout."""
    refuse: Callable[[int, Mapping[str, Any]], TidegaugeError]
    """Makes the error for a column found by `wrong`, from its number and the row's key."""
    masked: frozenset[str] = frozenset()
    """Columns whose values are masked or made here, so that the table's types do not apply to them."""


@dataclass(frozen=True)
class BatchRows(BatchData):
    """Rows, available as files, splits or a frame. Each available form has all the rows; an output takes the
    one that is fastest for it.

    At least one of `splits` and `frame` is set, or else `inside`; `files` only if the rows are already in a
    lake. Splits and files are in the order in which they were read: of two rows with the same key the later
    one counts.
    """

    files: tuple[LakeFile, ...] = ()
    """Files in order. A file whose rows or bytes are not as stated here fails the batch. Only a file without
    `first` can be taken as it is; for the others use their splits."""
    splits: tuple[Split, ...] = ()
    """Splits in order; if `files` is set, one for each file."""
    frame: Callable[[SparkSession], DataFrame] | None = None
    """Makes a Spark frame of the rows; nothing is read until the frame is written."""
    inside: RowsQuery | None = None
    """The rows as a query, for an output in the same database (`Capabilities.inside`); no other form then."""
    anew: bool = False
    """Whether a person asked for just these rows, so that an output which lost earlier rows is no error."""
    checked: CheckedRows | None = None
    """The same rows with the checks that each fails; None if there are no expectations."""


@dataclass(frozen=True)
class CheckedRows:
    """Rows that are checked while they are read; an output writes these instead of the plain rows."""

    expect: tuple[Expectation, ...]
    rows: BatchRows
    """The rows; splits, frame and layout have two extra columns, `model.marks.FAILED` and `ROW`."""


@dataclass(frozen=True)
class KeysToDelete(BatchRows):
    """Keys, without other columns, whose rows the output deletes."""


@dataclass(frozen=True)
class TruncateTarget(BatchData):
    """No rows: the output deletes all of its rows."""

    rows: int | None = 0


@dataclass(frozen=True)
class DeltaBatch(BatchData):
    change: Callable[[SparkSession, Callable[[], DataFrame] | None], DeltaChange] = field(kw_only=True)
    """Returns what the batch does to the target, lazily, given a session of the flow's own and the target as
    it is now (None if it does not exist yet)."""
    reads_little: bool = field(default=False, kw_only=True)
    """Whether all tables that the batch reads are small."""
    guarded: Callable[[SparkSession, Callable[[], DataFrame] | None], DeltaChange] | None = field(
        default=None, kw_only=True
    )
    """Like `change`, but returns a change that is `guarded`, which is cheaper if every row is as expected.
    May itself raise an error that contains `GUARD`. None: not available."""


ReadBatch = Callable[[Batch], BatchData]
"""Returns the data of a batch; called again for each retry."""
