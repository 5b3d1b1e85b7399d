"""PostgreSQL as a warehouse."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tidegauge.errors import OutputError
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.spec import Database, TableName, TableOptions
from tidegauge.model.table import Field
from tidegauge.model.types import parse_decimal
from tidegauge.outputs.warehouse import fit, tasks
from tidegauge.outputs.warehouse import lake_files as lake
from tidegauge.outputs.warehouse.postgresql.load import CopySink, copy_in
from tidegauge.outputs.warehouse.postgresql.session import (
    DEFAULT_PORT,
    PLACEHOLDER,
    PostgresqlLogin,
    PostgresqlSession,
)
from tidegauge.outputs.warehouse.staging import PREFIX
from tidegauge.outputs.warehouse.warehouse import StagingTable, Warehouse, WarehouseColumn, WarehouseSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST = 63
"""Most bytes of a name; the server would silently cut a longer one."""
_TYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
_HELD = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float4": "float",
    "float8": "double",
    "text": "string",
    "varchar": "string",
    "bytea": "binary",
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_TIME_DIGITS = re.compile(r"\((\d)\)")
_WIDEST = 38
_CREATE_LOCK = 0x7469646567617567
"""Number of the advisory lock that sessions hold while they make a table."""


class PostgreSQL(Warehouse):
    placeholder = PLACEHOLDER
    finds_repeats = True
    forgets_stages = True
    takes_tasks = True
    keeps_sessions = True
    now = "(clock_timestamp() AT TIME ZONE 'UTC')"
    timestamp_type = "timestamp(6) without time zone"

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._login = PostgresqlLogin.of(database)

    @property
    def place(self) -> str:
        database = self.database
        name = database.database or database.user
        return f"postgresql://{database.host}:{database.port or DEFAULT_PORT}/{name}"

    def connect(self) -> PostgresqlSession:
        return self._login.connect(self.patience)

    def columns(self, session: WarehouseSession, table: TableName) -> tuple[Field, ...] | None:
        found = session.rows(
            "SELECT c.oid::bigint, c.relkind::text FROM pg_class c"
            f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = {PLACEHOLDER}"
            f" AND c.relname = {PLACEHOLDER} AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            (table.schema or "public", table.table),
        )
        if not found:
            return None
        ((oid, kind),) = found
        if kind not in ("r", "p"):
            raise OutputError(
                f"{self.database.name}: {table} is a view or a foreign table, which rows cannot be landed in",
                hint="name another table with `rename:`",
            )
        described = session.rows(
            "SELECT a.attname, t.typname, format_type(a.atttypid, a.atttypmod)"
            " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
            f" WHERE a.attrelid = {PLACEHOLDER} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            (oid,),
        )
        return tuple(
            Field(str(name), _spark_type(str(plain), str(full)), str(full)) for name, plain, full in described
        )

    def tables(self, session: WarehouseSession, schema: str | None, prefix: str) -> list[str]:
        found = session.rows(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE n.nspname = {PLACEHOLDER} AND starts_with(c.relname::text, {PLACEHOLDER})"
            " AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            (schema or "public", prefix),
        )
        return [str(name) for (name,) in found]

    def name(self, identifier: str) -> str:
        if "\0" in identifier or len(identifier.encode()) > _LONGEST:
            raise OutputError(
                f"{self.database.name}: PostgreSQL cannot name anything {identifier[:80]!r}: a name has up to"
                f" {_LONGEST} bytes, none of them NUL",
                hint="rename the column at the source, or the table with `rename:`",
            )
        return super().name(identifier)

    def type(self, field: Field, *, key: bool) -> str:  # noqa: ARG002 - every type may be part of a key here
        if field.through:
            return field.through
        if size := parse_decimal(field.type):
            return f"numeric({size.precision},{size.scale})"
        return _TYPES[field.type]

    def value(self, field: Field) -> str:
        return f"({self.name(field.name)})::text" if field.through else self.name(field.name)

    def changed(self, left: str, right: str, kind: str) -> str:
        # As text: some types have no equality, and others take different values for equal (1.0 and 1.00).
        return (
            self.differs(f"({left})::text", f"({right})::text")
            if kind == "string"
            else self.differs(left, right)
        )

    def fit(self, held: Field, field: Field, *, key: bool) -> fit.Fit:
        if field.through and held.type != "string":
            return _fit_through(held, field)
        number = parse_decimal(field.type) or field.type in ("tinyint", "smallint", "int", "bigint")
        if held.source_type == "numeric" and number:
            return fit.Fit(fit.FitVerdict.HOLDS)
        rough = _TIME_DIGITS.search(held.source_type) if held.type.startswith("timestamp") else None
        if rough and int(rough[1]) < 6 and held.type == field.type:
            return fit.Fit(fit.FitVerdict.WIDEN, self.type(field, key=key))
        return super().fit(held, field, key=key)

    def create(
        self,
        table: TableName,
        columns: Sequence[WarehouseColumn],
        *,
        key: Sequence[str] = (),
        options: TableOptions | None = None,
    ) -> str:
        made = super().create(table, columns, key=key, options=options)
        if table.table.startswith(PREFIX):
            # Unlogged is half the work; if the server crashes, the rows are loaded again.
            return made.replace("CREATE TABLE", "CREATE UNLOGGED TABLE", 1)
        # IF NOT EXISTS does not see a table that another session is making: sessions go one by one.
        return f"SELECT pg_advisory_xact_lock({_CREATE_LOCK}); {made}"

    def has_ended(self, session: WarehouseSession) -> bool:
        return cast(PostgresqlSession, session).has_ended

    def drop(self, session: WarehouseSession, table: TableName) -> None:
        tasks.drop_with_marks(self, session, table)

    def load(
        self,
        session: WarehouseSession,
        stage: StagingTable,
        batch_data: BatchRows,
        spark: Callable[[], SparkSession],
    ) -> int:
        lake.check(batch_data.files)
        ours = cast(PostgresqlSession, session)
        names = ", ".join(
            self.name(name) for name in (stage.ordinal, *(field.name for field in stage.fields))
        )
        copy = f"COPY {self.table(stage.table)} ({names}) FROM STDIN (FORMAT binary)"
        columns = [
            WarehouseColumn(field.name, self.type(replace(field, through=""), key=field.name in stage.key))
            for field in stage.fields
        ]
        session.run(self.create(stage.table, [*columns, WarehouseColumn(stage.ordinal, "integer")]))
        few = tasks.read_few(batch_data, spark)
        if few is not None:
            rows = copy_in(ours, copy, few, stage.key)
        else:
            marks = tasks.make_marks(self, session, stage.table)
            sink = CopySink(self._login, copy, self.table(marks), stage.key)
            rows = tasks.bring(batch_data, sink, spark)
        self._convert_texts(session, stage)
        session.commit()
        return rows

    def _convert_texts(self, session: WarehouseSession, stage: StagingTable) -> None:
        """Convert the columns that came as text to the types that the target declares."""
        changes = [
            f"ALTER COLUMN {name} TYPE {field.through} USING {name}::{field.through}"
            for field in stage.fields
            if field.through
            for name in (self.name(field.name),)
        ]
        if changes:
            session.run(f"ALTER TABLE {self.table(stage.table)} {', '.join(changes)}")


def _fit_through(held: Field, field: Field) -> fit.Fit:
    if held.source_type == field.through:
        return fit.Fit(fit.FitVerdict.HOLDS)
    if field.through == "numeric" and _NUMERIC.fullmatch(held.source_type):
        return fit.Fit(fit.FitVerdict.WIDEN, field.through)
    return fit.Fit(fit.FitVerdict.REFUSED)


def _spark_type(plain: str, full: str) -> str:
    if match := _NUMERIC.fullmatch(full):
        return f"decimal({match[1]},{match[2]})" if int(match[1]) <= _WIDEST else ""
    return _HELD.get(plain, "")
