"""`tidegauge forget`: drops the watermarks of flows whose tables are gone for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.cli.confirm import DryRunOption, ReasonOption, YesOption, check_reason, confirm_with_reason
from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption, TableOption, selection
from tidegauge.cli.output import print_json, print_table, say
from tidegauge.cli.project import open_project
from tidegauge.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.operations.forget import ForgetPreview


def command(
    reason: ReasonOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Drop the watermarks of tables that are gone, or not in the file any more; what was written stays.

    `watermark undo` brings them back.
    """
    from tidegauge.operations.forget import preview_forget, run_forget

    wanted = selection(select, table)
    if not wanted:
        raise ConfigError("`forget` needs to know which flows", hint="name one with -t")
    if not dry_run:
        check_reason("forget", reason)
    found = open_project(project)
    partings = preview_forget(found, wanted)
    if not json:
        _show(partings)
    if not dry_run:
        asked = partings[0].flow if len(partings) == 1 else f"{len(partings)} flows"
        run_forget(found, partings, reason=confirm_with_reason(f"forget {asked}?", reason, yes=yes))
    if json:
        flows = [one.to_json() for one in partings]
        print_json({"schema": "tidegauge/forget/1", "done": not dry_run, "flows": flows})
    elif dry_run:
        say("nothing was changed")
    else:
        for one in partings:
            say(f"{one.flow}: forgotten")


def _show(partings: Sequence[ForgetPreview]) -> None:
    from tidegauge.model.position import to_text

    print_table(
        ["flow", "watermark", "why"],
        [[one.flow, ", ".join(map(to_text, one.positions.values())), one.why] for one in partings],
    )
    for one in partings:
        lines = [*one.notes, *([f"supersedes {one.supersedes}"] if one.supersedes else [])]
        if one.holder:
            lines.append(f"held by {one.holder}, who loses it: what it has not committed will not count")
        for line in lines:
            say(f"   {one.flow}: {line}")
