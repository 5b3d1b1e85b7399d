"""A flow between Delta tables, as the user asked for it: inputs, transform, one output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Self

from tidegauge.errors import Place
from tidegauge.model.expectation import Expectation
from tidegauge.model.mode import Mode
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.spec import Drift, Lake, Stage, TableFlow

VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
"""What `scd2` adds to a table."""
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
"""The columns of a change feed."""
QUARANTINE = "_quarantine"
"""What the name of the table ends with that holds the rows set aside."""
DELETE = "delete"
"""The `_change_type` that is always obeyed."""


class Evaluate(StrEnum):
    """How the target is kept equal to the transform over whole tables."""

    AUTO = "auto"
    ROWS = "rows"
    KEYS = "keys"
    WHOLE = "whole"


class OnMissing(StrEnum):
    """When versions that were not read yet are gone from the source."""

    FAIL = "fail"
    REBASELINE = "rebaseline"
    DIFF = "diff"


class OnDelete(StrEnum):
    FAIL = "fail"
    IGNORE = "ignore"


@dataclass(frozen=True)
class TableRef:
    """A Delta table by its name in Spark's catalogue, or by its path."""

    name: str | None = None
    path: str | None = None
    """Absolute and local, or `s3a://bucket/prefix`; no trailing slash."""
    storage: Lake | None = None
    """Endpoint, region and keys of the connection that the path lies below; None: the usual chain."""

    def __str__(self) -> str:
        return self.name or str(self.path)

    @property
    def quarantine(self) -> TableRef:
        """The table beside it, for rows that were set aside."""
        if self.name is None:
            return replace(self, path=f"{self.path}{QUARANTINE}")
        quoted = self.name.endswith("`")
        return replace(self, name=f"{self.name.removesuffix('`')}{QUARANTINE}{'`' if quoted else ''}")

    @property
    def on_s3(self) -> bool:
        return (self.path or "").startswith("s3a://")

    def at(self, location: str) -> Lake:
        """How the table's files are reached, wherever it turned out to be."""
        return replace(self.storage or Lake("", location), path=location)


@dataclass(frozen=True)
class ReadByColumn:
    """An input that need not be a Delta table, and is not followed by its versions."""

    column: str | None
    """Its rows in the order of this column, from the watermark on; None: the whole table each time, compared
    with what the output has."""
    key: tuple[str, ...] = ()
    """The columns that tell its rows apart: a row that is read again is known by them."""
    lookback: timedelta = timedelta(0)
    """How far below the watermark it is read again, for rows that come late."""
    settle: timedelta = timedelta(0)
    """Rows younger than that wait."""
    format: str | None = None
    """Of the files at its path; None: a Delta table, or one of the catalogue."""


@dataclass(frozen=True)
class DeltaInput:
    name: str
    """Of the view that the transform reads, and in the ledger."""
    table: TableRef
    snapshot: bool = False
    """Pinned when the plan is made; its own changes touch nothing."""
    raw: bool = False
    """`feed: raw`: the rows of the feed with its columns, and the law is the user's."""
    initial: str | None = None
    """`snapshot`, `earliest`, a version or a timestamp; None: by the mode of the output."""
    on_missing: OnMissing = OnMissing.FAIL
    max_versions: int | None = None
    """In one batch."""
    max_bytes: int | None = None
    for_checks: bool = False
    """Read by an expectation, and not by the transform."""
    by_column: ReadByColumn | None = None
    """None: its changes are followed version by version."""
    place: Place | None = None


@dataclass(frozen=True)
class DeltaTable:
    table: TableRef
    mode: Mode = Mode.MERGE
    key: tuple[str, ...] = ()
    sequence_by: str | None = None
    partition_by: tuple[str, ...] = ()
    track: tuple[str, ...] = ()
    """`scd2`: the columns whose change makes a new row; none: all of them."""
    surrogate_key: str | None = None
    """`scd2`: a column that holds a hash of key and `valid_from`."""
    on_delete: OnDelete = OnDelete.FAIL
    """`append`: what a delete at the source does."""
    giver: str = "the transform"
    """Who gives its rows, in messages."""
    zorder: tuple[str, ...] = ()
    """The columns that `optimize` sorts by."""
    deletion_vectors: bool | None = None
    """Whether Delta may mark rows as gone beside their file; None: in a table that is made anew it may, and
    others stay as they are."""
    place: Place | None = None


@dataclass(frozen=True)
class Sql:
    text: str
    file: Path | None = None


@dataclass(frozen=True)
class Function:
    name: str
    """`module:function`, or the qualified name of one that was registered."""
    root: Path | None = None
    """The project's folder, from which `module` is imported."""
    call: Callable[..., Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class DeltaFlow:
    """A flow between Delta tables.

    Has the same facts under the same names as a `TableFlow`, so that nobody has to ask which of them it is.
    """

    uses_delta: ClassVar[bool] = True
    """Whether Spark needs Delta's jars for it."""
    upstream: ClassVar[None] = None
    """It is no second stage of a table."""
    stages: ClassVar[tuple[Stage, ...]] = ()
    holds: ClassVar[str] = "rows"
    """What is found in its output."""
    readers: ClassVar[int] = 1
    """How many read one batch side by side: Spark divides the work itself."""
    skip_hint: ClassVar[str] = ""
    """What can be done where a flow that it reads from failed: nothing but to mend that."""
    pipeline: str
    name: str
    inputs: tuple[DeltaInput, ...]
    output: DeltaTable
    transform: Sql | Function | None = None
    """None: the rows of the only input, as they are."""
    expect: tuple[Expectation, ...] = ()
    """Of the rows that it writes."""
    evaluate: Evaluate = Evaluate.AUTO
    allow_nondeterministic: bool = False
    """The transform may roll dice and read the clock."""
    drift: Drift = Drift.EVOLVE
    tags: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()
    """The flows of this project whose outputs it reads."""
    place: Place | None = None
    schedule: FlowSchedule | None = None

    @property
    def moving(self) -> tuple[DeltaInput, ...]:
        """The inputs whose changes are followed."""
        return tuple(part for part in self.inputs if not part.snapshot)

    @property
    def read(self) -> tuple[DeltaInput, ...]:
        """The inputs that the transform sees."""
        return tuple(part for part in self.inputs if not part.for_checks)

    @property
    def by_column(self) -> DeltaInput | None:
        """The input that is not followed by its versions, where there is one: the others are snapshots."""
        return next((part for part in self.inputs if part.by_column is not None), None)

    @property
    def plans_by_spark(self) -> bool:
        """Whether it takes Spark jobs to know what is new."""
        part = self.by_column
        return part is not None and part.by_column is not None and part.by_column.column is not None

    @property
    def input(self) -> str:
        """The name of its first input in the ledger."""
        return self.moving[0].name

    @property
    def label(self) -> str:
        """As `verify` names it."""
        return self.name

    @property
    def target(self) -> str:
        """Where its rows go, as people read it."""
        return str(self.output.table)

    @property
    def refresh_name(self) -> str:
        """What to select for a full refresh of it."""
        return self.name

    @property
    def in_catalogue(self) -> bool:
        """Whether its output is known only by a name in Spark's catalogue."""
        return self.output.table.path is None

    @property
    def appends(self) -> bool:
        """Whether rows that come again are there twice."""
        return self.output.mode.facts.only_adds

    @property
    def on_s3(self) -> bool:
        return any(table.on_s3 for table in (self.output.table, *(part.table for part in self.inputs)))

    def with_readers(self, count: int) -> Self:  # noqa: ARG002
        return self


AnyFlow = TableFlow | DeltaFlow
"""Whatever a run brings up to date."""
