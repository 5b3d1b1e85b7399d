"""`tidegauge explain`: shows batch by batch what a run would read, and how. Writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    ProjectOption,
    SelectOption,
    TableOption,
    selection,
)
from tidegauge.cli.output import print_json, report_error, say
from tidegauge.cli.project import open_project

if TYPE_CHECKING:
    from tidegauge.model.plan import Batch, Draft
    from tidegauge.operations.plan import FlowPreview

_MOST = 20
"""How many batches are shown as text."""


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show batch by batch what a run would read, and how; write nothing."""
    from tidegauge.operations.plan import preview

    shown = preview(open_project(project), selection(select, table))
    if json:
        flows = [{**flow.to_json(), "planned": _batches(flow)} for flow in shown]
        print_json({"schema": "tidegauge/explain/1", "flows": flows})
    else:
        for flow in shown:
            say("\n".join(_lines(flow)))
    failed = [flow.error for flow in shown if flow.error is not None]
    for error in failed:
        if not json or debug:
            report_error(error, json=False, debug=debug)
    raise typer.Exit(1 if failed else 0)


def _lines(flow: FlowPreview) -> list[str]:
    lines = [f"{flow.flow} → {flow.output}: {flow.shown_state}", *(f"   {note}" for note in flow.notes)]
    return lines + ([f"   {line}" for line in describe_batches(flow.draft, flow.done)] if flow.draft else [])


def describe_batches(draft: Draft, done: int) -> list[str]:
    """The windows of a plan's batches, one line each, without the first `done` ones."""
    batches = [_parts(draft, batch) for batch in draft.batches[done:]]
    lines = [
        f"batch {number}: " + "; ".join(_describe_window(part) for part in batch)
        for number, batch in enumerate(batches[:_MOST], start=done + 1)
    ]
    return [*lines, *([f"… and {len(batches) - _MOST} more"] if len(batches) > _MOST else [])]


def _batches(flow: FlowPreview) -> list[list[dict[str, object]]]:
    if flow.draft is None:
        return []
    return [_parts(flow.draft, batch) for batch in flow.draft.batches[flow.done :]]


def _parts(draft: Draft, batch: Batch) -> list[dict[str, object]]:
    ways = batch.ways or (None,) * len(batch.windows)
    return [
        {"input": part.input, "way": way.value if way else None, **window.to_json()}
        for part, window, way in zip(draft.inputs, batch.windows, ways, strict=True)
    ]


def _describe_window(part: dict[str, object]) -> str:
    after, upto, way = part["after"], part["upto"], part["way"]
    match way:
        case "pinned" | "snapshot":
            what = f"whole at version {upto}" + (", pinned" if way == "pinned" else "")
        case "nothing":
            what = f"nothing new, version {upto}"
        case "feed" | "files" | "diff":
            first = after + 1 if isinstance(after, int) else 0
            how = {"feed": "change feed", "files": "added files", "diff": "difference of the two ends"}[way]
            what = f"versions {first} to {upto}, {how}"
        case _:
            what = f"({_end(after)}, {_end(upto)}]"
    return f"{part['input']}: {what}"


def _end(position: object) -> str:
    if isinstance(position, dict):
        return str(position["cursor"])
    return "the beginning" if position is None else str(position)
