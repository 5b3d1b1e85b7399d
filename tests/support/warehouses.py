"""Warehouses for tests, one for each engine, and rows to load into them.

To add an engine: a name in ENGINES, a branch in `make`, and a `hold` function if it locks in another way.
"""

from __future__ import annotations

import functools
import io
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.servers import S3, Redshift
from tests.support.warehouse_servers import hold_mariadb, hold_postgres, mariadb_database, postgres_database
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchData, BatchRows, KeysToDelete, LakeFile
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.position import FilesPosition, Window
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Database, Engine, Lake, TableFlow, TableName, TableOptions, WarehouseTable
from tidegauge.model.staged import Staged
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse.open import open_warehouse
from tidegauge.outputs.warehouse.output import WarehouseOutput
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseColumn
from tidegauge.transform.mark import mark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = ["redshift", "snowflake", "duckdb", "sqlite", "postgres", "mariadb"]

Hold = Callable[["Yard", TableName], AbstractContextManager[None]]


@dataclass(frozen=True)
class Yard:
    """An empty warehouse, with helpers to load and read it."""

    name: str
    database: Database
    schema: str | None
    hold: Hold = field(repr=False)
    """A context manager in which another session locks a table against writes."""
    land: Callable[[BatchRows], BatchRows] = field(default=lambda batch_data: batch_data, repr=False)
    """Copies a batch's rows to a place from which the engine can load them."""

    def house(self) -> Warehouse:
        return open_warehouse(self.database)

    def table(self, name: str) -> TableName:
        return TableName(self.schema, name)

    def output(self, flow: TableFlow, *, patience: float | None = None) -> WarehouseOutput:
        house = self.house()
        if patience is not None:
            house.patience = patience
        return _LandingOutput(flow, house, self.land)

    def run(self, *statements: str) -> None:
        """Run statements in one transaction."""
        session = self.house().connect()
        try:
            for sql in statements:
                session.run(sql)
            session.commit()
        finally:
            session.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        session = self.house().connect()
        try:
            return [tuple(map(plain, row)) for row in session.rows(sql)]
        finally:
            session.close()

    def create(self, name: str, layout: Layout, *, key: Sequence[str] = ()) -> None:
        """Create a table, as a user might have done before the first load."""
        house = self.house()
        columns = [WarehouseColumn(one.name, house.type(one, key=one.name in key)) for one in layout.fields]
        self.run(house.create(self.table(name), columns, key=key))

    def names(self, *columns: str) -> str:
        return f"({', '.join(map(self.house().name, columns))})"

    def at(self, name: str) -> str:
        """Return the quoted full name of a table."""
        return self.house().table(self.table(name))

    def contents(
        self, name: str, columns: Sequence[str], order: Sequence[str] | None = None
    ) -> list[tuple[Any, ...]]:
        house = self.house()
        listed, by = (", ".join(map(house.name, names)) for names in (columns, order or columns))
        return self.rows(f"SELECT {listed} FROM {self.at(name)} ORDER BY {by}")

    def staging_tables(self) -> list[str]:
        house = self.house()
        session = house.connect()
        try:
            return sorted(house.tables(session, self.schema, "tidegauge_stage_"))
        finally:
            session.close()


class _LandingOutput(WarehouseOutput):
    """An output that first copies rows to a place from which the engine can load them."""

    def __init__(self, flow: TableFlow, house: Warehouse, land: Callable[[BatchRows], BatchRows]) -> None:
        super().__init__(flow, warehouse=house)
        self._land = land

    def stage(self, batch_data: BatchData, spark: Callable[[], SparkSession]) -> Staged:
        landed = self._land(batch_data) if isinstance(batch_data, BatchRows) else batch_data
        return super().stage(landed, spark)


@pytest.fixture(params=ENGINES)
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Yard:
    """An empty warehouse, on each engine in turn."""
    return make(request.param, request, tmp_path)


