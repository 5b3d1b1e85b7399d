"""Make flows from the patterns of syncs and the databases' catalogues, and pick those that are selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tidegauge.errors import ConfigError, Place, TidegaugeError
from tidegauge.flows.names import matches, stage_flow, table_named, table_of
from tidegauge.flows.selection.missing_tables import RecordedFlows, find_missing
from tidegauge.flows.selection.named_tables import (
    explain_unmatched,
    find_named_views,
    find_unmatched,
    pick_tables,
    refuse_unmatched,
)
from tidegauge.flows.selection.select_words import no_data_error, nothing_selected_error, select_flows
from tidegauge.flows.selection.synced_tables import link_project
from tidegauge.flows.selection.without_cursor import is_read, options_of, order_tables, refuse_tables
from tidegauge.model.default_schema import default_schema
from tidegauge.model.delta_flow import DataFlow, DeltaFlow
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.spec import (
    Database,
    DeltaFolder,
    Lake,
    LakeTable,
    Project,
    Stage,
    Sync,
    TableFlow,
    TableName,
    TableOptions,
    WarehouseTable,
)
from tidegauge.model.view_flow import GraphFlow, ViewFlow, WithoutData, WrittenInFlows, in_flows
from tidegauge.sources.connections import SourceConnections
from tidegauge.storage.folder import folder_name

_W = TypeVar("_W", bound=DeltaFlow | ViewFlow | OptimizeFlow)


@dataclass(frozen=True)
class Selection:
    """What the words of a selection mean in a project."""

    flows: tuple[TableFlow, ...]
    delta_flows: tuple[DeltaFlow, ...]
    faults: tuple[tuple[str, TidegaugeError], ...]
    """Errors to report, each with a name for it: of syncs whose tables are not known, and of names that mean
    no table."""
    missing: Mapping[str, TidegaugeError] = field(default_factory=dict)
    """By flow, the error of a table that its database no longer shows."""
    views: tuple[ViewFlow, ...] = ()
    """The selected views; empty for commands that do nothing with them."""
    optimizes: tuple[OptimizeFlow, ...] = ()
    """The selected optimize flows; empty for commands that do nothing with them."""
    refused: tuple[TableFlow, ...] = ()
    """The flows of tables that lack a cursor or a key. Their errors are in `faults`."""

    @property
    def all_flows(self) -> tuple[DataFlow, ...]:
        return (*self.flows, *self.delta_flows)

    @property
    def without_data(self) -> tuple[WithoutData, ...]:
        return (*self.views, *self.optimizes)


def choose(
    project: Project,
    selection: Sequence[str],
    sources: SourceConnections,
    *,
    stage: Stage | None = None,
    recorded: RecordedFlows | None = None,
    views: bool = False,
) -> Selection:
    """Find the flows of the project that are selected; all of them without a selection.

    `stage`: leave out the other stage of tables that have two. `recorded`: the flows with a watermark; if
    such a flow's table is gone, the flow still belongs to the project. A database that cannot be reached, or
    a name that means no table, becomes a fault: the other flows still run. Without `views`, views and
    optimize flows are left out, and a selection of nothing else raises ConfigError.
    """
    found = _Found()
    for sync in project.syncs:
        found.add_sync(project.pipeline, sync, selection, sources, recorded or {})
    found.add_lost(project.pipeline)
    for one in in_flows(project):
        found.check_apart(one)
    for optimize in project.optimizes:
        found.check_name(optimize)
    project = link_project(project, tuple(found.flows.values()), known=not found.faults)
    choice = found.select(project, selection, stage)
    if not views and selection and choice.without_data and not choice.all_flows and not choice.faults:
        raise no_data_error(choice.without_data)
    return choice if views else replace(choice, views=(), optimizes=())


@dataclass
class _Found:
    """Collects the flows of a project's tables."""

    flows: dict[str, TableFlow] = field(default_factory=dict)
    places: dict[tuple[str | None, ...], TableFlow] = field(default_factory=dict)
    """The same flows, by where they write."""
    origins: dict[str, Place | None] = field(default_factory=dict)
    """By flow, the place of its sync in the project file."""
    faults: list[tuple[str, TidegaugeError]] = field(default_factory=list)
    lost: list[tuple[Sync, TableName, TidegaugeError]] = field(default_factory=list)
    """Tables that their database no longer shows."""
    errors: dict[str, TidegaugeError] = field(default_factory=dict)
    """By flow, the error of such a table."""
    refused: list[TableFlow] = field(default_factory=list)

    def add_sync(
        self,
        pipeline: str,
        sync: Sync,
        selection: Sequence[str],
        sources: SourceConnections,
        recorded: RecordedFlows,
    ) -> None:
        try:
            source = sources.of(sync.source)
            catalogue = source.tables()
            catalogue = (*catalogue, *find_named_views(sync, source, catalogue))
            lost = find_missing(sync, source, catalogue, recorded)
            ordered = order_tables(sync, source, pick_tables(sync, catalogue), recorded)
        except ConfigError:
            raise
        except TidegaugeError as error:
            self.faults.append((f"{sync.source.name}: {', '.join(sync.tables)}", error))
            return
        # A table that the file neither gives a cursor nor reads whole was taken out by the user.
        self.lost += [(sync, table, why) for table, why in lost.items() if is_read(sync, table)]
        self.faults += [
            (f"{sync.source.name}: {name}", explain_unmatched(sync, name, source, catalogue))
            for name in find_unmatched(sync, (*catalogue, *lost))
            if _asks_for(selection, sync, name)
        ]
        refused = [table for table in ordered.refused if _asks_for(selection, sync, str(table))]
        if refused:
            self.faults.append(
                (f"{sync.source.name}: without a cursor", refuse_tables(sync, source, ordered))
            )
            self.refused += [
                flow for table in refused for flow in _flows(pipeline, sync, table, options_of(sync, table))
            ]
        for table, options in ordered.options.items():
            for flow in _flows(pipeline, sync, table, options):
                self.add(flow, sync)

    def add(self, flow: TableFlow, sync: Sync) -> None:
        place = _place(flow)
        twin = self.flows.get(flow.name) or self.places.get(place)
        if twin is not None:
            raise ConfigError(
                f"'{flow.name}' and '{twin.name}', of the sync at {self.origins.get(twin.name)}, would be one"
                " flow, or write to one place",
                hint="narrow `tables`, or tell them apart with `rename`",
                place=sync.place,
            )
        self.flows[flow.name] = self.places[place] = flow
        self.origins[flow.name] = sync.place

    def select(self, project: Project, selection: Sequence[str], stage: Stage | None) -> Selection:
        every: list[GraphFlow] = [*self.flows.values(), *in_flows(project), *project.optimizes]
        meant, unknown = select_flows(every, selection)
        names = {flow.name for flow in meant if stage is None or stage in flow.stages}
        if (unknown or ((selection or stage) and not names)) and not self.faults:
            raise nothing_selected_error(unknown or selection, stage, [flow.name for flow in every])
        chosen = [self.flows[name] for name in sorted(names & set(self.flows))]
        return Selection(
            tuple(chosen),
            _pick(project.delta_flows, names),
            tuple(self.faults),
            self.errors_of(chosen),
            _pick(project.views, names),
            _pick(project.optimizes, names),
            tuple(self.refused),
        )

    def check_apart(self, delta_flow: WrittenInFlows) -> None:
        """Refuse a flow of `flows:` that has the name or the output of a sync's flow."""
        twin = next((flow for flow in self.flows.values() if flow.target == delta_flow.target), None)
        if twin is not None:
            raise ConfigError(
                f"'{twin.name}' of `sync:` at {self.origins.get(twin.name)} and '{delta_flow.name}' of"
                f" `flows:` write one table, {delta_flow.target}",
                hint="a table is written by one flow: give one of them another output",
                place=delta_flow.output.place,
            )
        self.check_name(delta_flow)

    def check_name(self, flow: WrittenInFlows | OptimizeFlow) -> None:
        """Refuse a flow of `flows:` that has the name of a sync's flow."""
        if flow.name in self.flows:
            raise ConfigError(
                f"'{flow.name}' is a flow of `sync:`, at {self.origins.get(flow.name)}, and one of `flows:`",
                hint="give one of them another name",
                place=flow.place,
            )

    def errors_of(self, flows: Sequence[TableFlow]) -> dict[str, TidegaugeError]:
        return {flow.name: self.errors[flow.name] for flow in flows if flow.name in self.errors}

    def add_lost(self, pipeline: str) -> None:
        """Add the flows of tables that are gone, with their errors, unless other flows took their place."""
        for sync, table, why in self.lost:
            for flow in _flows(pipeline, sync, table, options_of(sync, table)):
                # Another flow has this name or place now, and reports its own errors.
                if flow.name in self.flows or (flow.reads is not None and _place(flow) in self.places):
                    break
                self.flows[flow.name] = flow
                if flow.reads is None:
                    self.errors[flow.name] = why


