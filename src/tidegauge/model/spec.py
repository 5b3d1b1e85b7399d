"""What the user asked for, as frozen values. Configuration makes them; every other room only reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from tidegauge.errors import Place
from tidegauge.model.choices import Deletes as Deletes
from tidegauge.model.choices import Drift as Drift
from tidegauge.model.choices import Execute as Execute
from tidegauge.model.choices import FutureGuard as FutureGuard
from tidegauge.model.choices import NullCursor as NullCursor
from tidegauge.model.choices import Read as Read
from tidegauge.model.choices import WithoutCursor as WithoutCursor
from tidegauge.model.columns import EVERY_COLUMN, ColumnChoice, ColumnMask, RowFilter
from tidegauge.model.engines import Engine as Engine
from tidegauge.model.epoch_numbers import Epoch
from tidegauge.model.expectation import Expectation
from tidegauge.model.health import HealthSettings
from tidegauge.model.mode import Mode
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.secret import Secret
from tidegauge.model.spark_settings import SparkSettings as SparkSettings
from tidegauge.model.strategy import Strategy as Strategy
from tidegauge.model.table_name import TableName as TableName
from tidegauge.model.telemetry import Telemetry
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
    """Where a table name without one lives, and where tables land: `public` unless said; `main` in DuckDB."""
    account: str | None = None
    """Snowflake only, as are `warehouse` and `role`."""
    warehouse: str | None = None
    role: str | None = None
    iam_role: str | None = None
    """Redshift only: the role that COPY reads the lake with; else the keys, or those of the lake."""
    access_key: Secret | None = None
    secret_key: Secret | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Already checked against the allow-list of the engine."""
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
    """Delta tables lie below it: those that syncs fill, and those that flows name by their paths."""
    place: Place | None = None

    @property
    def on_s3(self) -> bool:
        return self.path.startswith("s3a://")


@dataclass(frozen=True)
class TableOptions:
    cursor: str
    """A column, or an expression in the database's own SQL. Empty where only overrides name one."""
    epoch: Epoch | None = None
    """`cursor: {column: ts, epoch: ms}`: the cursor's numbers are moments."""
    future_guard: FutureGuard = FutureGuard.NOTE
    without_cursor: WithoutCursor = WithoutCursor.FAIL
    key: tuple[str, ...] = ()
    """Empty: the primary key."""
    settle: timedelta = timedelta(seconds=30)
    lookback: timedelta = timedelta(0)
    initial: str | None = None
    batch_rows: int = 2_000_000
    parallel: int = 2
    null_cursor: NullCursor = NullCursor.FAIL
    ignore_transactions_after: timedelta | None = None
    """`open_transactions: {ignore_after: 1h}`; None is `wait`."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Column → how it shall arrive: `string`, `decimal(p,s)`, `timestamp`, `date`."""
    columns: ColumnChoice = EVERY_COLUMN
    mask: tuple[ColumnMask, ...] = ()
    where: RowFilter | None = None
    keeps_types: bool = False
    """Of a flow from one database into another of its kind: what Spark has no type for arrives as it is."""
    zero_dates: str = "fail"
    """`fail`, or `null`: what a MySQL zero date becomes."""
    rename: str | None = None
    """`{table}` and `{schema}` stand for the source's names."""
    mode: Mode = Mode.MERGE
    drift: Drift = Drift.EVOLVE
    read: Read = Read.AUTO
    execute: Execute = Execute.AUTO
    deletes: Deletes = Deletes.NONE
    deletes_limit: float = 0.3
    """The share of the target's rows that may vanish at once without being confirmed."""
    metadata_columns: bool = False
    distkey: str | None = None
    """Redshift only, as is `sortkey`: how a new target is laid out. `hybrid` is Snowflake's."""
    sortkey: tuple[str, ...] = ()
    hybrid: bool = False
    deletion_vectors: bool | None = None
    """Delta tables only; see `model.delta_flow.DeltaTable`."""
    expect: tuple[Expectation, ...] = ()
    place: Place | None = None

    @property
    def snapshot(self) -> bool:
        """The table has no cursor: a flow reads it whole each time."""
        return not self.cursor


@dataclass(frozen=True)
class Sync:
    """One entry of `sync:`: patterns over a database's catalogue, and what holds for every table found."""

    source: Database
    via: Lake | None
    """Two stages, database → lake → `to`; None: one stage."""
    to: Lake | Database
    tables: tuple[str, ...]
    exclude: tuple[str, ...]
    options: TableOptions
    override: Mapping[str, TableOptions]
    """By pattern; each already merged with the defaults of the sync."""
    tags: tuple[str, ...] = ()
    place: Place | None = None
    schedule: FlowSchedule | None = None


