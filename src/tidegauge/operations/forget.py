"""Forgets flows whose tables are gone for good: removes their watermarks, and leaves their outputs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegauge.errors import ConfigError, SourceUnreachable, TidegaugeError
from tidegauge.flows.load import has_caught_up
from tidegauge.flows.names import is_pattern, means, table_named
from tidegauge.flows.override.preview import name_plan
from tidegauge.flows.selection.missing_tables import find_recorded
from tidegauge.flows.selection.select import Selection, choose
from tidegauge.ledger.holder import name_holders
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.by_flow import gather_by_flow
from tidegauge.model.position import Position, to_json
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project, TableFlow
from tidegauge.model.watermark import Watermark
from tidegauge.operations.status import is_hidden, is_wanted
from tidegauge.sources.connections import SourceConnections


@dataclass(frozen=True)
class ForgetPreview:
    """What would be forgotten about one flow."""

    flow: str
    why: str
    """Why it may be forgotten."""
    positions: Mapping[str, Position | None]
    """The watermarks by input."""
    supersedes: str | None = None
    """Description of the plan that would end unfinished, if there is one."""
    holder: str | None = None
    """The process that holds the flow now and would lose it, if there is one."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "why": self.why,
            "from": {name: to_json(position) for name, position in self.positions.items()},
            "supersedes": self.supersedes,
            "held_by": self.holder,
            "notes": list(self.notes),
        }


def preview_forget(project: Project, selection: Sequence[str]) -> list[ForgetPreview]:
    """Show what would be forgotten, by flow. Changes nothing.

    Raises ConfigError for a flow that the file names and whose table exists: the next run would add it again.
    """
    with open_ledger(project.ledger, create=False) as ledger, SourceConnections() as sources:
        marks = gather_by_flow(ledger.watermarks(project.pipeline))
        statuses = [
            one for one in ledger.status(project.pipeline) if not is_hidden(one, marks.get(one.flow, ()))
        ]
        chosen = [one for one in statuses if is_wanted(one.flow, selection)]
        if not chosen:
            raise _make_unknown_error(selection, [one.flow for one in statuses])
        _reach(project, [one.flow for one in chosen], sources)
        choice = choose(project, (), sources, recorded=find_recorded(ledger, project.pipeline))
        holders = name_holders(ledger, chosen, leases=True)
    alive = _find_alive(choice)
    for one in chosen:
        if one.flow in alive and (_is_named(one.flow, selection) or all(c.flow in alive for c in chosen)):
            raise ConfigError(
                f"{one.flow} is a flow of this file, and what it reads is there",
                hint="take it out of the file first (`exclude:`); to begin it again: `tidegauge watermark"
                f" reset -t {one.flow}`",
            )
    # The last stage first: if this is interrupted, the table still counts as gone and can be forgotten again.
    return [
        replace(_preview_flow(one, marks, choice), holder=holders.get(one.flow))
        for one in sorted(chosen, key=lambda one: one.flow, reverse=True)
        if one.flow not in alive
    ]


def run_forget(project: Project, partings: Sequence[ForgetPreview], *, reason: str) -> None:
    """Forget the previewed flows, each in one transaction of the ledger."""
    with open_ledger(project.ledger, create=True) as ledger:
        for one in partings:
            ledger.forget(project.pipeline, one.flow, owner=this_process(), reason=reason)


def _find_alive(choice: Selection) -> set[str]:
    """Return the names of the file's flows whose tables exist."""
    delta_flows = {delta_flow.name for delta_flow in choice.delta_flows}
    return delta_flows | {
        flow.name for flow in choice.flows if (flow.upstream or flow.name) not in choice.missing
    }


def _reach(project: Project, names: Sequence[str], sources: SourceConnections) -> None:
    """Connect to the databases, because only they know whether a table is gone. Raises SourceUnreachable."""
    for sync in project.syncs:
        for name in names:
            if means(sync, table_named(sync.source, name)):
                try:
                    sources.of(sync.source)
                except SourceUnreachable as error:
                    raise SourceUnreachable(
                        f"whether the table of {name} is gone cannot be known: {error.message}",
                        hint="repeat it once the database answers; or leave the table out with `exclude:`",
                    ) from error


def _is_named(flow: str, selection: Sequence[str]) -> bool:
    return any(is_wanted(flow, [word]) for word in selection if not is_pattern(word))


def _preview_flow(
    status: FlowStatus, marks: Mapping[str, Sequence[Watermark]], choice: Selection
) -> ForgetPreview:
    flow = next((one for one in choice.flows if one.name == status.flow), None)
    notes = ["what it has written stays where it is, and nobody brings it up to date any more"]
    unread = _describe_unread(flow, marks) if flow else None
    if unread:
        notes.append(unread)
    return ForgetPreview(
        status.flow,
        why=f"{flow.source.name} no longer shows {flow.table}" if flow else "this file does not name it",
        positions={mark.input: mark.position for mark in marks.get(status.flow, ())},
        supersedes=name_plan(status),
        notes=tuple(notes),
    )


def _describe_unread(flow: TableFlow, marks: Mapping[str, Sequence[Watermark]]) -> str | None:
    """Describe what in the lake has not been loaded yet; None: nothing, or the flow reads no lake."""
    upper, mine = marks.get(flow.upstream or ""), marks.get(flow.name)
    if flow.reads is None or not upper:
        return None
    try:
        if mine and has_caught_up(flow, mine[0], upper[0]):
            return None
    except TidegaugeError as error:
        return f"whether all of the lake is loaded is not known: {error.message}"
    return f"not all of the lake is loaded; `tidegauge run -t {flow.table} --stage load` does that"


def _make_unknown_error(selection: Sequence[str], names: Sequence[str]) -> ConfigError:
    near = difflib.get_close_matches(selection[0], names, n=3, cutoff=0.4)
    return ConfigError(
        f"the ledger knows no flow {', '.join(selection)}",
        hint=f"did you mean {', '.join(near)}?" if near else "`tidegauge status` lists those it knows",
    )