def _pick(flows: Sequence[_W], names: Set[str]) -> tuple[_W, ...]:
    return tuple(sorted((one for one in flows if one.name in names), key=lambda one: one.name))


def expand(pipeline: str, sync: Sync, catalogue: Sequence[TableName]) -> list[TableFlow]:
    """The flows of one sync over a given catalogue. Raises TableMissing for a name that means no table."""
    for name in find_unmatched(sync, catalogue):
        raise refuse_unmatched(sync, name, catalogue)
    return [
        flow
        for table in pick_tables(sync, catalogue)
        for flow in _flows(pipeline, sync, table, options_of(sync, table))
    ]


def _flows(pipeline: str, sync: Sync, table: TableName, options: TableOptions) -> list[TableFlow]:
    name = str(table)
    below = folder_name(_find_new_name(options, table) or name)
    folder = LakeTable(sync.via, below) if sync.via else None
    target = _target(sync.to, below, _find_new_name(options, table) or table.table)
    if folder is None:
        if isinstance(target, WarehouseTable) and sync.to == sync.source and target.table == table:
            raise ConfigError(
                f"{name}: source and target are the same table",
                hint="give the target another name with `rename`, or name another connection in `to`",
                place=sync.place,
            )
        alike = isinstance(target, WarehouseTable) and target.warehouse.engine is sync.source.engine
        kept = replace(options, keeps_types=alike)
        return [TableFlow(pipeline, name, sync.source, table, target, kept, sync.tags)]
    extract, load = (stage_flow(table, stage) for stage in Stage)
    as_it_is = replace(options, expect=())
    return [
        TableFlow(pipeline, extract, sync.source, table, folder, as_it_is, sync.tags, Stage.EXTRACT),
        TableFlow(
            pipeline, load, sync.source, table, target, options, sync.tags, Stage.LOAD, folder, extract
        ),
    ]