@dataclass(frozen=True)
class LakeTable:
    """A table's place in a lake."""

    in_lake: ClassVar[bool] = True
    uses_delta: ClassVar[bool] = False
    lake: Lake
    folder: str
    """Below the lake's path, safe on every file system."""

    def __str__(self) -> str:
        return f"{self.lake.path}/{self.folder}"

    @property
    def on_s3(self) -> bool:
        return self.lake.on_s3


@dataclass(frozen=True)
class WarehouseTable:
    """A table's place in a warehouse."""

    in_lake: ClassVar[bool] = False
    on_s3: ClassVar[bool] = False
    uses_delta: ClassVar[bool] = False
    warehouse: Database
    table: TableName

    def __str__(self) -> str:
        return f"{self.warehouse.name}: {self.table}"


@dataclass(frozen=True)
class DeltaFolder:
    """A Delta table's place below a connection."""

    in_lake: ClassVar[bool] = False
    uses_delta: ClassVar[bool] = True
    lake: Lake
    folder: str
    """Below the connection's path, safe on every file system."""

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

    Has the same facts under the same names as a `DeltaFlow`, so that nobody has to ask which of them it is.
    """

    plans_by_spark: ClassVar[bool] = False
    in_catalogue: ClassVar[bool] = False
    """Whether its output is known only by a name in Spark's catalogue."""
    pipeline: str
    name: str
    source: Database
    table: TableName
    """Of the database where the rows come from, also for a flow that finds them in a lake."""
    output: LakeTable | WarehouseTable | DeltaFolder
    options: TableOptions
    tags: tuple[str, ...] = ()
    stage: Stage | None = None
    """None where a table has only one flow."""
    reads: LakeTable | None = None
    """The output of another flow, which it reads instead of the database itself."""
    upstream: str | None = None
    """The name of that flow."""

    @property
    def input(self) -> str:
        """The name of its first input in the ledger."""
        return str(self.table)

    @property
    def label(self) -> str:
        """As `verify` names it; the two stages of a table have the same."""
        return str(self.table)

    @property
    def target(self) -> str:
        """Where its rows go, as people read it."""
        return str(self.output)

    @property
    def holds(self) -> str:
        """What is found in its output."""
        return "batches" if self.output.in_lake else "rows"

    @property
    def refresh_name(self) -> str:
        """What to select for a full refresh of it: of the stage that reads the database, the whole table."""
        return str(self.table) if self.stage is Stage.EXTRACT else self.name

    @property
    def upstreams(self) -> tuple[str, ...]:
        """The flows whose outputs it reads."""
        return (self.upstream,) if self.upstream else ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that it does: a flow without a stage does both, but a lake is not loaded."""
        if self.stage is not None:
            return (self.stage,)
        return (Stage.EXTRACT,) if self.output.in_lake else tuple(Stage)

    @property
    def appends(self) -> bool:
        """Whether rows that come again are there twice."""
        return not self.output.in_lake and self.options.mode.facts.only_adds

    @property
    def on_s3(self) -> bool:
        return self.output.on_s3

    @property
    def uses_delta(self) -> bool:
        """Whether Spark needs Delta's jars for it."""
        return self.output.uses_delta

    @property
    def readers(self) -> int:
        """How many read one batch side by side."""
        return self.options.parallel

    def with_readers(self, count: int) -> Self:
        return replace(self, options=replace(self.options, parallel=count))

    @property
    def skip_hint(self) -> str:
        """What can be done where a flow that it reads from failed; goes behind the reason."""
        return f"; --stage {self.stage} loads what is in the lake already"


@dataclass(frozen=True)
class Project:
    pipeline: str
    file: Path
    ledger: str | Secret
    """An address: `sqlite:////absolute/path`, `postgresql://…`, `mysql://…`; a Secret where it holds one."""
    lease: timedelta
    spark: SparkSettings
    connections: Mapping[str, Database | Lake]
    syncs: tuple[Sync, ...]
    delta_flows: tuple[delta_flow.DeltaFlow, ...] = ()
    """The flows between Delta tables, in the order they are written; those in Python after those here."""
    views: tuple[view_flow.ViewFlow, ...] = ()
    optimizes: tuple[optimize_flow.OptimizeFlow, ...] = ()
    workflow: Workflow | None = None
    health: HealthSettings = field(default_factory=HealthSettings)
    schedule: FlowSchedule | None = None
    """Of the file; each sync and flow has its own, or this one."""
    telemetry: Telemetry = field(default_factory=Telemetry)

    @property
    def root(self) -> Path:
        return self.file.parent
