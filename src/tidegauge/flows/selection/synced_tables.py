"""Delta tables that syncs fill: link the flows that read them, and refuse other flows that write there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tidegauge.errors import ConfigError, Place
from tidegauge.flows.selection.select_words import select_flows
from tidegauge.model.delta_flow import DataFlow, DeltaFlow, TableRef
from tidegauge.model.location import identify
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.spec import DeltaFolder, Project, TableFlow
from tidegauge.model.view_flow import ViewFlow
from tidegauge.outputs.delta.synced import target_flow

_W = TypeVar("_W", bound=DeltaFlow | ViewFlow)


def link_project(project: Project, flows: Sequence[TableFlow], *, known: bool) -> Project:
    """Return the project, with each flow linked to the syncs' flows that fill what it reads or looks after.

    `known`: all tables of the syncs are known; False if a database could not be asked.
    """
    delta_flows = link_to_syncs(project.delta_flows, flows)
    optimizes = project.optimizes
    if project.syncs and known:
        optimizes = link_optimizes(optimizes, delta_flows, flows)
    views = link_to_syncs(project.views, flows)
    return replace(project, delta_flows=delta_flows, views=views, optimizes=optimizes)


def link_to_syncs(delta_flows: Sequence[_W], flows: Sequence[TableFlow]) -> tuple[_W, ...]:
    """Return the flows, with the syncs' flows that fill their inputs added to their upstreams.

    Raises ConfigError if a flow writes to a table that a sync fills, or a table lies in another's folder.
    """
    filled = {identify(str(flow.output)): flow for flow in flows if flow.uses_delta}
    if not filled:
        return tuple(delta_flows)
    for folder, flow in filled.items():
        _refuse_nesting(folder, flow.name, filled, None)
    made = []
    for delta_flow in delta_flows:
        where = _folder(delta_flow.output.table)
        if where is not None:
            if where in filled:
                raise ConfigError(
                    f"'{delta_flow.name}' of `flows:` and '{filled[where].name}' of `sync:` write one table,"
                    f" {delta_flow.output.table}",
                    hint="a table is written by one flow: give one of them another place",
                    place=delta_flow.output.place,
                )
            _refuse_nesting(where, delta_flow.name, filled, delta_flow.output.place)
        read = (_folder(part.table) for part in delta_flow.inputs)
        more = dict.fromkeys(filled[folder].name for folder in read if folder in filled)
        made.append(replace(delta_flow, upstreams=(*delta_flow.upstreams, *more)))
    return tuple(made)


def link_optimizes(
    optimizes: Sequence[OptimizeFlow], delta_flows: Sequence[DeltaFlow], flows: Sequence[TableFlow]
) -> tuple[OptimizeFlow, ...]:
    """Return the optimize flows, with the selected tables that syncs fill added to those they look after.

    Raises ConfigError for a word that means no flow, and for a table that two optimize flows look after.
    """
    filled = [flow for flow in flows if isinstance(flow.output, DeltaFolder)]
    taken: dict[str, OptimizeFlow] = {}
    made = []
    every: list[DataFlow] = [*filled, *delta_flows]
    for one in optimizes:
        meant, unknown = select_flows(every, one.select)
        if unknown:
            raise ConfigError(
                f"`select` of `{one.name}` means no flow that writes a Delta table: {', '.join(unknown)}",
                hint="name flows that write Delta tables, or their tags",
                place=one.select_place,
            )
        for flow in meant:
            first = taken.setdefault(flow.name, one)
            if first is not one:
                raise ConfigError(
                    f"the flows `{first.name}` at {first.select_place} and `{one.name}` both optimize the"
                    f" table of `{flow.name}`",
                    hint="narrow `select` of one of them: a table is looked after by one flow",
                    place=one.select_place,
                )
        tables = [target_flow(flow) if isinstance(flow, TableFlow) else flow for flow in meant]
        made.append(one.look_after(tables, delta_flows))
    return tuple(made)


def _refuse_nesting(folder: str, name: str, filled: dict[str, TableFlow], place: Place | None) -> None:
    """Refuse a table in the folder of another one: VACUUM of the outer table would delete its files."""
    for other, flow in filled.items():
        if folder != other and (folder.startswith(f"{other}/") or other.startswith(f"{folder}/")):
            raise ConfigError(
                f"the tables of '{name}' and '{flow.name}' lie inside each other ({folder}, {other}), and"
                " cleaning one up would delete the other",
                hint="give each table a folder of its own",
                place=place or flow.options.place,
            )


def _folder(table: TableRef) -> str | None:
    return None if table.path is None else identify(table.path)