def make(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Yard:
    match name:
        case "duckdb":
            database = Database("dw", Engine.DUCKDB, path=tmp_path / "made" / "later" / "dw é.duckdb")
            return Yard(name, database, "main", _hold_duckdb)
        case "sqlite":
            database = Database("dw", Engine.SQLITE, path=tmp_path / "made" / "later" / "dw é.db")
            return Yard(name, database, None, _hold_sqlite)
        case "snowflake":
            return _snowflake(request)
        case "redshift":
            return _redshift(request.getfixturevalue("redshift"))
        case "postgres":
            database = postgres_database(request.getfixturevalue("postgres"))
            return Yard(name, database, database.schema, hold_postgres)
        case "mariadb":
            database = mariadb_database(request.getfixturevalue("mariadb"))
            return Yard(name, database, database.database, hold_mariadb)
    raise AssertionError(name)


def _snowflake(request: pytest.FixtureRequest) -> Yard:
    """Make a warehouse in fakesnow: Snowflake's connector on DuckDB, inside this process."""
    request.getfixturevalue("fake_snowflake")
    database = Database(
        "dw",
        Engine.SNOWFLAKE,
        account="test",
        user="tester",
        password=Secret("snow secret"),
        database="DW",
        schema="PUBLIC",
    )
    return Yard("snowflake", database, "PUBLIC", _hold_snowflake)


@contextmanager
def _hold_snowflake(yard: Yard, table: TableName) -> Iterator[None]:
    session = yard.house().connect()
    session.run(f"DELETE FROM {yard.house().table(table)}")
    yield
    session.close()


def _redshift(server: Redshift) -> Yard:
    with server.postgres.connect(_redshift_database(server)) as connection:
        schema = f"s_{uuid.uuid4().hex[:12]}"
        connection.execute(f"CREATE SCHEMA {schema}")
    database = Database(
        "dw",
        Engine.REDSHIFT,
        host=server.host,
        port=server.port,
        database=_redshift_database(server),
        user=server.user,
        password=Secret(server.password),
        schema=schema,
        iam_role=server.iam_role,
        options={"ssl": "disable"},
    )
    bucket = server.s3.create_bucket()
    return Yard(
        "redshift", database, schema, _hold_redshift, lambda batch_data: on_s3(server.s3, bucket, batch_data)
    )


@functools.cache
def _redshift_database(server: Redshift) -> str:
    """Make one database for all tests, which use one schema each: a new database is three hundred files."""
    return server.create_database()


def on_s3(s3: S3, bucket: str, batch_data: BatchRows) -> BatchRows:
    """Write a batch's rows as files of a lake on S3, as an extract would; return the batch with them."""
    if batch_data.files and batch_data.files[0].lake.on_s3:
        return batch_data
    keys = (Secret(s3.access_key), Secret(s3.secret_key))
    lake = Lake("lake", f"s3a://{bucket}/raw é", s3.endpoint, s3.region, *keys)
    client, attempt = s3.client(), uuid.uuid4().hex
    files: list[LakeFile] = []
    for number, split in enumerate(batch_data.splits):
        out = io.BytesIO()
        table = pa.Table.from_batches(split.batches(), schema_of(batch_data.layout))
        pq.write_table(table, out)
        path = f"shop.orders/data/{attempt}/part-{number:05}.parquet"
        client.put_object(Bucket=bucket, Key=f"raw é/{path}", Body=out.getvalue())
        files.append(LakeFile(lake, path, table.num_rows, out.tell()))
    # An extract keeps no empty files.
    kept = [(file, one) for file, one in zip(files, batch_data.splits, strict=True) if file.rows]
    counted = sum(file.rows for file in files)
    return replace(
        batch_data,
        rows=counted if batch_data.rows is None else batch_data.rows,
        files=tuple(file for file, _ in kept),
        splits=tuple(one for _, one in kept),
    )


@contextmanager
def _hold_redshift(yard: Yard, table: TableName) -> Iterator[None]:
    session = yard.house().connect()
    session.run(f"LOCK {yard.house().table(table)}")
    yield
    session.close()


@contextmanager
def _hold_duckdb(yard: Yard, table: TableName) -> Iterator[None]:
    """Lock the DuckDB file from another process, because only another process can lock it."""
    path = str(yard.database.path)
    code = f"import duckdb, sys; c = duckdb.connect({path!r}); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline() == b"held\n"
        yield
        other.stdin.close()
        other.wait(30)


@contextmanager
def _hold_sqlite(yard: Yard, table: TableName) -> Iterator[None]:
    assert yard.database.path
    other = sqlite3.connect(yard.database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.close()


def plain(value: Any) -> Any:
    """Convert a value to a form that is equal on every engine; SQLite has no booleans and dates."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return value.isoformat() if isinstance(value, date) else value


# Rows to load


def layout_of(
    *fields: tuple[str, str] | tuple[str, str, str], key: Sequence[str] = ("id",), cursor: str | None = "at"
) -> Layout:
    """Make a layout from fields given as name, Spark type and, if it matters, the source's type."""
    made = tuple(Field(one[0], one[1], one[2] if len(one) > 2 else one[1]) for one in fields)
    names = {one.name for one in made}
    return Layout(TableName("shop", "orders"), made, tuple(key), "value", cursor if cursor in names else None)


ORDERS = layout_of(("id", "bigint"), ("name", "string"), ("amount", "decimal(12,2)"), ("at", "bigint"))


@dataclass(frozen=True)
class Heap:
    """A split whose rows are in memory."""

    layout: Layout
    rows: tuple[tuple[Any, ...], ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield batch_of(self.layout, self.rows)


def batch_of(layout: Layout, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    schema = schema_of(layout)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(values, one.type) for values, one in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_batch(layout: Layout, *splits: Sequence[tuple[Any, ...]]) -> BatchRows:
    return BatchRows(layout, splits=tuple(Heap(layout, tuple(rows)) for rows in splits))


def keys_to_delete(layout: Layout, *splits: Sequence[tuple[Any, ...]]) -> KeysToDelete:
    return KeysToDelete(layout, splits=read_batch(layout, *splits).splits)


def files_of(folder: Path, layout: Layout, *splits: Sequence[tuple[Any, ...]]) -> BatchRows:
    """Make a batch whose splits are also Parquet files in a local lake."""
    folder.mkdir(parents=True, exist_ok=True)
    lake = Lake("lake", str(folder))
    files = []
    for number, rows in enumerate(splits):
        path = folder / f"part-{number}.parquet"
        pq.write_table(pa.Table.from_batches([batch_of(layout, rows)]), path)
        files.append(LakeFile(lake, path.name, len(rows), path.stat().st_size))
    heaps = tuple(Heap(layout, tuple(rows)) for rows in splits)
    return BatchRows(layout, rows=sum(map(len, splits)), files=tuple(files), splits=heaps)


def flow_of(
    yard: Yard, table: str = "orders", *, name: str = "shop.orders/load", **options: Any
) -> TableFlow:
    source = Database("shop", Engine.SQLITE, path=Path("/nowhere"))
    chosen = replace(TableOptions(cursor="at"), **{"mode": Mode.MERGE, **options})
    return TableFlow(
        "shop",
        name,
        source,
        TableName("shop", "orders"),
        WarehouseTable(yard.database, yard.table(table)),
        chosen,
    )


def no_spark() -> SparkSession:
    raise AssertionError("Spark was asked for")


def batch_to(upto: int, *, nulls: bool = False) -> Batch:
    return Batch((Window(FilesPosition(upto - 1) if upto > 1 else None, FilesPosition(upto)),), nulls=nulls)


def tag_of(flow: TableFlow, seq: int, epoch: int = 0) -> Tag:
    return Tag(flow.pipeline, flow.name, epoch, seq)


@dataclass
class Loader:
    """Loads one batch after the other into a table, as a run does."""

    yard: Yard
    flow: TableFlow
    seq: int = 0
    epoch: int = 0
    place: int | None = None
    """The number of the lake's batch to load; None means the next one each time."""

    def again(self) -> None:
        """Open the target's next epoch, as a reset does: the lake is loaded again, over the existing rows."""
        self.epoch, self.seq = self.epoch + 1, 0
        output = self.yard.output(self.flow)
        output.open_epoch(self.flow.pipeline, self.flow.name, self.epoch, None, "once more")

    def load(self, batch_data: BatchRows) -> Receipt:
        self.seq += 1
        output = self.yard.output(self.flow)
        staged = output.stage(mark_rows(batch_data, self.flow.options.expect), no_spark)
        return output.commit(
            tag_of(self.flow, self.seq, self.epoch),
            replace(batch_to(self.place or self.seq), deletes=isinstance(batch_data, KeysToDelete)),
            staged,
            layout=batch_data.layout,
            run_id=f"run{self.seq}",
        )

    def rows(self, layout: Layout, *splits: Sequence[tuple[Any, ...]]) -> Receipt:
        return self.load(read_batch(layout, *splits))

    def delete(self, layout: Layout, rows: Sequence[tuple[Any, ...]]) -> Receipt:
        """Delete rows by key; for a history each key comes with the time at which it was found missing."""
        return self.load(keys_to_delete(layout, rows))


def loader(yard: Yard, **options: Any) -> Loader:
    return Loader(yard, flow_of(yard, **options))


def counts(receipt: Receipt) -> tuple[int, int | None, int | None, int | None]:
    """Return rows, inserted, updated and deleted."""
    return receipt.rows, receipt.inserted, receipt.updated, receipt.deleted
