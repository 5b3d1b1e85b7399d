"""Which flows each schedule is for, as far as the project file alone tells."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.spec import Project, Sync
from tidegauge.model.view_flow import ViewFlow


@dataclass(frozen=True)
class ScheduledPart:
    """All flows of a project file under one schedule. They are due together, and run in the graph's order."""

    schedule: FlowSchedule
    project: Project
    """The project, reduced to these flows."""
    names: tuple[str, ...]
    """The names of the flows; for a sync the names and patterns of its `tables:`."""


def find_scheduled(project: Project) -> list[ScheduledPart]:
    """The parts of a project, in the order in which the file first names their schedules."""
    own = [sync.schedule for sync in project.syncs] + [flow.schedule for flow in project.delta_flows]
    # The file's own schedule last: it counts even where only views go by it.
    found = dict.fromkeys(one for one in (*own, project.schedule) if one is not None)
    parts = [_part(project, schedule) for schedule in found]
    return [part for part in parts if part.names]


def digest(parts: Sequence[ScheduledPart]) -> str:
    """A digest of the schedules: two files with the same one schedule the same flows at the same times."""
    lines = sorted(
        f"{part.schedule}\t{_describe(sync)}" for part in parts for sync in part.project.syncs
    ) + sorted(f"{part.schedule}\t{flow.name}" for part in parts for flow in part.project.delta_flows)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _part(project: Project, schedule: FlowSchedule) -> ScheduledPart:
    syncs = tuple(sync for sync in project.syncs if sync.schedule == schedule)
    flows = tuple(flow for flow in project.delta_flows if flow.schedule == schedule)
    views = _views_of(project, {flow.name for flow in flows}, whole=schedule == project.schedule)
    names = [name for sync in syncs for name in sync.tables] + [flow.name for flow in flows]
    # A vacuum has to know all readers of a table, so only a part with all flows has optimize flows.
    whole = syncs == project.syncs and flows == project.delta_flows
    optimizes = project.optimizes if whole else ()
    names += [one.name for one in views] + [one.name for one in optimizes]
    narrowed = replace(project, syncs=syncs, delta_flows=flows, views=views, optimizes=optimizes)
    return ScheduledPart(schedule, narrowed, tuple(dict.fromkeys(names)))


def _views_of(project: Project, flows: set[str], *, whole: bool) -> tuple[ViewFlow, ...]:
    """The views that read from these flows, directly or through other views.

    `whole`: also views that read from no flow; they go by the file's own schedule.
    """
    names = set(flows)
    chosen: dict[str, ViewFlow] = {}
    while True:
        more = [
            view
            for view in project.views
            if view.name not in chosen and (names & set(view.upstreams) or (whole and not view.upstreams))
        ]
        if not more:
            return tuple(view for view in project.views if view.name in chosen)
        chosen |= {view.name: view for view in more}
        names |= {view.name for view in more}


def _describe(sync: Sync) -> str:
    via = sync.via.name if sync.via else None
    return repr((sync.source.name, via, sync.to.name, sorted(sync.tables), sorted(sync.exclude)))
