"""What the user asked for, as frozen values. Configuration makes them; every other room only reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from tidegauge.errors import Place
from tidegauge.model.secret import Secret


class Engine(StrEnum):
    SQLITE = "sqlite"
    MYSQL = "mysql"
    POSTGRESQL = "postgresql"


@dataclass(frozen=True)
class TableName:
    """A table as its database names it; `schema` is None where there are none (SQLite)."""

    schema: str | None
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table


@dataclass(frozen=True)
class Database:
    name: str
    engine: Engine
    path: Path | None = None
    """SQLite only; absolute."""
    host: str = "127.0.0.1"
    port: int | None = None
    database: str | None = None
    user: str | None = None
    password: Secret | None = None
    schema: str | None = None
    """Where an unqualified table name lives; PostgreSQL only, `public` unless said."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Already checked against the allow-list of the engine."""
    place: Place | None = None


@dataclass(frozen=True)
class Lake:
    """Parquet on a local folder or an S3 bucket."""

    name: str
    path: str
    """An absolute local path, or `s3a://bucket/prefix`; no trailing slash."""
    endpoint: str | None = None
    region: str | None = None
    access_key: Secret | None = None
    secret_key: Secret | None = None
    place: Place | None = None

    @property
    def on_s3(self) -> bool:
        return self.path.startswith("s3a://")


class NullCursor(StrEnum):
    FAIL = "fail"
    INCLUDE = "include"
    EXCLUDE = "exclude"


@dataclass(frozen=True)
class TableOptions:
    cursor: str
    """A column, or an expression in the database's own SQL. Empty on a sync whose overrides name one each:
    a table that none of them covers has no cursor."""
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
    zero_dates: str = "fail"
    """`fail`, or `null`: what a MySQL zero date becomes."""
    rename: str | None = None
    """`{table}` and `{schema}` stand for the source's names."""
    place: Place | None = None


@dataclass(frozen=True)
class Sync:
    """One entry of `sync:`: patterns over a database's catalogue, and what holds for every table found."""

    source: Database
    output: Lake
    tables: tuple[str, ...]
    exclude: tuple[str, ...]
    options: TableOptions
    override: Mapping[str, TableOptions]
    """By pattern; each already merged with the defaults of the sync."""
    tags: tuple[str, ...] = ()
    place: Place | None = None


@dataclass(frozen=True)
class Flow:
    """One hop of one table: this database table into this lake folder."""

    pipeline: str
    name: str
    source: Database
    table: TableName
    output: Lake
    folder: str
    """Below the lake's path, safe on every file system."""
    options: TableOptions
    tags: tuple[str, ...] = ()

    @property
    def input(self) -> str:
        return str(self.table)


@dataclass(frozen=True)
class SparkSettings:
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """May hold secrets, as Spark's settings do."""


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

    @property
    def root(self) -> Path:
        return self.file.parent
