"""Amazon Redshift, by its own driver: the words in which it differs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidegauge.errors import OutputError
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.default_schema import default_schema
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.table import Field
from tidegauge.outputs.warehouse import fit
from tidegauge.outputs.warehouse.cloud_catalogue import (
    choose_type,
    find_length,
    list_tables,
    no_table_error,
    replace_alias,
)
from tidegauge.outputs.warehouse.fit import Fit, FitVerdict
from tidegauge.outputs.warehouse.redshift.session import RedshiftSession
from tidegauge.outputs.warehouse.warehouse import StagingTable, Warehouse, WarehouseColumn, WarehouseSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME_BYTES = 127
VARCHAR_BYTES = 65535
VARBYTE_BYTES = 16_777_216

_BYTES_LENGTH = re.compile(r"(?:var)?binary\s*\((\d+)\)", re.IGNORECASE)
_LENGTH = re.compile(r"\((\d+)\)")
_BLOBS = {"tinyblob": 255, "blob": 65535}

_TYPES = {
    "boolean": "BOOLEAN",
    "tinyint": "SMALLINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE PRECISION",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}
_HELD = {
    "boolean": "boolean",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "real": "float",
    "double precision": "double",
    "date": "date",
    "timestamp with time zone": "timestamp",
    "timestamp without time zone": "timestamp_ntz",
    "character varying": "string",
    "character": "string",
    "binary varying": "binary",
    "varbyte": "binary",
}
_SHORT = {
    "character varying": "varchar",
    "character": "char",
    "binary varying": "varbyte",
    "varbyte": "varbyte",
}


class Redshift(Warehouse):
    """Keys are declared and not enforced there, and writers of a table wait for each other.

    Names keep their case: sessions switch `enable_case_sensitive_identifier` on, without which Redshift folds
    even quoted names.
    """

    now = "SYSDATE"
    timestamp_type = "TIMESTAMP"
    text_type = f"VARCHAR({VARCHAR_BYTES})"
    copies_files = True
    keys_enforced = False

    # Sessions

    def connect(self) -> RedshiftSession:
        return RedshiftSession.open(self.database, self.patience)

    # What is there

    def columns(self, session: WarehouseSession, table: TableName) -> tuple[Field, ...] | None:
        where = (table.schema or default_schema(self.database), table.table)
        found = session.rows(
            "SELECT table_type FROM svv_tables WHERE table_schema = ? AND table_name = ?", where
        )
        if not found:
            return None
        if found[0][0] != "BASE TABLE":
            raise no_table_error("Redshift", table, found[0][0])
        described = session.rows(
            "SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale"
            " FROM svv_columns WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position",
            where,
        )
        return tuple(_field(*row) for row in described)

    def tables(self, session: WarehouseSession, schema: str | None, prefix: str) -> list[str]:
        return list_tables(session, "svv_tables", schema or default_schema(self.database), prefix)

    # Words

    def name(self, identifier: str) -> str:
        if not identifier or "\0" in identifier or len(identifier.encode()) > NAME_BYTES:
            raise OutputError(
                f"Redshift has no name {identifier!r}: names have 1 to {NAME_BYTES} bytes, none of them NUL",
                hint="rename the column at the source, or the table with `rename:`",
            )
        return super().name(identifier)

    def type(self, field: Field, *, key: bool) -> str:  # noqa: ARG002
        sized = {"string": f"VARCHAR({text_bytes(field)})", "binary": f"VARBYTE({_binary_bytes(field)})"}
        return choose_type("Redshift", field, _TYPES | sized, decimal="DECIMAL")

    def fit(self, held: Field, field: Field, *, key: bool) -> Fit:
        """Redshift limits text by bytes, and can change no type in place but to make a VARCHAR longer."""
        if (held.type, field.type) == ("string", "string"):
            wanted, there = text_bytes(field), _length(held) or 0
            if wanted <= there:
                return Fit(FitVerdict.HOLDS)
            if held.source_type.startswith("varchar"):
                return Fit(FitVerdict.WIDEN, f"VARCHAR({wanted})")
            return Fit(FitVerdict.NARROW)
        if (held.type, field.type) == ("binary", "binary"):
            fits = _binary_bytes(field) <= (_length(held) or 0)
            return Fit(FitVerdict.HOLDS if fits else FitVerdict.NARROW)
        return super().fit(held, field, key=key)

    def misfit(self, held: Field, value: str) -> str:
        if held.type in ("string", "binary"):
            return f"OCTET_LENGTH({value}) > {_length(held) or 0}"
        return fit.misfit(held, value)

    def differs(self, left: str, right: str) -> str:
        return (
            f"CASE WHEN {left} IS NULL AND {right} IS NULL THEN FALSE"
            f" WHEN {left} IS NULL OR {right} IS NULL THEN TRUE ELSE {left} <> {right} END"
        )

    def changed(self, left: str, right: str, kind: str) -> str:
        if kind != "string":
            return self.differs(left, right)
        # For Redshift 'b' and 'b ' are equal, so the lengths are compared too.
        lengths = " <> ".join(f"COALESCE(OCTET_LENGTH({side}), -1)" for side in (left, right))
        return f"({self.differs(left, right)} OR {lengths})"

    def create(
        self,
        table: TableName,
        columns: Sequence[WarehouseColumn],
        *,
        key: Sequence[str] = (),
        options: TableOptions | None = None,
    ) -> str:
        sql = super().create(table, columns, key=key)
        if options is None:
            return sql
        names = {column.name for column in columns}
        for word, chosen in (("distkey", options.distkey), *(("sortkey", one) for one in options.sortkey)):
            if chosen is not None and chosen not in names:
                raise OutputError(
                    f"`{word}: {chosen}` names no column of {table}",
                    hint="its columns are: " + ", ".join(column.name for column in columns),
                )
        if options.distkey is not None:
            sql += f" DISTKEY({self.name(options.distkey)})"
        if options.sortkey:
            sql += f" SORTKEY({', '.join(map(self.name, options.sortkey))})"
        return sql

    def widen(self, session: WarehouseSession, table: TableName, column: str, kind: str) -> None:
        assert isinstance(session, RedshiftSession)
        target, old = self.table(table), self.name(column)
        if kind.startswith("VARCHAR"):
            # Not allowed inside a transaction.
            session.commit()
            session.alone(f"ALTER TABLE {target} ALTER COLUMN {old} TYPE {kind}")
            return
        # Other types cannot be changed in place: a new column replaces the old one, at the table's end.
        new = self.name("tidegauge_wider")
        try:
            session.run(f"ALTER TABLE {target} ADD COLUMN {new} {kind}")
            session.run(f"UPDATE {target} SET {new} = {old}")
            session.run(f"ALTER TABLE {target} DROP COLUMN {old}")
            session.run(f"ALTER TABLE {target} RENAME COLUMN {new} TO {old}")
        except OutputError as error:
            if error.retryable:
                raise
            session.rollback()
            raise OutputError(
                f"Redshift cannot make the column {column} of {table} a {kind}: {error.message}",
                hint="it changes no column that is a key or that a view reads: make the table anew, or have"
                " the column arrive as before with `types:`",
            ) from error
        session.commit()

    def delete(self, target: TableName, where: str) -> str:
        """Without an alias, which Redshift's DELETE does not take."""
        named = self.table(target)
        return f"DELETE FROM {named} WHERE {replace_alias(where, named)}"

    def lock(self, session: WarehouseSession, commits: TableName) -> None:
        assert isinstance(session, RedshiftSession)
        session.hold(self.table(commits))

    # Bulk

    def load(
        self,
        session: WarehouseSession,
        stage: StagingTable,
        batch_data: BatchRows,
        spark: Callable[[], SparkSession],  # noqa: ARG002
    ) -> int:
        from tidegauge.outputs.warehouse.redshift.copy import bring

        assert isinstance(session, RedshiftSession)
        return bring(self, session, stage, batch_data)


def text_bytes(field: Field) -> int:
    """Bytes of a text column: four for each character that the source allows; the most there can be where the
    source sets no limit."""
    length = find_length(field)
    return VARCHAR_BYTES if length is None else max(1, min(4 * length, VARCHAR_BYTES))


def _binary_bytes(field: Field) -> int:
    declared = field.source_type.strip().lower()
    if match := _BYTES_LENGTH.fullmatch(declared):
        return max(1, min(int(match[1]), VARBYTE_BYTES))
    return _BLOBS.get(declared, VARBYTE_BYTES)


def _length(held: Field) -> int | None:
    match = _LENGTH.search(held.source_type)
    return int(match[1]) if match else None


def _field(name: str, kind: str, length: int | None, precision: int | None, scale: int | None) -> Field:
    if kind == "numeric":
        return Field(name, f"decimal({precision},{scale})", f"numeric({precision},{scale})")
    if kind in _SHORT:
        return Field(name, _HELD[kind], f"{_SHORT[kind]}({length or VARBYTE_BYTES})")
    return Field(name, _HELD.get(kind, ""), kind)
