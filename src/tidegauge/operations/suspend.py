"""Suspends a flow, a table's flows or a whole pipeline, and resumes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidegauge.errors import ConfigError
from tidegauge.flows.names import is_pattern, table_of
from tidegauge.flows.selection.missing_tables import find_recorded
from tidegauge.flows.selection.select import choose
from tidegauge.ledger.holder import name_holders
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.spec import Project
from tidegauge.model.suspension import ALL, Suspension
from tidegauge.operations.status import suspension_to_json
from tidegauge.sources.connections import SourceConnections


@dataclass(frozen=True)
class SuspendResult:
    flow: str
    """Name of the flow; `*` stands for the pipeline."""
    changed: bool
    suspended: Suspension | None
    """The suspension in force now; None: not suspended."""
    holder: str | None = None
    """The process that runs the flow now and will finish what it has begun, if there is one."""

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "changed": self.changed,
            "suspended": suspension_to_json(self.suspended) if self.suspended else None,
            "held_by": self.holder,
        }


def suspend(project: Project, name: str, *, reason: str) -> list[SuspendResult]:
    """Suspend: no runner starts the flows from now on. Raises ConfigError if the name means nothing."""
    with open_ledger(project.ledger, create=True) as ledger:
        found = _find(project, ledger, name)
        changed = {
            flow: ledger.suspend(project.pipeline, flow, owner=this_process(), reason=reason)
            for flow in found
        }
        return _make_results(project, ledger, changed)


def resume(project: Project, name: str, *, reason: str) -> list[SuspendResult]:
    with open_ledger(project.ledger, create=True) as ledger:
        found = _find(project, ledger, name)
        changed = {
            flow: ledger.resume(project.pipeline, flow, owner=this_process(), reason=reason) for flow in found
        }
        return _make_results(project, ledger, changed)


def _find(project: Project, ledger: Ledger, name: str) -> list[str]:
    """Return the flows that a name means. Asks the database only if ledger and file do not know them."""
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
    return known if _is_whole(known, name) else _ask_database(project, ledger, name)


def _match(name: str, flows: Iterable[str]) -> list[str]:
    return [flow for flow in flows if name in (flow, table_of(flow)) or table_of(flow).endswith(f".{name}")]


def _is_whole(known: list[str], name: str) -> bool:
    """Whether `known` has all flows of the name: a stage that never ran would be missing."""
    stages = [flow for flow in known if table_of(flow) != flow]
    return bool(known) and (name in known or len(stages) != 1)


def _ask_database(project: Project, ledger: Ledger, name: str) -> list[str]:
    with SourceConnections() as sources:
        choice = choose(project, [name], sources, recorded=find_recorded(ledger, project.pipeline))
    for _, error in choice.faults:
        if not choice.all_flows:
            raise error
    return [flow.name for flow in choice.all_flows]


def _make_results(project: Project, ledger: Ledger, changed: dict[str, bool]) -> list[SuspendResult]:
    statuses = {one.flow: one for one in ledger.status(project.pipeline, list(changed))}
    if ALL in changed:
        holders = name_holders(ledger, ledger.status(project.pipeline))
        holder = ", ".join(dict.fromkeys(holders.values())) or None
        suspended = statuses[ALL].suspended if ALL in statuses else None
        return [SuspendResult(ALL, changed[ALL], suspended, holder)]
    holders = name_holders(ledger, statuses.values())
    return [
        SuspendResult(flow, done, statuses[flow].suspended, holders.get(flow))
        for flow, done in changed.items()
        if flow in statuses or done
    ]
