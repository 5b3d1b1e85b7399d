"""Snowflake, by its own connector: the words in which it differs, and files by PUT and COPY INTO."""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.errors import OutputDisagrees, OutputError, TidegaugeError
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchRows, Split
from tidegauge.model.default_schema import default_schema
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.table import Field
from tidegauge.model.types import holds, parse_decimal
from tidegauge.outputs.warehouse import lake_files as lake
from tidegauge.outputs.warehouse import spark_rows as scratch
from tidegauge.outputs.warehouse.cloud_catalogue import (
    choose_type,
    find_length,
    list_tables,
    no_table_error,
    replace_alias,
)
from tidegauge.outputs.warehouse.fit import Fit, FitVerdict
from tidegauge.outputs.warehouse.snowflake.session import SnowflakeSession
from tidegauge.outputs.warehouse.staging import PREFIX
from tidegauge.outputs.warehouse.warehouse import (
    StagingTable,
    Warehouse,
    WarehouseColumn,
    WarehouseSession,
    WriteConflict,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

NAME_LENGTH = 255
TEXT_LENGTH = 16_777_216

_TYPES = {
    "boolean": "BOOLEAN",
    "tinyint": "NUMBER(3,0)",
    "smallint": "NUMBER(5,0)",
    "int": "NUMBER(10,0)",
    "bigint": "NUMBER(19,0)",
    "float": "FLOAT",
    "double": "FLOAT",
    "date": "DATE",
    "timestamp": "TIMESTAMP_LTZ(6)",
    "timestamp_ntz": "TIMESTAMP_NTZ(6)",
    "binary": "BINARY",
}
_WHOLE = {3: "tinyint", 5: "smallint", 10: "int", 19: "bigint"}
_HELD = {
    "BOOLEAN": "boolean",
    "FLOAT": "double",
    "DATE": "date",
    "TIMESTAMP_LTZ": "timestamp",
    "TIMESTAMP_TZ": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
    "TEXT": "string",
    "BINARY": "binary",
}
_LENGTH = re.compile(r"\((\d+)\)")


class Snowflake(Warehouse):
    """Names are always quoted, so they keep their case, and queries of users have to quote them too.

    A statement that makes or changes a table commits the open transaction; the core runs none inside a
    transaction that matters. Keys are declared, and enforced by hybrid tables only.
    """

    now = "SYSDATE()"
    timestamp_type = "TIMESTAMP_NTZ(6)"
    integer_type = "NUMBER(19,0)"
    text_type = "VARCHAR"
    keys_enforced = False
    ddl_commits = True

    # Sessions

    def connect(self) -> SnowflakeSession:
        return SnowflakeSession.open(self.database, self.patience)

    # What is there

    def columns(self, session: WarehouseSession, table: TableName) -> tuple[Field, ...] | None:
        where = (table.schema or default_schema(self.database), table.table)
        where_it_is = "WHERE table_schema = ? AND table_name = ?"
        found = session.rows(
            f"SELECT table_type FROM information_schema.tables {where_it_is}", where
        ) or session.rows(f"SELECT 'VIEW' FROM information_schema.views {where_it_is}", where)
        if not found:
            return None
        if "TABLE" not in str(found[0][0]):
            raise no_table_error("Snowflake", table, found[0][0])
        described = session.rows(
            "SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale"
            " FROM information_schema.columns WHERE table_schema = ? AND table_name = ?"
            " ORDER BY ordinal_position",
            where,
        )
        return tuple(_field(*row) for row in described)

    def tables(self, session: WarehouseSession, schema: str | None, prefix: str) -> list[str]:
        catalogue = "information_schema.tables"
        return list_tables(session, catalogue, schema or default_schema(self.database), prefix)

    # Words

    def name(self, identifier: str) -> str:
        if not identifier or "\0" in identifier or len(identifier) > NAME_LENGTH:
            raise OutputError(
                f"Snowflake has no name {identifier!r}: names have 1 to {NAME_LENGTH} characters, none NUL",
                hint="rename the column at the source, or the table with `rename:`",
            )
        return super().name(identifier)

    def type(self, field: Field, *, key: bool) -> str:  # noqa: ARG002
        sized = {"string": f"VARCHAR({_characters(field)})"}
        return choose_type("Snowflake", field, _TYPES | sized, decimal="NUMBER")

    def fit(self, held: Field, field: Field, *, key: bool) -> Fit:
        """Text can be made longer, and numbers can get digits before the point; the scale cannot change."""
        wanted = self.type(field, key=key)
        if held.source_type == wanted:
            return Fit(FitVerdict.HOLDS)
        if (held.type, field.type) == ("string", "string"):
            limit = _LENGTH.search(held.source_type)
            fits = limit is None or _characters(field) <= int(limit[1])
            return Fit(FitVerdict.HOLDS) if fits else Fit(FitVerdict.WIDEN, wanted)
        found = super().fit(held, field, key=key)
        if found.verdict is FitVerdict.WIDEN and not _same_scale(held, field):
            return Fit(FitVerdict.NARROW)
        return found

    def widen(self, session: WarehouseSession, table: TableName, column: str, kind: str) -> None:
        session.run(f"ALTER TABLE {self.table(table)} ALTER COLUMN {self.name(column)} SET DATA TYPE {kind}")

    def create(
        self,
        table: TableName,
        columns: Sequence[WarehouseColumn],
        *,
        key: Sequence[str] = (),
        options: TableOptions | None = None,
    ) -> str:
        sql = super().create(table, columns, key=key)
        if table.table.startswith(PREFIX):
            # Nobody restores a staging table, and keeping its past states costs.
            return sql.replace("CREATE TABLE", "CREATE TRANSIENT TABLE", 1)
        if options is not None and options.hybrid:
            return sql.replace("CREATE TABLE", "CREATE HYBRID TABLE", 1)
        return sql

    def update(self, target: TableName, source: str, sets: Sequence[tuple[str, str]], where: str) -> str:
        named = self.table(target)
        pairs = ", ".join(f"{self.name(column)} = {replace_alias(value, named)}" for column, value in sets)
        return f"UPDATE {named} SET {pairs} FROM {source} AS s WHERE {replace_alias(where, named)}"

    def delete(self, target: TableName, where: str) -> str:
        named = self.table(target)
        return f"DELETE FROM {named} WHERE {replace_alias(where, named)}"

    def lock(self, session: WarehouseSession, commits: TableName) -> None:
        """Lock by a row of its own, since there is no LOCK: a DELETE from a table makes every other one wait.

        The transaction's commit removes the row. Two sessions that both made a row do no harm: the later one
        deletes both.
        """
        name = self.table(commits)
        take = f"DELETE FROM {name} WHERE {self.name('flow_key')} = 'lock'"
        if session.run(take):
            return
        names = ", ".join(map(self.name, ("flow_key", "epoch", "seq")))
        session.run(f"INSERT INTO {name} ({names}) VALUES ('lock', -1, -1)")
        session.commit()
        if not session.run(take):
            raise WriteConflict("another session was faster")

    # Bulk

    def load(
        self,
        session: WarehouseSession,
        stage: StagingTable,
        batch_data: BatchRows,
        spark: Callable[[], SparkSession],
    ) -> int:
        columns = [
            WarehouseColumn(one.name, self.type(one, key=one.name in stage.key)) for one in stage.fields
        ]
        session.run(self.create(stage.table, [*columns, WarehouseColumn(stage.ordinal, self.integer_type)]))
        session.commit()
        if batch_data.files:
            lake.check(batch_data.files)
        with (
            scratch.ensure_splits(batch_data, spark) as landed,
            tempfile.TemporaryDirectory(prefix="tidegauge-put-") as top,
        ):
            files = list(_write_files(Path(top), landed))
            return self._copy(session, stage, files) if files else 0

    def _copy(self, session: WarehouseSession, stage: StagingTable, files: Sequence[tuple[Path, int]]) -> int:
        """One PUT for each file into a stage of this session, and one COPY of them all.

        The table between them has columns C0, C1 …: COPY finds columns by name, and users may use any name.
        """
        place = f"TIDEGAUGE_PUT_{uuid.uuid4().hex[:12].upper()}"
        # Named like the staging table, so that it is cleared away with it if this process is killed.
        raw = self.table(TableName(stage.table.schema, f"{stage.table.table}_r"))
        kinds = [*(self.type(one, key=False) for one in stage.fields), self.integer_type]
        columns = [f"C{at}" for at in range(len(kinds))]
        declared = ", ".join(f"{name} {kind}" for name, kind in zip(columns, kinds, strict=True))
        into = ", ".join(self.name(name) for name in (*(one.name for one in stage.fields), stage.ordinal))
        try:
            session.run(f"CREATE TEMPORARY STAGE {place}")
            session.run(f"CREATE TRANSIENT TABLE {raw} ({declared})")
            for path, _ in files:
                session.rows(f"PUT 'file://{path}' @{place} AUTO_COMPRESS = FALSE")
            answers = session.rows(
                f"COPY INTO {raw} FROM @{place}"
                " FILE_FORMAT = (TYPE = PARQUET BINARY_AS_TEXT = FALSE USE_LOGICAL_TYPE = TRUE)"
                " MATCH_BY_COLUMN_NAME = CASE_SENSITIVE"
            )
            _check_loaded(files, answers)
            loaded = session.run(
                f"INSERT INTO {self.table(stage.table)} ({into}) SELECT {', '.join(columns)} FROM {raw}"
            )
            session.commit()
        finally:
            with suppress(TidegaugeError):
                session.rollback()
                session.run(f"DROP TABLE IF EXISTS {raw}")
                session.run(f"DROP STAGE IF EXISTS {place}")
        return loaded


def _check_loaded(files: Sequence[tuple[Path, int]], answers: Sequence[tuple[Any, ...]]) -> None:
    """Raises OutputDisagrees where COPY did not load all rows of a file. `answers`: one row for each file."""
    loaded = {str(row[0]).rpartition("/")[2]: int(row[3]) for row in answers if len(row) > 3}
    for path, rows in files:
        if loaded.get(path.name) != rows:
            raise OutputDisagrees(
                f"Snowflake loaded {loaded.get(path.name, 0)} rows of a file that has {rows}",
                hint="nothing was changed; run again",
            )


def _write_files(top: Path, batch_data: BatchRows) -> Iterator[tuple[Path, int]]:
    """Write each split to a file of its own, with the split's number in every row; yields path and number of
    rows of those that have rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = [*schema_of(batch_data.layout).types, pa.int64()]
    schema = pa.schema([pa.field(f"C{at}", kind) for at, kind in enumerate(kinds)])
    for number, split in enumerate(batch_data.splits):
        path = top / f"{number:06}.parquet"
        rows = 0
        with pq.ParquetWriter(path, schema, compression="snappy") as writer:
            for batch in _number_rows(split, number, schema):
                writer.write_batch(batch)
                rows += batch.num_rows
        if rows:
            yield path, rows


def _number_rows(split: Split, number: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in split.batches():
        ordinal = pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)
        yield pa.RecordBatch.from_arrays([*batch.columns, ordinal], schema=schema)


def _characters(field: Field) -> int:
    length = find_length(field)
    return TEXT_LENGTH if length is None else max(1, min(length, TEXT_LENGTH))


def _same_scale(held: Field, field: Field) -> bool:
    scales = []
    for kind in (held.type, field.type):
        size = parse_decimal(kind)
        scales.append(size.scale if size else 0)
    return scales[0] == scales[1] or holds(held.type, field.type)


def _field(name: str, kind: str, length: int | None, precision: int | None, scale: int | None) -> Field:
    if kind in ("NUMBER", "DECIMAL") and precision is not None:
        whole = _WHOLE.get(int(precision)) if not scale else None
        return Field(name, whole or f"decimal({precision},{scale or 0})", f"NUMBER({precision},{scale or 0})")
    if kind == "TEXT":
        return Field(name, "string", f"VARCHAR({length})" if length else "VARCHAR")
    return Field(name, _HELD.get(kind, ""), kind)
