"""Parquet files of a lake into a warehouse, against the warehouse's own bulk load of the same rows."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.servers import Postgres, start_postgres

from bench.result import Result
from bench.timing import Pairs, in_turns
from tidegauge.model.batch_data import BatchRows, LakeFile
from tidegauge.model.plan import Batch, Tag
from tidegauge.model.position import FilesPosition, Window
from tidegauge.model.secret import Secret
from tidegauge.model.spec import (
    Database,
    Engine,
    Lake,
    SparkSettings,
    TableFlow,
    TableName,
    TableOptions,
    WarehouseTable,
)
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse.kept_sessions import kept_open
from tidegauge.outputs.warehouse.output import WarehouseOutput
from tidegauge.spark.session import open_session
from tidegauge.storage.parquet_split import ParquetSplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 2_000_000
TIMES = 3
GOAL_POSTGRESQL = 1.5
GOAL_DUCKDB = 1.3
_FILES = 2
"""As many files as an extraction with two readers writes for a batch."""
_CHANGED = 100
"""The increment has one row for each this many rows of the table."""
_TABLE = "orders"
_FIELDS = {
    "id": "bigint",
    "customer_id": "int",
    "status": "tinyint",
    "quantity": "int",
    "price": "decimal(12,2)",
    "tax": "decimal(18,6)",
    "weight": "double",
    "sku": "string",
    "title": "string",
    "note": "string",
    "created_at": "timestamp_ntz",
    "updated_at": "timestamp_ntz",
}
_LAYOUT = Layout(
    TableName("shop", _TABLE),
    tuple(Field(name, kind, kind) for name, kind in _FIELDS.items()),
    ("id",),
    "timestamp",
    "updated_at",
)
# The same shape of data as `bench.orders` makes inside MariaDB.
_MAKE = """
SELECT n::BIGINT AS id, (n * 7919 % 100003)::INT AS customer_id, (n % 5)::TINYINT AS status,
    (n % 997)::INT AS quantity, (n % 1000000 / 100)::DECIMAL(12,2) AS price,
    CASE WHEN n % 11 > 0 THEN (n % 999983 / 1000)::DECIMAL(18,6) END AS tax,
    CASE WHEN n % 13 > 0 THEN n * 0.37::DOUBLE END AS weight,
    'SKU-' || lpad((n % 50000)::VARCHAR, 8, '0') AS sku, 'Ordered thing no. ' || md5(n::VARCHAR) AS title,
    CASE WHEN n % 3 = 0 THEN repeat('left at the door ' || (n % 101) || '; ', (1 + n % 4)::INT) END AS note,
    TIMESTAMP '2025-01-01' AS created_at,
    TIMESTAMP '2025-01-01 00:00:00.123456' + to_seconds(((n - 1) // 3 + {later})::INT) AS updated_at
FROM range({first}, {last}, {step}) AS numbers(n)
"""


def measure(rows: int = ROWS, *, times: int = TIMES) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # The server reads the files as another user.
        csv = _make(folder, rows)
        spark = open_session(SparkSettings(None, {}), [])
        with start_postgres(options=("max_wal_size=4GB",)) as server:
            bench = _PostgreSQL(server, folder, csv, spark)
            found = [*bench.whole(rows, times), *bench.increment(rows, times)]
        return [*found, _measure_duckdb(folder, rows, times)]


class _PostgreSQL:
    def __init__(self, server: Postgres, folder: Path, csv: Path, spark: SparkSession) -> None:
        self._server, self._folder, self._csv, self._spark = server, folder, csv, spark
        self._database = Database(
            "warehouse",
            Engine.POSTGRESQL,
            host=server.host,
            port=server.port,
            database="postgres",
            user=server.user,
            password=Secret(server.password),
            schema="public",
        )
        ((version,),) = self._run("SHOW server_version")
        self._store = f"postgresql {version}"

    def whole(self, rows: int, times: int) -> list[Result]:
        """Measure a load into a table that does not exist yet: staging, checks, target, key and tag."""

        def ours(_: int) -> float:
            self._run("DROP TABLE IF EXISTS orders, tidegauge_commits", "CHECKPOINT")
            return self._load(1, _list_batch_files(self._folder, "whole"), rows, (rows, 0))

        def reference(_: int) -> float:
            self._run("DROP TABLE IF EXISTS reference", "CHECKPOINT", _REFERENCE)
            took = _measure_seconds(lambda: self._run(f"COPY reference FROM '{self._csv}' (FORMAT csv)"))
            self._run("DROP TABLE reference")
            return took

        pairs = in_turns(times, ours, reference)
        name = f"{rows:,} rows × {len(_FIELDS)} columns, Parquet to PostgreSQL"
        against = "the server's own COPY of a CSV file, into a table with the same key"
        return [_result(name, pairs, GOAL_POSTGRESQL, against, self._store)]

    def increment(self, rows: int, times: int) -> list[Result]:
        """Measure a merge of changed rows into the table that the last turn of `whole` made."""
        share = max(rows // _CHANGED, 2)

        def ours(turn: int) -> float:
            folder = f"changed-{turn}"
            _write_parquet(self._folder / folder, 1, 1, rows, max(rows // (share // 2), 1), later=turn + 1)
            cargo = _list_batch_files(self._folder, folder)
            assert cargo.rows
            return self._load(turn + 2, cargo, cargo.rows, (0, cargo.rows))

        def reference(_: int) -> float:
            self._run("DROP TABLE IF EXISTS reference", _REFERENCE)
            copy = f"COPY reference FROM PROGRAM 'head -n {share // 2} {self._csv}' (FORMAT csv)"
            return _measure_seconds(lambda: self._run(copy))

        pairs = in_turns(times, ours, reference)
        name = f"{share // 2:,} changed rows into {rows:,}, Parquet to PostgreSQL"
        against = "the server's own COPY of as many rows into an empty table, which merges nothing"
        return [_result(name, pairs, None, against, self._store)]

    def _load(self, seq: int, cargo: BatchRows, rows: int, wanted: tuple[int, int]) -> float:
        output = WarehouseOutput(_flow(self._database, "public"))
        return _time_load(output, seq, cargo, lambda: self._spark, rows, wanted)

    def _run(self, *statements: str) -> list[Any]:
        with self._server.connect() as connection:
            for sql in statements:
                found = connection.execute(sql)
            return list(found.fetchall()) if found.description else []


_REFERENCE = """
CREATE TABLE reference (id bigint PRIMARY KEY, customer_id integer, status smallint, quantity integer,
    price numeric(12,2), tax numeric(18,6), weight double precision, sku text, title text, note text,
    created_at timestamp, updated_at timestamp)
"""


def _measure_duckdb(folder: Path, rows: int, times: int) -> Result:
    import duckdb

    def ours(turn: int) -> float:
        place = folder / f"ours-{turn}"
        database = Database("warehouse", Engine.DUCKDB, path=place / "dw.duckdb", schema="main")
        output = WarehouseOutput(_flow(database, "main"))
        with kept_open():  # as a run does
            took = _time_load(output, 1, _list_batch_files(folder, "whole"), _no_spark, rows, (rows, 0))
        shutil.rmtree(place)
        return took

    def reference(turn: int) -> float:
        place = folder / f"reference-{turn}.duckdb"

        def create() -> None:
            with closing(duckdb.connect(str(place))) as connection:
                connection.execute(f"CREATE TABLE orders AS FROM read_parquet('{folder}/whole/*.parquet')")

        took = _measure_seconds(create)
        place.unlink()
        return took

    name = f"{rows:,} rows × {len(_FIELDS)} columns, Parquet to DuckDB"
    against = "DuckDB's own CREATE TABLE AS of the same files, which has no key"
    return _result(
        name, in_turns(times, ours, reference), GOAL_DUCKDB, against, f"duckdb {duckdb.__version__}"
    )


def _time_load(
    output: WarehouseOutput,
    seq: int,
    cargo: BatchRows,
    spark: Callable[[], SparkSession],
    rows: int,
    wanted: tuple[int, int],
) -> float:
    """Load one batch; return the seconds of stage and commit, and raise if the counts are not exact."""
    after = FilesPosition(seq - 1) if seq > 1 else None
    batch = Batch((Window(after, FilesPosition(seq)),))
    began = time.perf_counter()
    staged = output.stage(cargo, spark)
    receipt = output.commit(
        Tag("bench", "orders/load", 0, seq), batch, staged, layout=_LAYOUT, run_id="bench"
    )
    took = time.perf_counter() - began
    if (receipt.rows, receipt.inserted, receipt.updated) != (rows, *wanted):
        raise AssertionError(f"{rows} rows were to be loaded, {wanted} inserted and updated: {receipt}")
    return took


def _flow(database: Database, schema: str) -> TableFlow:
    landing = WarehouseTable(database, TableName(schema, _TABLE))
    return TableFlow("bench", "orders/load", database, _LAYOUT.table, landing, TableOptions("updated_at"))


def _list_batch_files(folder: Path, name: str) -> BatchRows:
    import pyarrow.parquet as pq

    lake = Lake("lake", str(folder))
    files = tuple(
        LakeFile(lake, f"{name}/{path.name}", pq.read_metadata(path).num_rows, path.stat().st_size)
        for path in sorted((folder / name).glob("*.parquet"))
    )
    splits = tuple(ParquetSplit(file, _LAYOUT) for file in files)
    return BatchRows(_LAYOUT, rows=sum(file.rows for file in files), files=files, splits=splits)


def _make(folder: Path, rows: int) -> Path:
    """Write the Parquet files, and the same rows as one CSV file; return the CSV file."""
    import duckdb

    _write_parquet(folder / "whole", _FILES, 1, rows, 1)
    csv = folder / "orders.csv"
    duckdb.sql(f"COPY (FROM read_parquet('{folder}/whole/*.parquet') ORDER BY id) TO '{csv}' (HEADER false)")
    csv.chmod(0o644)
    return csv


def _write_parquet(folder: Path, files: int, first: int, last: int, step: int, *, later: int = 0) -> None:
    import duckdb

    folder.mkdir()
    share = -(-last // files)
    for number in range(files):
        start, end = first + number * share, min(first + (number + 1) * share, last + 1)
        rows = _MAKE.format(first=start, last=end, step=step, later=later)
        duckdb.sql(f"COPY ({rows}) TO '{folder}/part-{number}.parquet' (FORMAT parquet, COMPRESSION snappy)")


def _result(name: str, pairs: Pairs, goal: float | None, against: str, store: str) -> Result:
    return Result(
        name=name,
        ours=pairs.median_ours,
        reference=pairs.median_reference,
        goal=goal,
        unit="s",
        against=against,
        more={
            "times": len(pairs.ours),
            "store": store,
            "each_ours": [round(seconds, 3) for seconds in pairs.ours],
            "each_reference": [round(seconds, 3) for seconds in pairs.reference],
            "spread": round(statistics.pstdev(pairs.ours), 3),
        },
    )


def _measure_seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _no_spark() -> SparkSession:
    raise AssertionError("DuckDB reads files by itself")
