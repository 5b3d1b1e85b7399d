"""The promises between rooms. The engine is the only one that holds more than one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from tidegauge.model.cargo import Cargo
from tidegauge.model.plan import Batch, Draft, Plan, Receipt, Tag
from tidegauge.model.position import Position, RowPosition, Value, Window
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.state import State
from tidegauge.model.table import Cut, Field, Layout, Outlook, Shape, Survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Source(Protocol):
    """A database's control side: what is there, and how far it is safe to read. No Spark."""

    def tables(self) -> tuple[TableName, ...]:
        """Every base table this login can see, in name order; views and the engine's own tables left out."""

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        """What this login can see by a name like a table's, and which is none: each with what it is (view,
        foreign table). Not the engine's own."""

    def identity(self) -> str:
        """Which database this is: a shape's `source_id` begins with it, and a `#`."""

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

    def cuts(self, shape: Shape, after: RowPosition | None, upto: RowPosition, step: int) -> tuple[Cut, ...]:
        """Cut a window that is known to be safe, as `survey` does; empty when it has no rows."""

    def count(self, shape: Shape, after: RowPosition | None, upto: RowPosition) -> int:
        """How many rows lie in `(after, upto]` now."""

    def latest(self, shape: Shape) -> Value | None:
        """The highest cursor that lies in no future, as the column writes it; None where that is not known.

        For timestamps that is the source's clock, for values the highest that is there.
        """

    def settled(self, shape: Shape) -> Value | None:
        """The cursor up to which the table is complete now, as the column writes it: whatever is committed
        later lies past it. As `survey` finds it, without a look at the rows; None where nothing is yet.
        """

    def outlook(self) -> Outlook:
        """Its clock, and whether this login sees other sessions' transactions."""

    def close(self) -> None: ...


class Reader(Protocol):
    """A database's data side."""

    def cargo(self, shape: Shape, batch: Batch) -> Cargo:
        """The rows of a batch, exactly those of its window, with the columns of the shape.

        Lazy: nothing is read until an output takes them. A value that cannot be held exactly fails the write.
        """


class Moved(Protocol):
    """One input of a Delta flow in one batch, on one session. Frames are lazy, and have the columns that the
    table has at the window's end: none of the feed's, unless the input is `raw`."""

    @property
    def moves(self) -> bool:
        """Whether anything of it changed in this batch; False for a pinned one."""

    @property
    def afresh(self) -> bool:
        """Read as a whole (`Way.SNAPSHOT`): what was there before is not known, and `gone` is empty."""

    @property
    def grows(self) -> bool:
        """Whole new rows are all that came (`Way.FILES`): `gone` is empty."""

    @property
    def unique(self) -> tuple[str, ...]:
        """Columns of which no two rows have the same values, if none had at the window's beginning: so say
        all commits of the window. Empty: that is not known."""

    @property
    def version(self) -> int:
        """Of the table at the window's end."""

    @property
    def moment(self) -> datetime:
        """When that version was committed, as its log says; with a zone."""

    def now(self) -> DataFrame:
        """The whole table at the window's end."""

    def came(self) -> DataFrame:
        """Rows that are there at the end and were not before, each as often as that is so: the net effect."""

    def gone(self) -> DataFrame:
        """Rows that were there before and are not at the end, likewise."""

    def sides(self, flag: str) -> DataFrame:
        """Both in one frame, told apart by a column of this name: true for what came. It is cheaper to read,
        for a row that was written again as it was may be on both sides."""

    def events(self) -> DataFrame:
        """Each version's own net effect: the rows with `_change_type` (`insert`, `update_preimage`,
        `update_postimage` or `delete`), `_commit_version` and `_commit_timestamp`."""


@dataclass(frozen=True)
class DataFile:
    path: str
    """Relative to the table's folder."""
    rows: int
    bytes: int


@dataclass(frozen=True)
class Staged:
    """Rows that are written and durable, and that nobody sees yet."""

    rows: int
    files: tuple[DataFile, ...] = ()
    """In a lake."""
    table: str = ""
    """In a warehouse: the staging table of this attempt."""
    notes: tuple[str, ...] = ()
    """What a person should know of the table, or of what was made of the rows."""


