"""The user's project as frozen values. Configuration makes them; every other room only reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from tidegauge.errors import Place
from tidegauge.model.choices import DeleteMode as DeleteMode
from tidegauge.model.choices import Drift as Drift
from tidegauge.model.choices import Execution as Execution
from tidegauge.model.choices import FutureGuard as FutureGuard
from tidegauge.model.choices import NullCursor as NullCursor
from tidegauge.model.choices import ReadMethod as ReadMethod
from tidegauge.model.choices import WithoutCursor as WithoutCursor
from tidegauge.model.columns import EVERY_COLUMN, ColumnChoice, ColumnMask, RowFilter
from tidegauge.model.engines import Engine as Engine
from tidegauge.model.expectation import Expectation
from tidegauge.model.health import HealthSettings
from tidegauge.model.mode import Mode
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.secret import Secret
from tidegauge.model.spark_settings import SparkSettings as SparkSettings
from tidegauge.model.strategy import Strategy as Strategy
from tidegauge.model.table_name import TableName as TableName
from tidegauge.model.telemetry import Telemetry
from tidegauge.model.unix_times import UnixUnit
from tidegauge.model.workflow import Workflow

if TYPE_CHECKING:
    from tidegauge.model import delta_flow, optimize_flow, view_flow


@dataclass(frozen=True)
class Database:
    name: str
    engine: Engine
    path: Path | None = None
    """SQLite and DuckDB only; absolute."""
    host: str = "127.0.0.1"
    port: int | None = None
    database: str | None = None
    user: str | None = None
    password: Secret | None = None
    schema: str | None = None
    """Schema for names without one and for new tables; None: the engine's default, such as `public`."""
    account: str | None = None
    """Snowflake only, as are `warehouse` and `role`."""
    warehouse: str | None = None
    role: str | None = None
    iam_role: str | None = None
    """Redshift only: the role with which COPY reads the lake; without it the keys below, or the lake's."""
    access_key: Secret | None = None
    secret_key: Secret | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Connection options, already checked against the engine's allow-list."""
    place: Place | None = None


@dataclass(frozen=True)
class Lake:
    """Parquet or Delta tables on a local folder or an S3 bucket."""

    name: str
    path: str
    """An absolute local path, or `s3a://bucket/prefix`; no trailing slash."""
    endpoint: str | None = None
    region: str | None = None
    access_key: Secret | None = None
    secret_key: Secret | None = None
    delta: bool = False
    """Whether it holds Delta tables: those that syncs fill, and those that flows name by path."""
    place: Place | None = None

    @property
    def on_s3(self) -> bool:
        return self.path.startswith("s3a://")


@dataclass(frozen=True)
class TableOptions:
    cursor: str
    """A column, or an expression in the database's own SQL. Empty: none, or only overrides name one."""
    epoch: UnixUnit | None = None
    """`cursor: {column: ts, epoch: ms}`: the unit, if the cursor's numbers are moments."""
    future_guard: FutureGuard = FutureGuard.NOTE
    without_cursor: WithoutCursor = WithoutCursor.FAIL
    key: tuple[str, ...] = ()
    """Key columns; empty: the primary key."""
    settle: timedelta = timedelta(seconds=30)
    lookback: timedelta = timedelta(0)
    initial: str | None = None
    batch_rows: int = 2_000_000
    parallel: int = 2
    null_cursor: NullCursor = NullCursor.FAIL
    ignore_transactions_after: timedelta | None = None
    """`open_transactions: {ignore_after: 1h}`; None: wait for all (`wait`)."""
    types: Mapping[str, str] = field(default_factory=dict)
    """By column, the type it has in the output: `string`, `decimal(p,s)`, `timestamp`, `date`."""
    columns: ColumnChoice = EVERY_COLUMN
    mask: tuple[ColumnMask, ...] = ()
    where: RowFilter | None = None
    keeps_types: bool = False
    """For a flow between two databases of one engine: columns without a Spark type keep their own type."""
    zero_dates: str = "fail"
    """What happens to a MySQL zero date: `fail`, or `null` to read it as NULL."""
    rename: str | None = None
    """The target's name; `{table}` and `{schema}` stand for the source's names. None: the same name."""
    mode: Mode = Mode.MERGE
    drift: Drift = Drift.EVOLVE
    read: ReadMethod = ReadMethod.AUTO
    execute: Execution = Execution.AUTO
    deletes: DeleteMode = DeleteMode.NONE
    deletes_limit: float = 0.3
    """The share of the target's rows that may be deleted at once without confirmation."""
    metadata_columns: bool = False
    distkey: str | None = None
    """Redshift only, like `sortkey`: the layout of a new target. `hybrid` is for Snowflake only."""
    sortkey: tuple[str, ...] = ()
    hybrid: bool = False
    deletion_vectors: bool | None = None
    """Delta tables only; see `model.delta_flow.DeltaTable`."""
    expect: tuple[Expectation, ...] = ()
    place: Place | None = None

    @property
    def snapshot(self) -> bool:
        """Whether the table has no cursor, so that a flow reads it whole each time."""
        return not self.cursor


@dataclass(frozen=True)
class Sync:
    """One entry of `sync:`: patterns over a database's catalogue, and options for every table found."""

    source: Database
    via: Lake | None
    """The lake of a sync with two stages, database → lake → `to`; None: one stage."""
    to: Lake | Database
    tables: tuple[str, ...]
    exclude: tuple[str, ...]
    options: TableOptions
    per_table: Mapping[str, TableOptions]
    """Options by table pattern; each already merged with the defaults of the sync."""
    tags: tuple[str, ...] = ()
    place: Place | None = None
    schedule: FlowSchedule | None = None


