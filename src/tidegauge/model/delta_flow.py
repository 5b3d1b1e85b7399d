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
"""The columns that `scd2` adds to a table."""
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
"""The columns that Delta's change data feed adds."""
QUARANTINE = "_quarantine"
"""The suffix of the table that holds quarantined rows."""
QUARANTINE_COLUMNS = (
    "row",
    "_reasons",
    "_pipeline",
    "_flow",
    "_epoch",
    "_seq",
    "_run_id",
    "_window",
    "_quarantined_at",
)
"""The columns of that table, in order, in a warehouse and as a Delta table."""
DELETE = "delete"
"""The `_change_type` of a row that is to be deleted."""


class Evaluate(StrEnum):
    """How a batch is evaluated to keep the target equal to the transform over whole tables."""

    AUTO = "auto"
    ROWS = "rows"
    KEYS = "keys"
    WHOLE = "whole"


class OnMissing(StrEnum):
    """What to do when unread versions are gone from the source."""

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
    """An absolute local path, or `s3a://bucket/prefix`; no trailing slash."""
    storage: Lake | None = None
    """The connection that contains the path, for endpoint, region and keys; None: the default AWS chain."""

    def __str__(self) -> str:
        return self.name or str(self.path)

    @property
    def quarantine(self) -> TableRef:
        """The table for quarantined rows, beside this one."""
        if self.name is None:
            return replace(self, path=f"{self.path}{QUARANTINE}")
        quoted = self.name.endswith("`")
        return replace(self, name=f"{self.name.removesuffix('`')}{QUARANTINE}{'`' if quoted else ''}")

    @property
    def on_s3(self) -> bool:
        return (self.path or "").startswith("s3a://")

    def at(self, location: str) -> Lake:
        """Return how to reach the table's files at the location that the catalogue or path gave."""
        return replace(self.storage or Lake("", location), path=location)


@dataclass(frozen=True)
class ReadByColumn:
    """How an input is read that is not followed by its versions, so it need not be a Delta table."""

    column: str | None
    """The column that orders the rows, which are read from the watermark on; None: the whole table is read
    each time and compared with the output."""
    key: tuple[str, ...] = ()
    """The columns that identify a row, so that a row that is read twice is recognized."""
    lookback: timedelta = timedelta(0)
    """How far below the watermark rows are read again, for rows that come late."""
    settle: timedelta = timedelta(0)
    """Rows younger than this wait for a later run."""
    format: str | None = None
    """Format of the files at the input's path; None: a Delta table, or a table of the catalogue."""


@dataclass(frozen=True)
class DeltaInput:
    name: str
    """Name of the view that the transform reads, and of the input in the ledger."""
    table: TableRef
    snapshot: bool = False
    """The version is pinned when the plan is made; changes of this input start no work."""
    raw: bool = False
    """`feed: raw`: the transform gets the change feed's rows and columns, and has to handle them itself."""
    initial: str | None = None
    """Where to begin: `snapshot`, `earliest`, a version or a timestamp; None: by the output's mode."""
    on_missing: OnMissing = OnMissing.FAIL
    max_versions: int | None = None
    """The most versions in one batch; `max_bytes` the most bytes."""
    max_bytes: int | None = None
    for_checks: bool = False
    """Whether an expectation reads this input, and not the transform."""
    by_column: ReadByColumn | None = None
    """How the input is read by a column; None: its changes are read version by version."""
    place: Place | None = None


@dataclass(frozen=True)
class DeltaTable:
    table: TableRef
    mode: Mode = Mode.MERGE
    key: tuple[str, ...] = ()
    sequence_by: str | None = None
    partition_by: tuple[str, ...] = ()
    track: tuple[str, ...] = ()
    """`scd2`: the columns whose change makes a new version of a row; empty: all columns."""
    surrogate_key: str | None = None
    """`scd2`: a column that holds a hash of key and `valid_from`."""
    on_delete: OnDelete = OnDelete.FAIL
    """`append`: what to do if rows were deleted at the source."""
    giver: str = "the transform"
    """What produces the rows, as messages name it."""
    zorder: tuple[str, ...] = ()
    """The columns that `optimize` sorts by."""
    deletion_vectors: bool | None = None
    """Whether the table uses deletion vectors; None: a table that is created does, existing ones stay as they
    are."""
    place: Place | None = None