def _target(to: Database | Lake, folder: str, name: str) -> LakeTable | WarehouseTable | DeltaFolder:
    if isinstance(to, Database):
        return WarehouseTable(to, target_name(to, name))
    return DeltaFolder(to, folder) if to.delta else LakeTable(to, folder)


def _find_new_name(options: TableOptions, table: TableName) -> str | None:
    """The name that `rename` gives the table's target; None without `rename`."""
    if not options.rename:
        return None
    return options.rename.replace("{table}", table.table).replace("{schema}", table.schema or "")


def target_name(database: Database, name: str) -> TableName:
    return TableName(default_schema(database), name)


def _place(flow: TableFlow) -> tuple[str | None, ...]:
    """Where a flow writes, as a key: two flows must not have the same. Warehouses may ignore letter case."""
    match flow.output:
        case WarehouseTable(warehouse, table):
            return (warehouse.name, table.schema, table.table.casefold())
        case LakeTable(lake, folder) | DeltaFolder(lake, folder):
            return (lake.path, folder)


def _asks_for(selection: Sequence[str], sync: Sync, name: str) -> bool:
    """Whether the selection may mean a table of `tables:` that has no flow, so that its error is reported."""
    table = table_named(sync.source, name)
    return not selection or any(
        word.removeprefix("tag:") in sync.tags
        if word.startswith("tag:")
        else word == name or matches(table, table_of(word), sync.source)
        for word in (word.strip("+") for word in selection)
    )
