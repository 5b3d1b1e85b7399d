"""What the flows into a warehouse have to be allowed there, so that its catalogue can be asked beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegauge.model.default_schema import default_schema
from tidegauge.model.marks import Marks
from tidegauge.model.mode import Mode
from tidegauge.model.privileges import CREATE, DELETE, DROP, INSERT, SELECT, UPDATE
from tidegauge.model.spec import Deletes, TableFlow, TableName, WarehouseTable
from tidegauge.outputs.warehouse.commits_table import NAME
from tidegauge.outputs.warehouse.quarantine import WarehouseQuarantine
from tidegauge.outputs.warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class TableNeed:
    table: TableName
    verbs: frozenset[str]


@dataclass(frozen=True)
class SchemaNeeds:
    """Of all that is written to one schema."""

    schema: str | None
    made: frozenset[str]
    """What is done to tables that are made on the way, whose names nobody knows beforehand."""
    tables: tuple[TableNeed, ...]


def find_needs(warehouse: Warehouse, flows: Iterable[TableFlow]) -> list[SchemaNeeds]:
    """By schema; without flows of that of the connection."""
    schemas: dict[str | None, list[TableFlow]] = {}
    for flow in flows:
        assert isinstance(flow.output, WarehouseTable)
        schemas.setdefault(flow.output.table.schema or default_schema(warehouse.database), []).append(flow)
    if not schemas:
        schemas[default_schema(warehouse.database)] = []
    return [_needs_of(warehouse, schema, some) for schema, some in schemas.items()]


def _needs_of(warehouse: Warehouse, schema: str | None, flows: Sequence[TableFlow]) -> SchemaNeeds:
    made = {SELECT, INSERT, CREATE, DROP}
    found = [TableNeed(TableName(schema, NAME), frozenset({SELECT, INSERT, UPDATE}))]
    for flow in flows:
        assert isinstance(flow.output, WarehouseTable)
        found.append(TableNeed(flow.output.table, _verbs(flow)))
        if flow.options.expect:
            made |= {UPDATE, DELETE}
            aside = WarehouseQuarantine(warehouse, flow.output.table, flow.pipeline, flow.name)
            found.append(TableNeed(aside.table, frozenset({SELECT, INSERT, DELETE})))
    return SchemaNeeds(schema, frozenset(made), tuple(found))


def _verbs(flow: TableFlow) -> frozenset[str]:
    """What `modes` does to a target."""
    options, facts = flow.options, flow.options.mode.facts
    verbs = {SELECT, INSERT}
    if facts.only_adds:
        return frozenset(verbs)
    verbs.add(UPDATE)
    soft = options.deletes is Deletes.SOFT
    sets_aside = bool(options.expect) and Marks.of(options.expect).sets_aside and not soft
    if options.mode is not Mode.MERGE or options.deletes is Deletes.HARD or sets_aside:
        verbs.add(DELETE)
    return frozenset(verbs)
