"""The privileges that the flows into a warehouse need, so that its catalogue can be asked beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegauge.model.default_schema import default_schema
from tidegauge.model.marks import FailedCheckBits
from tidegauge.model.mode import Mode
from tidegauge.model.privileges import CREATE, DELETE, DROP, INSERT, SELECT, UPDATE
from tidegauge.model.spec import DeleteMode, TableFlow, TableName, WarehouseTable
from tidegauge.outputs.warehouse.commits_table import NAME
from tidegauge.outputs.warehouse.quarantine import WarehouseQuarantine
from tidegauge.outputs.warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class TableNeed:
    table: TableName
    verbs: frozenset[str]


@dataclass(frozen=True)
class SchemaNeeds:
    """The privileges that all flows into one schema need there."""

    schema: str | None
    made: frozenset[str]
    """Verbs that are used on tables made during a run, such as staging tables."""
    tables: tuple[TableNeed, ...]


def find_needs(warehouse: Warehouse, flows: Iterable[TableFlow]) -> list[SchemaNeeds]:
    """The needs in each schema that the flows write to; without flows, those in the connection's schema."""
    schemas: dict[str | None, list[TableFlow]] = {}
    for flow in flows:
        assert isinstance(flow.output, WarehouseTable)
        schemas.setdefault(flow.output.table.schema or default_schema(warehouse.database), []).append(flow)
    if not schemas:
        schemas[default_schema(warehouse.database)] = []
    return [_collect_needs(warehouse, schema, some) for schema, some in schemas.items()]


def _collect_needs(warehouse: Warehouse, schema: str | None, flows: Sequence[TableFlow]) -> SchemaNeeds:
    made = {SELECT, INSERT, CREATE, DROP}
    found = [TableNeed(TableName(schema, NAME), frozenset({SELECT, INSERT, UPDATE}))]
    for flow in flows:
        assert isinstance(flow.output, WarehouseTable)
        found.append(TableNeed(flow.output.table, _find_verbs(flow)))
        if flow.options.expect:
            made |= {UPDATE, DELETE}
            aside = WarehouseQuarantine(warehouse, flow.output.table, flow.pipeline, flow.name)
            found.append(TableNeed(aside.table, frozenset({SELECT, INSERT, DELETE})))
    return SchemaNeeds(schema, frozenset(made), tuple(found))


def _find_verbs(flow: TableFlow) -> frozenset[str]:
    """The verbs that `modes` uses on the flow's target."""
    options, facts = flow.options, flow.options.mode.facts
    verbs = {SELECT, INSERT}
    if facts.only_adds:
        return frozenset(verbs)
    verbs.add(UPDATE)
    soft = options.deletes is DeleteMode.SOFT
    sets_aside = bool(options.expect) and FailedCheckBits.of(options.expect).sets_aside and not soft
    if options.mode is not Mode.MERGE or options.deletes is DeleteMode.HARD or sets_aside:
        verbs.add(DELETE)
    return frozenset(verbs)
