"""Suspend flows, a table's flows or a whole pipeline, and let them run again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidegauge.errors import ConfigError
from tidegauge.flows.missing_tables import find_recorded
from tidegauge.flows.names import is_pattern, table_of
from tidegauge.flows.select import Sources, choose
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.model.suspension import ALL, Suspension
from tidegauge.operations.status import suspension_to_json


@dataclass(frozen=True)
class SuspendResult:
    flow: str
    """`*` stands for the pipeline."""
    changed: bool
    suspended: Suspension | None
    """As it is now."""
    holder: str | None = None
    """Who is running it at the moment, and ends what it has begun."""

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "changed": self.changed,
            "suspended": suspension_to_json(self.suspended) if self.suspended else None,
            "held_by": self.holder,
        }


def suspend(project: Project, name: str, *, reason: str) -> list[SuspendResult]:
    """From here on no runner begins them. Raises ConfigError for a name that means nothing."""
    with open_ledger(project.ledger, create=True) as ledger:
        found = _find(project, ledger, name)
        changed = {
            flow: ledger.suspend(project.pipeline, flow, owner=this_process(), reason=reason)
            for flow in found
        }
        return _results(project, ledger, changed)


def resume(project: Project, name: str, *, reason: str) -> list[SuspendResult]:
    with open_ledger(project.ledger, create=True) as ledger:
        found = _find(project, ledger, name)
        changed = {
            flow: ledger.resume(project.pipeline, flow, owner=this_process(), reason=reason) for flow in found
        }
        return _results(project, ledger, changed)


def _find(project: Project, ledger: Ledger, name: str) -> list[str]:
    """The flows that a name means. What the ledger or the file knows needs no database."""
    known = _match(name, [one.flow for one in ledger.status(project.pipeline)])
    known += [flow.name for flow in project.delta_flows if flow.name == name and name not in known]
    if name in (project.pipeline, ALL):
        if known:
            raise ConfigError(
                f"'{name}' is the pipeline, and a flow of it too",
                hint=f"say `*` for the pipeline, or give {known[0]} another name",
            )
        return [ALL]
    if any(view.name == name for view in project.views):
        raise ConfigError(
            f"'{name}' is a view, which has no runs to suspend", hint="suspend the flows that it reads"
        )
    if is_pattern(name) or name.startswith("tag:"):
        raise ConfigError(
            f"'{name}' is not a name", hint="name one flow, one table, or the pipeline; `*` is the pipeline"
        )
    return known if _is_whole(known, name) else _ask(project, ledger, name)


def _match(name: str, flows: Iterable[str]) -> list[str]:
    return [flow for flow in flows if name in (flow, table_of(flow)) or table_of(flow).endswith(f".{name}")]


def _is_whole(known: list[str], name: str) -> bool:
    """Whether no stage of a table is missing, as one is that has never run."""
    stages = [flow for flow in known if table_of(flow) != flow]
    return bool(known) and (name in known or len(stages) != 1)


def _ask(project: Project, ledger: Ledger, name: str) -> list[str]:
    with Sources() as sources:
        choice = choose(project, [name], sources, recorded=find_recorded(ledger, project.pipeline))
    for _, error in choice.faults:
        if not choice.all_flows:
            raise error
    return [flow.name for flow in choice.all_flows]


def _results(project: Project, ledger: Ledger, changed: dict[str, bool]) -> list[SuspendResult]:
    statuses = {one.flow: one for one in ledger.status(project.pipeline, list(changed))}
    if ALL in changed:
        running = [one for one in ledger.status(project.pipeline) if one.state is State.RUNNING]
        holder = ", ".join(dict.fromkeys(filter(None, map(_holder, running)))) or None
        suspended = statuses[ALL].suspended if ALL in statuses else None
        return [SuspendResult(ALL, changed[ALL], suspended, holder)]
    return [
        SuspendResult(flow, done, statuses[flow].suspended, _holder(statuses[flow]))
        for flow, done in changed.items()
        if flow in statuses or done
    ]


def _holder(status: FlowStatus) -> str | None:
    if status.state is not State.RUNNING or status.owner is None:
        return None
    return f"{status.owner.actor}, process {status.owner.pid}"