class Output(Protocol):
    """One table's place in a lake or a warehouse. A batch is there when its tag is there, and only then."""

    @property
    def place(self) -> str:
        """As messages name it."""

    def prepare(self) -> None:
        """Prove that the place can be reached and keeps the promises below; costs nothing the second time.

        Raises OutputUnreachable or OutputUnsafe.
        """

    def is_empty(self) -> bool:
        """No batch of any epoch, and no rows of anybody else's. Leftovers of dead attempts do not count."""

    def is_open(self, epoch: int, *, kept: bool = False) -> bool:
        """Whether batches of this epoch may be committed; epoch 0 is open from the start.

        `kept`: refuse, by OutputDisagrees, a place that has its tags and not what was committed with them: a
        table that was dropped, emptied, or filled in another mode.
        """

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
        """Begin the table's next life. Can be repeated: the same again changes nothing.

        `empty`: with no row in it, once its first batch is there (`is_pending`). Else a warehouse keeps its
        rows, and a lake shows just what it continues.

        From the moment it is open, what an earlier life commits is never seen: a lake's readers follow
        `continues` (epoch, last batch) and no further, a warehouse refuses it. Raises OutputDisagrees when
        the epoch was opened with another meaning, or what it continues is not there.
        """

    def is_pending(self, epoch: int) -> bool:
        """Whether readers still see what earlier lives wrote, which the first batch of this one ends."""

    def lacks(self, continues: tuple[int, int]) -> str | None:
        """What a new epoch that continues this one (up to a batch) would miss; None: it is all there."""

    def receipt(self, tag: Tag) -> Receipt | None:
        """The committed batch with this tag. Raises OutputUnreachable when that cannot be known.

        Raises OutputDisagrees once a later epoch is open, whether the batch is there or not: a receipt
        promises that at some moment during this call the batch was part of what readers see.
        """

    def layout(self) -> tuple[Field, ...] | None:
        """The columns it holds now; None while there are none."""

    def write(self, cargo: Cargo, spark: Callable[[], SparkSession]) -> Staged:
        """Write the rows where nobody sees them, durable when this returns.

        Makes the target, or room in it for new columns and wider types, where that is needed: nothing that is
        there already is lost by it. Spark is started when it is first asked for, and not by every output.
        """

    def publish(self, tag: Tag, batch: Batch, staged: Staged, *, layout: Layout, run_id: str) -> Receipt:
        """Make what was written visible under the tag, all or nothing, unless the tag is there already.

        Returns the receipt of whoever committed the tag first; a second publish changes nothing.
        An error proves nothing: ask `receipt`. Raises OutputDisagrees when a later epoch is open.
        """

    def discard(self, staged: Staged) -> None:
        """Remove what was written and will not be published, as far as that can be done; never raises."""


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
    fingerprint: str | None = None
    """Of the columns as they were in the last plan that this input completed."""
    stamp: str | None = None
    """When the source committed what the position stands for, where the source says so."""


Identity = tuple[str | None, str | None]
"""Which table an input is, and the fingerprint of its columns; None: not known, any will do."""


@dataclass(frozen=True)
class Override:
    """A change by hand that was begun: no one advances any more, and whoever comes next ends it."""

    kind: str
    """`set`, `reset`, `refresh` (a reset that empties the output), `copy`, `import` or `undo`."""
    positions: Mapping[str, Position | None]
    """By input; inputs that are not named stay where they are."""
    epoch: int
    """The life that the output has to open before the ledger moves."""
    continues: tuple[int, int] | None
    """Epoch and batch up to which the new life shows what an earlier one wrote; None: nothing."""
    reason: str
    actor: str
    at: datetime
    identities: Mapping[str, Identity] = field(default_factory=dict)
    """By input, what the next plan shall compare its table with; inputs that are not named keep theirs."""


FORGET = "forget"


@dataclass(frozen=True)
class Undo:
    """What the last override replaced, or what was forgotten."""

    kind: str
    """As an override's, or FORGET."""
    positions: Mapping[str, Position | None]
    continues: tuple[int, int]
    at: datetime
    identities: Mapping[str, Identity] = field(default_factory=dict)

    @property
    def forgot(self) -> bool:
        """Whether the flow was forgotten after it had delivered: nothing is planned until a person says how
        it goes on."""
        return self.kind == FORGET and self.continues != (0, 0)


@dataclass(frozen=True)
class Recalled:
    """Where an input stands by what the output keeps of its last batch. None: the output does not say."""

    cursor: str
    """The cursor's kind; empty where the output does not say."""
    position: Position | None
    source_id: str | None = None
    fingerprint: str | None = None
    stamp: str | None = None
    pending: str | None = None


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
    completed: frozenset[str] = frozenset()
    """Inputs of the active plan that are done before the others."""
    planned_at: datetime | None = None
    """When the active plan was made."""
    override: Override | None = None
    """One that was begun and not ended."""
    undo: Undo | None = None

    @property
    def shown_state(self) -> State:
        """For people: a flow that could not even be planned is READY for the next try, and has failed."""
        run = self.last_run
        refused = run is not None and run.plan_id is None and run.state is State.FAILED
        return State.FAILED if self.state is State.READY and refused else self.state


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
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    """None where it is not known."""
    window: Window | None = None
    """What the attempt set out to cover of the plan's first input."""
    times: tuple[datetime | None, datetime | None] = (None, None)
    """When the ends of that window were, each None where nobody can say; see `to_moment`."""


