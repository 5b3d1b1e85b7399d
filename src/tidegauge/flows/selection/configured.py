"""The flows that the project file itself names, without asking a database for its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegauge.flows.names import matches, means, table_named, table_of
from tidegauge.flows.selection.select_words import select_flows
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.spec import Lake, Project, Sync
from tidegauge.model.view_flow import GraphFlow, ViewFlow, WrittenInFlows, in_flows


@dataclass(frozen=True)
class ConfiguredFlow:
    """A flow of `flows:`, or all flows of one sync together."""

    name: str
    words: tuple[str, ...]
    """The words by which `--select` selects it."""
    tags: tuple[str, ...] = ()
    reads: frozenset[str] = frozenset()
    """The names of the entries whose outputs it reads."""
    writes_delta: bool = False
    """Whether it writes Delta tables."""
    in_part: bool = False
    """Whether it is a sync of which only some tables are selected."""


def list_configured_flows(project: Project) -> tuple[ConfiguredFlow, ...]:
    """All flows of the project, in the order of the file; syncs first."""
    syncs = {_name(sync): sync for sync in project.syncs}
    return (
        *(_describe_sync(name, sync) for name, sync in syncs.items()),
        *(_describe_flow(flow, project, syncs) for flow in in_flows(project)),
        *(_describe_optimize(one, syncs) for one in project.optimizes),
    )


def select_configured_flows(project: Project, selection: Sequence[str]) -> tuple[ConfiguredFlow, ...]:
    """The selected flows; for a sync of which only some tables are selected, with just their words."""
    found = list_configured_flows(project)
    if not selection:
        return found
    every: list[GraphFlow] = [*in_flows(project), *project.optimizes]
    delta = {flow.name for flow in select_flows(every, selection)[0]}
    syncs = {_name(sync): sync for sync in project.syncs}
    # No table of a sync may have the name of a flow, so a flow's name cannot mean a table of `tables: *`.
    own = {flow.name for flow in every}
    of_tables = [word for word in selection if word.strip("+") not in own]
    chosen = []
    for one in found:
        if one.name in syncs:
            words = _words_of(syncs[one.name], of_tables)
            chosen += [replace(one, words=words, in_part=words != one.words)] if words else []
        elif one.name in delta:
            chosen.append(one)
    return tuple(chosen)


def _name(sync: Sync) -> str:
    return f"{sync.source.name}: {', '.join(sync.tables)}"


def _describe_sync(name: str, sync: Sync) -> ConfiguredFlow:
    return ConfiguredFlow(
        name, sync.tables, sync.tags, writes_delta=isinstance(sync.to, Lake) and sync.to.delta
    )


def _describe_flow(flow: WrittenInFlows, project: Project, syncs: dict[str, Sync]) -> ConfiguredFlow:
    own = {other.name for other in in_flows(project)}
    reads = {name for name in flow.upstreams if name in own}
    for name, sync in syncs.items():
        above = isinstance(sync.to, Lake) and any(
            f"{part.table.path}/".startswith(f"{sync.to.path}/") for part in flow.inputs
        )
        if above or any(means(sync, table_named(sync.source, word)) for word in set(flow.upstreams) - own):
            reads.add(name)
    writes = not isinstance(flow, ViewFlow)
    return ConfiguredFlow(flow.name, (flow.name,), flow.tags, frozenset(reads), writes_delta=writes)


def _describe_optimize(flow: OptimizeFlow, syncs: dict[str, Sync]) -> ConfiguredFlow:
    filled = {
        name
        for name, sync in syncs.items()
        if isinstance(sync.to, Lake) and sync.to.delta and (not flow.select or _words_of(sync, flow.select))
    }
    return ConfiguredFlow(flow.name, (flow.name,), flow.tags, frozenset(filled.union(flow.upstreams)))


def _words_of(sync: Sync, selection: Sequence[str]) -> tuple[str, ...]:
    """The words that select a sync: its own `tables:`, or the words that mean only some of its tables."""
    found: list[str] = []
    for word in (word.strip("+") for word in selection):
        if word.startswith("tag:"):
            if word.removeprefix("tag:") in sync.tags:
                return sync.tables
        elif means(sync, table_named(sync.source, word)) or any(
            matches(table_named(sync.source, name), table_of(word), sync.source) for name in sync.tables
        ):
            found.append(word)
    return tuple(dict.fromkeys(found))