@dataclass(frozen=True)
class LakeTable:
    """A table's place in a lake."""

    in_lake: ClassVar[bool] = True
    in_warehouse: ClassVar[bool] = False
    uses_delta: ClassVar[bool] = False
    lake: Lake
    folder: str
    """Path relative to the lake's path, safe on every file system."""

    @property
    def connection(self) -> str:
        return self.lake.name

    def __str__(self) -> str:
        return f"{self.lake.path}/{self.folder}"

    @property
    def on_s3(self) -> bool:
        return self.lake.on_s3


@dataclass(frozen=True)
class WarehouseTable:
    """A table's place in a warehouse."""

    in_lake: ClassVar[bool] = False
    in_warehouse: ClassVar[bool] = True
    on_s3: ClassVar[bool] = False
    uses_delta: ClassVar[bool] = False
    warehouse: Database
    table: TableName

    @property
    def connection(self) -> str:
        return self.warehouse.name

    def __str__(self) -> str:
        return f"{self.warehouse.name}: {self.table}"


@dataclass(frozen=True)
class DeltaFolder:
    """A Delta table's place below a connection."""

    in_lake: ClassVar[bool] = False
    in_warehouse: ClassVar[bool] = False
    uses_delta: ClassVar[bool] = True
    lake: Lake
    folder: str
    """Path relative to the connection's path, safe on every file system."""

    @property
    def connection(self) -> str:
        return self.lake.name

    def __str__(self) -> str:
        return f"{self.lake.path}/{self.folder}"

    @property
    def on_s3(self) -> bool:
        return self.lake.on_s3


class Stage(StrEnum):
    """One of the two flows of a table that goes through a lake. Its flow is named `TABLE/stage`."""

    EXTRACT = "extract"
    LOAD = "load"


@dataclass(frozen=True)
class TableFlow:
    """A flow of one table: database to lake, or from either of them to a warehouse or a Delta table.

    Has the same attributes as a `DeltaFlow`, so that callers need not tell the two apart.
    """

    plans_by_spark: ClassVar[bool] = False
    in_catalogue: ClassVar[bool] = False
    """Whether the output is known only by a name in Spark's catalogue: never, for this kind of flow."""
    pipeline: str
    name: str
    source: Database
    table: TableName
    """The table of the source database, also for a flow that reads its rows from a lake."""
    output: LakeTable | WarehouseTable | DeltaFolder
    options: TableOptions
    tags: tuple[str, ...] = ()
    stage: Stage | None = None
    """The stage; None if the table has only one flow."""
    reads: LakeTable | None = None
    """The other flow's output that this flow reads instead of the database; None: it reads the database."""
    upstream: str | None = None
    """The name of that other flow."""

    @property
    def input(self) -> str:
        """Name of the first input in the ledger."""
        return str(self.table)

    @property
    def label(self) -> str:
        """The flow's name in `verify`; the two stages of a table have the same."""
        return str(self.table)

    @property
    def target(self) -> str:
        """The output's name, for people."""
        return str(self.output)

    @property
    def holds(self) -> str:
        """What the output holds, as messages name it."""
        return "batches" if self.output.in_lake else "rows"

    @property
    def refresh_name(self) -> str:
        """What to select to refresh the flow fully: the whole table for the stage that reads the database."""
        return str(self.table) if self.stage is Stage.EXTRACT else self.name

    @property
    def upstreams(self) -> tuple[str, ...]:
        """Names of the flows whose outputs this flow reads."""
        return (self.upstream,) if self.upstream else ()

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Names of the flows that have to end before this one begins."""
        return self.upstreams

    @property
    def plans_quickly(self) -> bool:
        """Whether a few questions tell what is new, so that one thread may plan many such flows."""
        return not self.uses_delta and self.options.deletes is DeleteMode.NONE

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the flow's work: both for a flow without a stage, but only `extract` into a lake."""
        if self.stage is not None:
            return (self.stage,)
        return (Stage.EXTRACT,) if self.output.in_lake else tuple(Stage)

    @property
    def appends(self) -> bool:
        """Whether rows that are delivered twice are in the output twice."""
        return not self.output.in_lake and self.options.mode.facts.only_adds

    @property
    def on_s3(self) -> bool:
        return self.output.on_s3

    @property
    def uses_delta(self) -> bool:
        """Whether Spark needs Delta's jars for the flow."""
        return self.output.uses_delta

    @property
    def readers(self) -> int:
        """How many readers read one batch in parallel."""
        return self.options.parallel

    def with_readers(self, count: int) -> Self:
        return replace(self, options=replace(self.options, parallel=count))

    @property
    def skip_hint(self) -> str:
        """A hint for when an upstream flow failed; appended to the reason for skipping."""
        return f"; --stage {self.stage} loads what is in the lake already"


@dataclass(frozen=True)
class Project:
    pipeline: str
    file: Path
    ledger: str | Secret
    """Address: `sqlite:////absolute/path`, `postgresql://…`, `mysql://…`; a Secret if it contains one."""
    lease: timedelta
    spark: SparkSettings
    connections: Mapping[str, Database | Lake]
    syncs: tuple[Sync, ...]
    delta_flows: tuple[delta_flow.DeltaFlow, ...] = ()
    """The flows between Delta tables: those of the project file in their order, then those from Python."""
    views: tuple[view_flow.ViewFlow, ...] = ()
    optimizes: tuple[optimize_flow.OptimizeFlow, ...] = ()
    workflow: Workflow | None = None
    health: HealthSettings = field(default_factory=HealthSettings)
    schedule: FlowSchedule | None = None
    """The project's default schedule; a sync or flow can have its own."""
    telemetry: Telemetry = field(default_factory=Telemetry)

    @property
    def root(self) -> Path:
        return self.file.parent
