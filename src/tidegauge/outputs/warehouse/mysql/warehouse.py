"""MySQL and MariaDB as a warehouse.

DDL commits by itself there, so tables are made before a transaction begins. Text is stored in a binary
collation without padding, in which a key is equal only to itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, cast

from tidegauge.errors import OutputError
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.spec import Database, TableName, TableOptions
from tidegauge.model.table import Field
from tidegauge.model.types import parse_decimal
from tidegauge.outputs.warehouse import fit, tasks
from tidegauge.outputs.warehouse import lake_files as lake
from tidegauge.outputs.warehouse.mysql.kept_types import (
    LENGTH,
    TIME,
    fit_through,
    fit_wide,
    is_fine_enough,
    is_long_enough,
)
from tidegauge.outputs.warehouse.mysql.load import (
    LoadSink,
    LoadStatements,
    bring_in,
    choose_hexed,
    takes_local,
)
from tidegauge.outputs.warehouse.mysql.session import DEFAULT_PORT, PLACEHOLDER, MysqlLogin, MysqlSession
from tidegauge.outputs.warehouse.warehouse import (
    LockTimeout,
    StagingTable,
    Warehouse,
    WarehouseColumn,
    WarehouseSession,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST = 64
_BMP = 0xFFFF
_TYPES = {
    "boolean": "tinyint(1)",
    "tinyint": "tinyint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "string": "longtext",
    "binary": "longblob",
    "date": "date",
    "timestamp": "datetime(6)",
    "timestamp_ntz": "datetime(6)",
}
_HELD = {
    "tinyint": "tinyint",
    "smallint": "smallint",
    "mediumint": "",
    "int": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    **dict.fromkeys(("varchar", "tinytext", "text", "mediumtext", "longtext"), "string"),
    **dict.fromkeys(("varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "binary"),
    "date": "date",
    "datetime": "timestamp_ntz",
    "timestamp": "timestamp",
}
_WIDEST, _FINEST = 38, 30
_KEY_LENGTH = 255
"""Length, in characters or bytes, of a key column whose source states none."""
_LONGEST_KEY = 768
"""Most characters of a key column: an index holds 3072 bytes, which is four for each character."""
_COLLATION = "/*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */"
"""Each of the two servers runs its own comment and ignores the other's."""


