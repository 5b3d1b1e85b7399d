"""The Spark side of a target: settings of the flow's own session, and statements that create or alter the
table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.delta_log.snapshot import Snapshot
from tidegauge.model.catalogue_name import quote_name
from tidegauge.model.delta_flow import DeltaFlow, DeltaTable, TableRef
from tidegauge.model.types import quote
from tidegauge.outputs.delta.modes import no_rows
from tidegauge.outputs.delta.target import (
    DeltaColumn,
    TargetAlterations,
    TargetColumn,
    list_columns,
    plan_alterations,
    properties_for,
    target_of,
)
from tidegauge.outputs.delta.types import as_sql, literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_SETTINGS = {
    # A file that is gone is an error, never a smaller table.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # Only our own statements add columns.
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parser.escapedStringLiterals": "false",
    # A merge reads its source twice, and Delta would make a copy of it first: we have one already.
    "spark.databricks.delta.merge.materializeSource": "none",
}


def configure(session: SparkSession) -> None:
    """Give a flow's own session the settings that writing needs."""
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)


def name_of(ref: TableRef) -> str:
    """The table as SQL names it."""
    return quote_name(ref.name) if ref.name is not None else f"delta.{quote(str(ref.path))}"


def apply_changes(
    session: SparkSession, ref: TableRef, look: Snapshot | None, schema: StructType, flow: DeltaFlow
) -> TargetAlterations:
    """Create the target, or alter it so that it takes rows of this schema."""
    columns = list_columns(schema, flow.output)
    if look is None:
        _create(session, ref, columns, flow.output)
        return TargetAlterations(tuple(DeltaColumn(one.name, one.name, one.type) for one in columns))
    room = plan_alterations(columns, target_of(look), flow.output, flow.drift)
    for statement in room.statements:
        session.sql(f"ALTER TABLE {name_of(ref)} {statement}")
    return room


def _create(
    session: SparkSession, ref: TableRef, columns: tuple[TargetColumn, ...], output: DeltaTable
) -> None:
    """Create the target. Where two do it at once, the second changes nothing that the first created."""
    spelled = {one.name.casefold(): one.name for one in columns}
    partition_by = [spelled[name.casefold()] for name in output.partition_by]
    properties = properties_for(columns, output)
    declared = ", ".join(f"{quote(one.name)} {as_sql(one.type)}" for one in columns)
    parts = f" PARTITIONED BY ({', '.join(map(quote, partition_by))})" if partition_by else ""
    kept = ", ".join(f"'{name}' = {literal(value, 'string')}" for name, value in properties.items())
    body = f"{name_of(ref)} ({declared}) USING DELTA{parts} TBLPROPERTIES ({kept})"
    if ref.path is None:
        if schema := name_of(ref).rpartition(".")[0]:
            session.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        session.sql(f"CREATE TABLE IF NOT EXISTS {body}")
        return
    try:
        session.sql(f"CREATE TABLE {body}")
    except Exception as refused:
        # The table is there by now, or its folder has other files, such as the marker of an epoch that was
        # opened before. Then a write of no rows creates the table, and leaves an empty file.
        if "ALREADY_EXISTS" not in str(refused) and "NON_EMPTY_LOCATION" not in str(refused):
            raise
        writer = no_rows(session, columns).write.format("delta").mode("append").options(**properties)
        (writer.partitionBy(*partition_by) if partition_by else writer).save(ref.path)
