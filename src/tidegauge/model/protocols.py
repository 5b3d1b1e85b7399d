"""The promises between rooms. The engine is the only one that holds more than one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from tidegauge.model.plan import Batch, Draft, Plan, Receipt, Tag
from tidegauge.model.position import Position, RowPosition
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.state import State
from tidegauge.model.table import Outlook, Shape, Survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Source(Protocol):
    """A database's control side: what is there, and how far it is safe to read. No Spark."""

    def tables(self) -> tuple[TableName, ...]:
        """Every base table this login can see, in name order; views and the engine's own tables left out."""

    def shape(self, table: TableName, options: TableOptions) -> Shape:
        """Columns, cursor and key of one table.

        Raises TableMissing, ColumnMissing, CursorUnsuitable, KeyUnsuitable or TypeNotHeld, each naming
        the table, the column and the way out.
        """

    def survey(self, shape: Shape, after: RowPosition | None, step: int, pending: str | None) -> Survey:
        """Find the safe upper bound, then cut `(after, bound]` every `step` rows, in one pass.

        The bound comes from the source's clock and its open transactions, never from MAX of a timestamp or
        from this machine's clock. Raises CursorUnsuitable for NULL cursors under `fail`, KeyUnsuitable for
        repeated or NULL keys.
        """

    def outlook(self) -> Outlook:
        """Its clock, and whether this login sees other sessions' transactions."""

    def close(self) -> None: ...


class Reader(Protocol):
    """A database's data side."""

    def read(self, spark: SparkSession, shape: Shape, batch: Batch) -> DataFrame:
        """The rows of a batch, exactly those of its window, with the columns of the shape.

        Lazy: nothing is read until the frame is written. A value that cannot be held exactly fails the job.
        """


@dataclass(frozen=True)
class DataFile:
    path: str
    """Relative to the table's folder."""
    rows: int
    bytes: int


class Output(Protocol):
    """One table's place in the lake. A batch is there when its manifest is there, and only then."""

    def prepare(self) -> None:
        """Prove that the place can be reached and honours put-if-absent; costs nothing the second time.

        Raises OutputUnreachable or OutputUnsafe.
        """

    def is_empty(self) -> bool:
        """No manifest of any epoch. Leftover data files do not count."""

    def receipt(self, tag: Tag) -> Receipt | None:
        """The committed batch with this tag. Raises OutputUnreachable when that cannot be known."""

    def write(self, frame: DataFrame) -> tuple[DataFile, ...]:
        """Write the rows to files of their own that nobody sees, durable when this returns."""

    def publish(
        self, tag: Tag, batch: Batch, files: Sequence[DataFile], *, shape: Shape, run_id: str
    ) -> Receipt:
        """Make the files visible under the tag, all or nothing, unless the tag is there already.

        Returns the receipt of whoever committed the tag first; a second publish changes nothing.
        An error proves nothing: ask `receipt`.
        """


@dataclass(frozen=True)
class Owner:
    """A process that holds flows: enough to name it, and to tell whether it still lives."""

    actor: str
    """`user@host`, as the history shows it."""
    host: str
    """Identity of machine, boot and process namespace; empty where that cannot be told."""
    pid: int
    started: str
    """The process's own start mark, so that a reused pid is not mistaken for it."""


@dataclass(frozen=True)
class Claim:
    """The right to write one flow's output, until the fence is raised by another."""

    plan: Plan
    owner: Owner
    run_id: str
    fence: int
    attempt: int
    """1 for the first try of a plan."""
    lease_until: datetime


@dataclass(frozen=True)
class Watermark:
    pipeline: str
    flow: str
    input: str
    cursor: str
    position: Position | None
    checked: Position | None
    """How far we looked, which on an idle table is further than the last row."""
    epoch: int
    seq: int
    """The last sequence number committed in this epoch; 0 before the first."""
    pending: str | None
    source_id: str | None
    updated_at: datetime


@dataclass(frozen=True)
class FlowStatus:
    """What is known of a flow's present: its state, its active plan if there is one, its last run."""

    pipeline: str
    flow: str
    state: State
    plan: Plan | None
    """The active plan: PLANNED, RUNNING or FAILED."""
    fence: int
    owner: Owner | None
    lease_until: datetime | None
    last_run: RunRecord | None


@dataclass(frozen=True)
class RunRecord:
    run_id: str
    pipeline: str
    flow: str
    plan_id: str | None
    attempt: int
    state: State
    started_at: datetime
    ended_at: datetime | None
    batches: int
    rows_read: int
    rows_written: int
    error: dict[str, Any] | None


@dataclass(frozen=True)
class HistoryEvent:
    at: datetime
    pipeline: str
    flow: str
    run_id: str | None
    event: str
    actor: str
    reason: str | None
    before: Position | None
    after: Position | None
    error: str | None


class LedgerReader(Protocol):
    def now(self) -> datetime:
        """The store's clock, in UTC without a zone."""

    def watermarks(self, pipeline: str, flows: Sequence[str] | None = None) -> list[Watermark]: ...

    def status(self, pipeline: str, flows: Sequence[str] | None = None) -> list[FlowStatus]:
        """Every flow the ledger has heard of, in name order."""

    def history(
        self, pipeline: str, *, flow: str | None = None, failed: bool = False, limit: int = 20
    ) -> list[HistoryEvent]:
        """Newest first."""


class LedgerWriter(LedgerReader, Protocol):
    """Changes to the ledger. Each call is one transaction: all of it or nothing."""

    def plan(self, drafts: Sequence[Draft], *, owner: Owner, run_id: str) -> dict[str, Plan]:
        """Keep the drafts as plans, all in one transaction; answers by flow.

        A flow that already has an active plan keeps it: that one is returned and the draft is dropped. A
        draft without batches is recorded as SKIPPED and has no entry in the answer. Nor has a draft whose
        flow has moved on since it was looked at (`Draft.seen`): its window would overlap what is committed.
        """

    def refuse(self, pipeline: str, flow: str, error: dict[str, Any], *, owner: Owner, run_id: str) -> None:
        """Record that a flow could not even be planned."""

    def note(self, pipeline: str, flow: str, event: str, *, owner: Owner, reason: str) -> None:
        """Keep in the history that a person did something to a flow, and why."""

    def claim(
        self, plan: Plan, *, owner: Owner, run_id: str, lease: timedelta, dead: Owner | None = None
    ) -> Claim:
        """Take the flow and raise its fence; the lease runs on the store's clock.

        Raises FlowHeld, naming the holder and the end of its lease, while another's lease runs. `dead` is the
        holder which `status` showed and which is known to be gone: its lease does not count. If somebody
        else has taken the flow since, that one's does. Raises WrongState, retryable, once the plan has ended.
        """

    def renew(self, claim: Claim, lease: timedelta) -> None:
        """Raises LeaseLost once another has raised the fence."""

    def begin(self, claim: Claim, index: int) -> None:
        """From here on this batch has only one meaning. Raises LeaseLost."""

    def advance(self, claim: Claim, index: int, receipt: Receipt) -> None:
        """Move the watermark to the end of the batch. Compare-and-set on the fence; raises LeaseLost.

        A batch that reads `again` below the watermark counts, and leaves it where it is.
        """

    def finish(self, claim: Claim, state: State, error: dict[str, Any] | None = None) -> None:
        """End the attempt as SUCCESS or FAILED; as PLANNED when it only lets go of the lease."""