@dataclass(frozen=True)
class Sql:
    text: str
    file: Path | None = None


@dataclass(frozen=True)
class Function:
    name: str
    """`module:function`, or the qualified name of a registered function."""
    root: Path | None = None
    """The project's folder, from which `module` is imported."""
    call: Callable[..., Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class DeltaFlow:
    """A flow between Delta tables.

    Has the same attributes as a `TableFlow`, so that callers need not tell the two apart.
    """

    uses_delta: ClassVar[bool] = True
    """Whether Spark needs Delta's jars for the flow."""
    upstream: ClassVar[None] = None
    """A Delta flow is never the second stage of a table."""
    stages: ClassVar[tuple[Stage, ...]] = ()
    holds: ClassVar[str] = "rows"
    """What the output holds, as messages name it."""
    readers: ClassVar[int] = 1
    """How many readers one batch has: always 1, because Spark divides the work itself."""
    skip_hint: ClassVar[str] = ""
    """A hint for when an upstream flow failed: empty, because only mending that flow helps."""
    pipeline: str
    name: str
    inputs: tuple[DeltaInput, ...]
    output: DeltaTable
    transform: Sql | Function | None = None
    """The transform; None: the rows of the only input, as they are."""
    expect: tuple[Expectation, ...] = ()
    """Checks on the rows that the flow writes."""
    evaluate: Evaluate = Evaluate.AUTO
    allow_nondeterministic: bool = False
    """Whether the transform may use random values and the current time."""
    drift: Drift = Drift.EVOLVE
    tags: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()
    """Names of the flows of this project whose outputs this flow reads."""
    place: Place | None = None
    schedule: FlowSchedule | None = None

    @property
    def incremental(self) -> tuple[DeltaInput, ...]:
        """The inputs whose changes are followed: all but the pinned ones."""
        return tuple(part for part in self.inputs if not part.snapshot)

    @property
    def read(self) -> tuple[DeltaInput, ...]:
        """The inputs that the transform sees."""
        return tuple(part for part in self.inputs if not part.for_checks)

    @property
    def by_column(self) -> DeltaInput | None:
        """The input that is read by a column, or None; if there is one, all others are snapshots."""
        return next((part for part in self.inputs if part.by_column is not None), None)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Names of the flows that have to end before this one begins."""
        return self.upstreams

    @property
    def plans_quickly(self) -> bool:
        """Whether a few questions tell what is new: never, as versions of the inputs are looked at."""
        return False

    @property
    def plans_by_spark(self) -> bool:
        """Whether planning needs Spark to find out what is new."""
        part = self.by_column
        return part is not None and part.by_column is not None and part.by_column.column is not None

    @property
    def input(self) -> str:
        """Name of the first input in the ledger."""
        return self.incremental[0].name

    @property
    def label(self) -> str:
        """The flow's name in `verify`."""
        return self.name

    @property
    def target(self) -> str:
        """The output's name, for people."""
        return str(self.output.table)

    @property
    def refresh_name(self) -> str:
        """What to select to refresh the flow fully."""
        return self.name

    @property
    def in_catalogue(self) -> bool:
        """Whether the output is known only by a name in Spark's catalogue."""
        return self.output.table.path is None

    @property
    def appends(self) -> bool:
        """Whether rows that are delivered twice are in the output twice."""
        return self.output.mode.facts.only_adds

    @property
    def on_s3(self) -> bool:
        return any(table.on_s3 for table in (self.output.table, *(part.table for part in self.inputs)))

    def with_readers(self, count: int) -> Self:  # noqa: ARG002
        return self


DataFlow = TableFlow | DeltaFlow
"""Any flow that has data and a watermark."""
