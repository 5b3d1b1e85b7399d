"""DuckDB: one file, which one process at a time may open, and which reads Parquet by itself."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from tidegauge.errors import OutputError, RuntimeMissing
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchRows, LakeFile
from tidegauge.model.spec import Database, TableName
from tidegauge.model.table import Field
from tidegauge.model.types import parse_decimal
from tidegauge.outputs.warehouse import lake_files as lake
from tidegauge.outputs.warehouse import staging
from tidegauge.outputs.warehouse.duckdb.session import DuckDBSession, first_line
from tidegauge.outputs.warehouse.file_warehouse import FileWarehouse
from tidegauge.outputs.warehouse.spark_rows import ensure_splits
from tidegauge.outputs.warehouse.warehouse import StagingTable, WarehouseColumn, WarehouseSession
from tidegauge.storage.duckdb_files import DuckDBFile, is_held, open_duckdb, will_write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_TYPES = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
_SPARK = {kind: name for name, kind in _TYPES.items()}
_INDEX_BYTES = 64 * 2**20
"""Bytes of key indexes at which a session is worn. The index of a new key, however small, takes half a
megabyte until the file is closed."""
_LOOK_SECONDS = 2.0
"""Seconds that `look` waits for another process."""
_PATTERN = re.compile(r"[*?\[]")


class DuckDB(FileWarehouse):
    now = "(now() AT TIME ZONE 'UTC')"
    text_type = "VARCHAR"
    short = "VARCHAR"
    key_after = True
    folds_case = True
    keeps_sessions = True
    drops_with_commit = True

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._stage_views: set[str] = set()
        """Names of staging tables that are views, made by this object and not dropped yet."""
        will_write(self._path)

    def connect(self) -> DuckDBSession:
        """Sessions of this process share the open file; it is closed with the last of them."""
        file = self._open(writing=True, patience=self.patience)
        # Without the second setting, a lookup of a missing table searches all names for a similar one.
        file.connection.execute("SET TimeZone = 'UTC'; SET catalog_error_max_schemas = 0")
        return DuckDBSession(file, self._path)

    def look(self) -> None:
        self._open(writing=False, patience=_LOOK_SECONDS).close()

    def _open(self, *, writing: bool, patience: float) -> DuckDBFile:
        try:
            import duckdb
        except ImportError as error:
            raise RuntimeMissing(
                "loading into DuckDB needs the duckdb library", hint="pip install duckdb"
            ) from error
        try:
            if writing:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            return open_duckdb(self._path, writing=writing, patience=patience)
        except (duckdb.Error, OSError) as error:
            raise self.cannot_open(first_line(error), held=is_held(error)) from error

    def columns(self, session: WarehouseSession, table: TableName) -> tuple[Field, ...] | None:
        ours = cast(DuckDBSession, session)
        found = ours.describe(self.table(table))
        if found is None:
            return None
        if self._is_view(ours, table, [name for name, *_ in found]):
            raise OutputError(
                f"{table} in {self.place} is a view", hint="load into another table with `rename:`"
            )
        return tuple(Field(name, _spark_type(kind), kind) for name, kind, *_ in found)

    def find_made(
        self,
        session: WarehouseSession,
        table: TableName,
        made: Sequence[WarehouseColumn],
    ) -> tuple[Field, ...] | None:
        """The columns as made: no other process has the file open, and DuckDB shows types as declared."""
        ours = cast(DuckDBSession, session)
        ours.tables.add(self.table(table))
        return tuple(Field(one.name, _spark_type(one.type), one.type) for one in made)

    def tables(self, session: WarehouseSession, schema: str | None, prefix: str) -> list[str]:
        found = session.rows(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?) UNION ALL"
            " SELECT view_name FROM duckdb_views() WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?)",
            (schema or "main", schema or "main"),
        )
        return [name for (name,) in found if name.startswith(prefix)]

    def type(self, field: Field, *, key: bool) -> str:  # noqa: ARG002
        if size := parse_decimal(field.type):
            return f"DECIMAL({size.precision},{size.scale})"
        return _TYPES[field.type]

    def name(self, identifier: str) -> str:
        if "\0" in identifier or not identifier:
            raise OutputError(
                f"DuckDB has no name {identifier!r}", hint="rename the column, or the table with `rename:`"
            )
        return super().name(identifier)

    def widen(self, session: WarehouseSession, table: TableName, column: str, kind: str) -> None:
        """DuckDB cannot change the type of a column in a key or an index: the table is then made anew."""
        place = (table.schema or "main", table.table)
        keys = session.rows(
            "SELECT constraint_type, constraint_column_names FROM duckdb_constraints() WHERE"
            " database_name = current_database() AND lower(schema_name) = lower(?)"
            " AND lower(table_name) = lower(?) AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')",
            place,
        )
        if not any(column in names for _, names in keys):
            super().widen(session, table, column, kind)
            return
        extras = session.rows(
            "SELECT 1 FROM duckdb_indexes() WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)",
            place,
        )
        if extras or len(keys) > 1:
            raise OutputError(
                f"the key column {column} of {table} cannot become {kind} while the table has other indexes",
                hint="drop them, run again, and make them anew",
            )
        held = self.columns(session, table) or ()
        required = {
            name
            for (name,) in session.rows(
                "SELECT column_name FROM duckdb_columns() WHERE NOT is_nullable AND"
                " database_name = current_database() AND lower(schema_name) = lower(?)"
                " AND lower(table_name) = lower(?)",
                place,
            )
        }
        wider = TableName(table.schema, f"tidegauge_wider_{uuid.uuid4().hex[:12]}")
        columns = [
            WarehouseColumn(f.name, kind if f.name == column else f.source_type, f.name in required)
            for f in held
        ]
        session.run(self.create(wider, columns, key=keys[0][1]))
        session.run(f"INSERT INTO {self.table(wider)} SELECT * FROM {self.table(table)}")
        session.run(f"DROP TABLE {self.table(table)}")
        session.run(f"ALTER TABLE {self.table(wider)} RENAME TO {self.name(table.table)}")

    def declare_key(self, session: WarehouseSession, target: TableName, key: Sequence[str]) -> None:
        ours = cast(DuckDBSession, session)
        found = ours.describe(self.table(target)) or ()
        declared = any(part for *_, part in found)
        # A table of ours has its key columns NOT NULL from the start.
        if key and not declared and {*key} <= {name for name, _, required, _ in found if required}:
            names = ", ".join(map(self.name, key))
            session.rollback()
            session.run(f"ALTER TABLE {self.table(target)} ADD PRIMARY KEY ({names})")
            session.commit()
            ours.count_key(_INDEX_BYTES)

    def is_worn(self, session: WarehouseSession) -> bool:
        return cast(DuckDBSession, session).worn

    def drop(self, session: WarehouseSession, table: TableName) -> None:
        ours = cast(DuckDBSession, session)
        if table.table in self._stage_views:
            session.run(f"DROP VIEW IF EXISTS {self.table(table)}")
            self._stage_views.discard(table.table)
            return
        if staging.is_beside(table):
            # Never a view. Looking up a missing name is slow where there are many tables.
            session.run(f"DROP TABLE IF EXISTS {self.table(table)}")
            return
        found = ours.describe(self.table(table))
        if found is not None:
            view = self._is_view(ours, table, [name for name, *_ in found])
            session.run(f"DROP {'VIEW' if view else 'TABLE'} IF EXISTS {self.table(table)}")

    def _is_view(self, session: DuckDBSession, table: TableName, columns: Sequence[str]) -> bool:
        if "rowid" not in map(str.lower, columns):
            # A table stays a table while this connection keeps other processes out of the file.
            found = self.table(table) not in session.tables and session.is_view(self.table(table))
            if not found:
                session.tables.add(self.table(table))
            return found
        return bool(
            session.rows(
                "SELECT 1 FROM duckdb_views() WHERE database_name = current_database()"
                " AND lower(schema_name) = lower(?) AND lower(view_name) = lower(?)",
                (table.schema or "main", table.table),
            )
        )

    def load(
        self,
        session: WarehouseSession,
        stage: StagingTable,
        batch_data: BatchRows,
        spark: Callable[[], SparkSession],
    ) -> int:
        """Files on this machine are not copied: the staging table is a view of them."""
        assert isinstance(session, DuckDBSession)
        lake.check(batch_data.files)
        if _is_local(batch_data.files):
            return self._make(session, stage, "VIEW", batch_data.files)
        with ensure_splits(batch_data, spark) as brought:
            if _is_local(brought.files):
                return self._make(session, stage, "TABLE", brought.files)
            columns = [WarehouseColumn(field.name, self.type(field, key=False)) for field in stage.fields]
            session.alone(
                self.create(stage.table, [*columns, WarehouseColumn(stage.ordinal, self.integer_type)])
            )
            return session.take_in(self.table(stage.table), _number_rows(brought), _schema(brought))

    def _make(self, session: DuckDBSession, stage: StagingTable, what: str, files: Sequence[LakeFile]) -> int:
        footers = [lake.footer(file) for file in files]
        parts: list[str] = []
        first = 0
        for names, group in groupby(zip(files, footers, strict=True), key=lambda one: _top_names(one[1])):
            paths = [str(lake.local_path(file)) for file, _ in group]
            parts.append(self._select(stage, paths, names, first))
            first += len(paths)
        session.alone(f"CREATE {what} {self.table(stage.table)} AS {' UNION ALL '.join(parts)}")
        if what == "VIEW":
            self._stage_views.add(stage.table.table)
            return sum(footer.num_rows for footer in footers)  # DuckDB, too, counts a file by its footer
        ((rows,),) = session.rows(f"SELECT COUNT(*) FROM {self.table(stage.table)}")
        session.rollback()
        return int(rows)

    def _select(self, stage: StagingTable, paths: Sequence[str], names: tuple[str, ...], first: int) -> str:
        columns = [
            f"CAST({self.name(field.name) if field.name in names else 'NULL'}"
            f" AS {self.type(field, key=False)}) AS {self.name(field.name)}"
            for field in stage.fields
        ]
        listed = ", ".join("'" + _literal(path).replace("'", "''") + "'" for path in paths)
        ordinal = f"CAST(file_index + {first} AS BIGINT) AS {self.name(stage.ordinal)}"
        return (
            f"SELECT {', '.join(columns)}, {ordinal} FROM read_parquet([{listed}], hive_partitioning = false)"
        )


def _number_rows(batch_data: BatchRows) -> Iterator[pa.RecordBatch]:
    """The rows of each split, with the number of the split as the last column."""
    import pyarrow as pa

    schema = _schema(batch_data)
    for number, split in enumerate(batch_data.splits):
        for batch in split.batches():
            ordinals = pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)
            yield pa.RecordBatch.from_arrays([*batch.columns, ordinals], schema=schema)


def _schema(batch_data: BatchRows) -> pa.Schema:
    import pyarrow as pa

    kinds = [*schema_of(batch_data.layout).types, pa.int64()]
    return pa.schema([pa.field(f"c{place}", kind) for place, kind in enumerate(kinds)])


def _is_local(files: Sequence[LakeFile]) -> bool:
    return bool(files) and not any(file.lake.on_s3 or file.first is not None for file in files)


def _top_names(footer: Any) -> tuple[str, ...]:
    return tuple(footer.schema.to_arrow_schema().names)


def _literal(path: str) -> str:
    """A path with its glob characters escaped."""
    return _PATTERN.sub(r"[\g<0>]", path)


def _spark_type(kind: str) -> str:
    if size := parse_decimal(kind):
        return f"decimal({size.precision},{size.scale})"
    return _SPARK.get(kind, "")
