"""Where a flow's rows come from and go to, with the columns that are known without a Spark job."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidegauge.delta_log.history import histories
from tidegauge.errors import TidegaugeError
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.model.delta_flow import Sql, TableRef
from tidegauge.model.engines import FACTS, SchemaOf
from tidegauge.model.lineage import Dataset, FlowLineage
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.spec import Database, TableFlow, TableName, WarehouseTable
from tidegauge.model.table import Layout
from tidegauge.model.versions import LATEST
from tidegauge.model.view_flow import GraphFlow, WrittenInFlows
from tidegauge.transform.column_lineage import Origins, find_column_lineage

Columns = tuple[tuple[str, str], ...]
"""Names and types."""
_CATALOGUE = "spark"


def describe_lineage(flow: GraphFlow, layout: Layout | None, places: DeltaTableLocator) -> FlowLineage | None:
    """Describe the lineage of a flow; None for an optimize flow, which moves no rows.

    `layout`: the columns of a synced table's last batch; None: there was none.
    """
    if isinstance(flow, TableFlow):
        return _describe_table_flow(flow, layout)
    if isinstance(flow, OptimizeFlow):
        return None
    tables = {part.name: part.table for part in flow.inputs}
    # The empty name stands for the output: no input can have it.
    found = _find_tables({**tables, "": flow.output.table}, places)
    inputs = tuple(_dataset(table, found[name], name) for name, table in tables.items())
    output = _dataset(flow.output.table, found[""], None)
    sql = flow.transform.text if isinstance(flow.transform, Sql) else None
    written = {name.lower(): name for name, _ in output.columns}
    origins = _find_origins(flow, {name: columns for name, (_, columns) in found.items()})
    return FlowLineage(
        inputs, output, sql, {written.get(name.lower(), name): made for name, made in origins.items()}
    )


def _find_origins(flow: WrittenInFlows, columns: Mapping[str, Columns]) -> dict[str, Origins]:
    """By column of the output, the input columns it comes from; empty if unknown (a Python transform)."""
    read = [part.name for part in flow.inputs if not part.for_checks and not part.raw]
    known = {name: [column for column, _ in columns[name]] for name in read}
    if isinstance(flow.transform, Sql):
        return find_column_lineage(flow.transform.text, known)
    if flow.transform is None:
        return {column: ((name, column),) for name, found in known.items() for column in found}
    return {}


def _describe_table_flow(flow: TableFlow, layout: Layout | None) -> FlowLineage:
    fields = layout.fields if layout else ()
    native: Columns = tuple((field.name, field.source_type) for field in fields)
    arrived: Columns = tuple((field.name, field.type) for field in fields)
    if flow.reads is not None:
        source = Dataset(*_place(str(flow.reads)), flow.input, arrived)
    else:
        source = Dataset(*_in_database(flow.source, flow.table), flow.input, native)
    target = flow.output
    if isinstance(target, WarehouseTable):
        output = Dataset(*_in_database(target.warehouse, target.table), None, arrived)
    else:
        output = Dataset(*_place(str(target)), None, arrived)
    return FlowLineage((source,), output, None, {name: ((flow.input, name),) for name, _ in arrived})


def _find_tables(
    tables: Mapping[str, TableRef], places: DeltaTableLocator
) -> dict[str, tuple[str | None, Columns]]:
    """By name, the location and columns of each table, as far as they can be found."""
    located: dict[str, str | None] = {}
    for name, table in tables.items():
        try:
            located[name] = places.find(table)
        except TidegaugeError:
            located[name] = None
    wanted = {
        name: (where, LATEST, tables[name].storage) for name, where in located.items() if where is not None
    }
    answers = histories(wanted) if wanted else {}
    found: dict[str, tuple[str | None, Columns]] = {}
    for name, where in located.items():
        answer = answers.get(name)
        known = answer is not None and not isinstance(answer, TidegaugeError)
        found[name] = (where, _columns(answer.schema) if known else ())  # type: ignore[union-attr]
    return found


def _columns(schema: str) -> Columns:
    fields = json.loads(schema)["fields"]
    return tuple(
        (one["name"], one["type"] if isinstance(one["type"], str) else one["type"]["type"]) for one in fields
    )


def _dataset(table: TableRef, found: tuple[str | None, Columns], name: str | None) -> Dataset:
    where, columns = found
    namespace, called = (_CATALOGUE, str(table)) if where is None else _place(where)
    return Dataset(namespace, called, name, columns)


def _place(path: str) -> tuple[str, str]:
    """Namespace and name of a path, for lineage."""
    if path.startswith("s3a://"):
        bucket, _, key = path.removeprefix("s3a://").partition("/")
        return f"s3://{bucket}", key or "/"
    return "file", path


def _in_database(database: Database, table: TableName) -> tuple[str, str]:
    """Namespace and name of a table in a database, for lineage."""
    facts = FACTS[database.engine]
    word = facts.dataset_word or database.engine.value
    if database.path is not None:
        return f"{word}:{database.path}", str(table)
    if database.account is not None:
        return f"{word}://{database.account}", f"{database.database}.{table}"
    place = f"{word}://{database.host}:{database.port or facts.port}"
    return place, str(table) if facts.schema_of is SchemaOf.DATABASE else f"{database.database}.{table}"