class MySQL(Warehouse):
    placeholder = PLACEHOLDER
    finds_repeats = True
    takes_tasks = True
    keeps_sessions = True
    ddl_commits = True
    now = "UTC_TIMESTAMP(6)"
    timestamp_type = "datetime(6)"
    text_type = "longtext"
    short = "varchar(64) CHARACTER SET ascii COLLATE ascii_bin"
    boolean_type = "tinyint(1)"
    true = "1"
    false = "0"
    folds_case = True
    loose_keys = True

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._login = MysqlLogin.of(database)

    @property
    def place(self) -> str:
        database = self.database
        return f"mysql://{database.host}:{database.port or DEFAULT_PORT}/{database.database or ''}"

    def connect(self) -> MysqlSession:
        return self._login.connect(self.patience)

    def columns(self, session: WarehouseSession, table: TableName) -> tuple[Field, ...] | None:
        self.table(table)  # Raises our own error for a name that no table can have.
        schema = table.schema or self._login.arguments["database"]
        found = session.rows(
            "SELECT TABLE_TYPE FROM information_schema.TABLES"
            f" WHERE TABLE_SCHEMA = {PLACEHOLDER} AND TABLE_NAME = {PLACEHOLDER}",
            (schema, table.table),
        )
        if not found:
            return None
        if found[0][0] != "BASE TABLE":
            raise OutputError(
                f"{self.database.name}: {table} is a view, which rows cannot be landed in",
                hint="name another table with `rename:`",
            )
        described = session.rows(
            "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, NUMERIC_PRECISION, NUMERIC_SCALE"
            f" FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {PLACEHOLDER}"
            f" AND TABLE_NAME = {PLACEHOLDER} ORDER BY ORDINAL_POSITION",
            (schema, table.table),
        )
        return tuple(
            Field(str(name), _spark_type(str(kind).lower(), str(full).lower(), precision, scale), str(full))
            for name, kind, full, precision, scale in described
        )

    def is_loose(self, session: WarehouseSession, table: TableName) -> bool:
        """Tidegauge's own tables compare bytes; a table that somebody else made may have any collation."""
        found = session.rows(
            f"SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {PLACEHOLDER}"
            f" AND TABLE_NAME = {PLACEHOLDER}"
            " AND COLLATION_NAME NOT LIKE '%nopad_bin' AND COLLATION_NAME NOT LIKE '%0900_bin' LIMIT 1",
            (table.schema or self._login.arguments["database"], table.table),
        )
        return bool(found)

    def tables(self, session: WarehouseSession, schema: str | None, prefix: str) -> list[str]:
        found = session.rows(
            "SELECT TABLE_NAME FROM information_schema.TABLES"
            f" WHERE TABLE_SCHEMA = {PLACEHOLDER} AND LEFT(TABLE_NAME, {len(prefix)}) = {PLACEHOLDER}",
            (schema or self._login.arguments["database"], prefix),
        )
        return [str(name) for (name,) in found]

    def name(self, identifier: str) -> str:
        odd = any(not 0 < ord(char) <= _BMP for char in identifier)
        if odd or len(identifier) > _LONGEST or identifier.endswith(" ") or not identifier:
            raise OutputError(
                f"{self.database.name}: MySQL cannot name anything {identifier[:80]!r}: a name has up to"
                f" {_LONGEST} characters, ends in no space, and holds neither NUL nor anything beyond U+FFFF",
                hint="rename the column at the source, or the table with `rename:`",
            )
        return "`" + identifier.replace("`", "``") + "`"

    def select(self, field: Field) -> str:
        value = self.value(field)
        # The server shows only six digits of a float, but all digits of a double.
        return f"{value} + 0e0" if field.type in ("float", "double") else value

    def type(self, field: Field, *, key: bool) -> str:
        if field.through:
            return field.through
        if size := parse_decimal(field.type):
            if size.scale > _FINEST:
                raise OutputError(
                    f"{self.database.name}: MySQL's decimals have up to {_FINEST} digits behind the point,"
                    f" and the column {field.name} is {field.type}",
                    hint="say how the column shall arrive with `types:`, as `string` or with fewer digits",
                )
            return f"decimal({size.precision},{size.scale})"
        if key and field.type in ("string", "binary"):
            stated = LENGTH.search(field.source_type)
            length = int(stated[1]) if stated else _KEY_LENGTH
            if field.type == "binary":
                return f"varbinary({min(length, 4 * _LONGEST_KEY)})"
            return f"varchar({min(length, _LONGEST_KEY)})"
        return _TYPES[field.type]

    def value(self, field: Field) -> str:
        if not field.through:
            return self.name(field.name)
        if field.type == "binary":
            return f"UNHEX(HEX({self.name(field.name)}))"
        # With as many digits as the source shows.
        value = f"CAST({self.name(field.name)} AS {field.through})" if TIME.fullmatch(field.through) else ""
        return f"CAST({value or self.name(field.name)} AS CHAR)"

    def fit(self, held: Field, field: Field, *, key: bool) -> fit.Fit:
        wanted = self.type(field, key=key)
        plain = held.source_type.lower()
        found = fit_wide(plain, field)
        if found is not None:
            return found
        if field.through and held.type not in ("string", "binary"):
            return fit_through(plain, wanted)
        if held.type == "tinyint" and field.type == "boolean":
            return fit.Fit(fit.FitVerdict.HOLDS)
        if "unsigned" in plain:
            alike = _plain(plain) == _plain(field.source_type)
            return fit.Fit(fit.FitVerdict.HOLDS if alike else fit.FitVerdict.REFUSED)
        enough = is_fine_enough(plain, field)
        if enough is None:
            enough = is_long_enough(held, plain, field)
        if enough is not None:
            return fit.Fit(fit.FitVerdict.HOLDS) if enough else fit.Fit(fit.FitVerdict.WIDEN, wanted)
        found = fit.by_type(held, field, wanted)
        if found.verdict is fit.FitVerdict.WIDEN and wanted == plain:
            return fit.Fit(fit.FitVerdict.HOLDS)  # A key without a stated length cannot be made wider.
        return found

    def differs(self, left: str, right: str) -> str:
        # By value; and text by its bytes too, because a collation may take different texts for equal. Only
        # text has a collation other than binary.
        old, new = (f"CAST(CONVERT({value} USING utf8mb4) AS BINARY)" for value in (left, right))
        return f"(NOT ({left} <=> {right}) OR (COLLATION({left}) <> 'binary' AND NOT ({old} <=> {new})))"

    def create(
        self,
        table: TableName,
        columns: Sequence[WarehouseColumn],
        *,
        key: Sequence[str] = (),
        options: TableOptions | None = None,
    ) -> str:
        made = super().create(table, columns, key=key, options=options)
        return f"{made} ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 {_COLLATION}"

    def widen(self, session: WarehouseSession, table: TableName, column: str, kind: str) -> None:
        """MODIFY drops what is not stated again, so the collation and NOT NULL are repeated."""
        ((null, collation),) = session.rows(
            "SELECT IS_NULLABLE, COLLATION_NAME FROM information_schema.COLUMNS"
            f" WHERE TABLE_SCHEMA = {PLACEHOLDER} AND TABLE_NAME = {PLACEHOLDER}"
            f" AND COLUMN_NAME = {PLACEHOLDER}",
            (table.schema or self._login.arguments["database"], table.table, column),
        )
        if str(collation).startswith("utf8mb4_") and kind.startswith(("varchar", "longtext")):
            kind += f" CHARACTER SET utf8mb4 COLLATE {collation}"
        required = "NOT NULL" if null == "NO" else "NULL"
        session.run(f"ALTER TABLE {self.table(table)} MODIFY COLUMN {self.name(column)} {kind} {required}")

    def update(self, target: TableName, source: str, sets: Sequence[tuple[str, str]], where: str) -> str:
        pairs = ", ".join(f"t.{self.name(column)} = {value}" for column, value in sets)
        return f"UPDATE {self.table(target)} AS t JOIN {source} AS s ON {where} SET {pairs}"

    def delete(self, target: TableName, where: str) -> str:
        return f"DELETE t FROM {self.table(target)} AS t WHERE {where}"

    def hold(self, session: WarehouseSession, name: str) -> bool:
        wait = max(1, round(self.patience))
        ((taken,),) = session.rows(f"SELECT GET_LOCK({PLACEHOLDER}, {wait})", (name,))
        if taken != 1:
            raise LockTimeout("another session makes the table anew")
        cast(MysqlSession, session).holds = True
        return True

    def is_worn(self, session: WarehouseSession) -> bool:
        return cast(MysqlSession, session).holds

    def has_ended(self, session: WarehouseSession) -> bool:
        return cast(MysqlSession, session).has_ended

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
        ours = cast(MysqlSession, session)
        columns = [
            WarehouseColumn(field.name, self.type(field, key=field.name in stage.key))
            for field in stage.fields
        ]
        session.run(self.create(stage.table, [*columns, WarehouseColumn(stage.ordinal, "int")]))
        rows = LoadStatements(
            self.table(stage.table),
            self.name(stage.ordinal),
            tuple(self.name(field.name) for field in stage.fields),
            choose_hexed(schema_of(batch_data.layout)),
            stage.key,
            takes_local(ours),
        )
        few = tasks.read_few(batch_data, spark)
        if few is not None:
            # A connection of its own, because a stream that breaks off ends its connection.
            with closing(self.connect()) as own:
                count = bring_in(own, rows, few)
                own.commit()
        else:
            marks = tasks.make_marks(self, session, stage.table)
            count = tasks.bring(batch_data, LoadSink(self._login, rows, self.table(marks)), spark)
        session.commit()
        return count


def _spark_type(kind: str, full: str, precision: int | None, scale: int | None) -> str:
    if "unsigned" in full:
        return ""
    if kind == "decimal":
        fits = precision is not None and precision <= _WIDEST
        return f"decimal({precision},{scale})" if fits else ""
    return _HELD.get(kind, "")


def _plain(kind: str) -> str:
    """A type without its display width, which newer servers do not show: `bigint unsigned`."""
    return re.sub(r"int\(\d+\)", "int", kind.lower())