@dataclass(frozen=True)
class Tally:
    """What a flow has done since it was last reset. For people: nothing is decided by it."""

    rows: int = 0
    """Written, as are `batches` and `files`."""
    batches: int = 0
    files: int | None = 0
    """None where the ledger is older than this count."""
    seconds: float = 0.0
    """Of the runs that have ended."""
    advanced_at: datetime | None = None
    """When the watermark last moved by itself."""
    manual: bool = False
    """Whether a person set the position, and no batch has moved it since."""
    strategy: str | None = None
    """Of the newest run, as its plan says."""
    loaded: tuple[str, ...] = ()
    """The newest thousand of the lake's files that it has taken, oldest first."""
    loaded_files: int = 0
    """All of them."""
    created_at: datetime | None = None
    """When the ledger first heard of the flow; None where it is older than that."""
    updated_at: datetime | None = None


@dataclass(frozen=True)
class HistoryEvent:
    at: datetime
    """By the store's clock: UTC, without a zone in the ledger's own calls and with it from a tracker."""
    pipeline: str
    flow: str
    run_id: str | None
    event: str
    actor: str
    reason: str | None
    before: Position | None
    after: Position | None
    error: str | None
    input: str | None = None
    plan_id: str | None = None
    rows: int | None = None
    seconds: float | None = None


class LedgerReader(Protocol):
    def now(self) -> datetime:
        """The store's clock, in UTC without a zone."""

    def watermarks(self, pipeline: str, flows: Sequence[str] | None = None) -> list[Watermark]: ...

    def status(self, pipeline: str, flows: Sequence[str] | None = None) -> list[FlowStatus]:
        """Every flow the ledger has heard of, in name order."""

    def tallies(self, pipeline: str, flows: Sequence[str]) -> dict[str, Tally]:
        """By flow; one that the ledger has never heard of has no entry."""

    def history(
        self, pipeline: str, *, flow: str | None = None, failed: bool = False, limit: int = 20
    ) -> list[HistoryEvent]:
        """Newest first."""

    def pipelines(self) -> list[str]:
        """Every pipeline that the ledger has heard of, in name order."""

    def find_plan(self, plan_id: str) -> tuple[str, str, bool] | None:
        """Pipeline and flow of a plan, and whether it is active; None where it is not known (any more)."""


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
        """End the attempt as SUCCESS or FAILED; as PLANNED when it only lets go of the lease.

        SKIPPED ends the plan too and moves nothing; the error's message is then the reason. Only before the
        first batch was begun.
        """

    def complete(
        self,
        pipeline: str,
        flow: str,
        plan_id: str,
        *,
        owner: Owner,
        run_id: str,
        rows: Mapping[str, int | None] | None = None,
        claim: Claim | None = None,
    ) -> FlowStatus:
        """Advance a plan that has one batch and no output of ours, for a caller who did the work himself.

        `rows` names the inputs that are done, with their counts where known; None: all that are left. Once
        none is left, the plan ends as SUCCESS. Raises WrongState for a plan that has ended, FlowHeld while
        another process holds it, and ConfigError for an input that it does not have. Whoever has claimed the
        plan gives the claim, and gets LeaseLost if it was taken over since.
        """

    def fail(
        self, pipeline: str, flow: str, plan_id: str, error: dict[str, Any], *, owner: Owner, run_id: str
    ) -> FlowStatus:
        """Record that the caller's work on a plan failed; the plan keeps its windows."""

    def move(self, draft: Draft, *, owner: Owner, run_id: str, rows: int | None = None) -> None:
        """Plan, advance and finish in one transaction, for a caller whose rows are there already.

        Raises FlowHeld or WrongState while the flow has an active plan.
        """

    def begin_override(
        self,
        pipeline: str,
        flow: str,
        kind: str,
        positions: Mapping[str, Position | None],
        *,
        owner: Owner,
        reason: str,
    ) -> Override:
        """Raise the fence, so that nobody advances any more, and keep what is going to be changed.

        `undo` ignores `positions`. Raises WrongState where another override was begun and not ended, and
        where there is nothing to undo. The output has to open `epoch` before `end_override`.
        """

    def end_override(self, pipeline: str, flow: str, *, epoch: int) -> None:
        """Supersede the plan, move the watermarks, and begin the epoch. Does nothing the second time."""

    def forget(self, pipeline: str, flow: str, *, owner: Owner, reason: str) -> None:
        """Drop the watermarks, supersede the plan and raise the fence; the history keeps all of it.

        The output is left as it is, and no tag is used again: a flow that had delivered is planned no more
        until `undo` brings its watermarks back, or a reset or `rebuild` gives it others.
        """

    def rebuild(
        self,
        pipeline: str,
        flow: str,
        marks: Mapping[str, Recalled],
        epoch: int,
        seq: int,
        *,
        owner: Owner,
        reason: str,
    ) -> bool:
        """Stand where the output does: in this epoch, after this batch, every input named where it is there.

        False: it stands there already. Raises WrongState where the ledger is ahead of the output or an
        override was begun, and FlowHeld while a plan is active: only a run can say what became of that.
        """

    def prune(self, *, before: datetime, pipeline: str | None = None) -> dict[str, int]:
        """Remove history, runs and ended plans older than a moment; how many of each.

        What recovery needs stays: watermarks, active plans with all their runs, overrides begun, and the
        last run of every flow.
        """
