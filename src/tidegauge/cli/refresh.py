"""`--full-refresh`: shows what would be emptied and read again, asks, and begins the new epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from tidegauge.cli.confirm import check_reason, confirm_with_reason
from tidegauge.cli.output import print_json, report_error, say
from tidegauge.cli.override_table import count_flows, show_previews

if TYPE_CHECKING:
    from tidegauge.flows.override.preview import OverridePreview
    from tidegauge.model.spec import Project, Stage
    from tidegauge.operations.override import OverrideResult


def refresh(
    project: Project,
    selection: Sequence[str],
    stage: Stage | None,
    *,
    command: str,
    reason: str | None,
    yes: bool,
    dry_run: bool,
    json: bool,
    debug: bool,
) -> list[OverrideResult]:
    """Begin the new epochs and return the result of each flow. Exits if none could begin, or on a dry run."""
    from tidegauge.operations import refresh as engine

    if not dry_run:
        check_reason(f"{command} --full-refresh", reason)
    previews = engine.preview(project, selection, stage=stage)
    if not json:
        show_previews(previews)
    if dry_run:
        if json:
            print_json(_document(command, "PLANNED", previews))
        else:
            say("nothing was changed")
        raise typer.Exit(0)
    reason = confirm_with_reason(f"begin {count_flows(previews)} again at the beginning?", reason, yes=yes)
    done = engine.refresh(project, previews, reason=reason)
    if any(one.error is None for one in done):
        return done
    if json:
        print_json(_document(command, "FAILED", done))
    for one in done:
        if one.error is not None and (debug or not json):
            report_error(one.error, json=False, debug=debug)
    raise typer.Exit(1)


def _document(
    command: str, state: str, found: Sequence[OverridePreview] | Sequence[OverrideResult]
) -> dict[str, Any]:
    """A JSON document like that of a run in which no flow began."""
    return {
        "schema": f"tidegauge/{command}/1",
        "run_id": None,
        "state": state,
        "flows": [],
        "refreshed": [one.to_json() for one in found],
    }
