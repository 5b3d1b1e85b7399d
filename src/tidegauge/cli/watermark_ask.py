"""Shows what a change of watermarks would do, asks, and does it: shared by all commands that change them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from tidegauge.cli.confirm import check_reason, confirm_with_reason
from tidegauge.cli.output import print_json, report_error, say
from tidegauge.cli.override_table import count_flows, show_previews
from tidegauge.errors import ConfigError

if TYPE_CHECKING:
    from tidegauge.flows.override.preview import OverridePreview, OverrideRequest
    from tidegauge.model.spec import Project, Stage
    from tidegauge.operations.override import OverrideResult


def override(
    project: Project,
    selection: Sequence[str],
    request: OverrideRequest,
    *,
    command: str,
    stage: Stage | None,
    reason: str | None,
    yes: bool,
    dry_run: bool,
    force: bool,
    json: bool,
    debug: bool,
    previewed: str | None = None,
) -> None:
    """Preview the change, ask, and do it. Raises ConfigError if a reason, --force or a yes is missing, and
    WrongState if something else would happen than was previewed."""
    from tidegauge.operations.override import check_previewed, preview_override, run_override

    if not dry_run:
        check_reason(f"watermark {command}", reason)
    previews = preview_override(project, selection, request, stage=stage)
    check_previewed(previews, previewed)
    if not previews:
        if json:
            _print_preview(command, previews)
        else:
            say("every flow stands there already; nothing to change")
        return
    if not json:
        show_previews(previews)
    if dry_run:
        if json:
            _print_preview(command, previews)
        else:
            say("nothing was changed")
        return
    _refuse_danger(previews, force=force)
    reason = confirm_with_reason(f"change the watermark of {count_flows(previews)}?", reason, yes=yes)
    ended = run_override(project, previews, reason=reason, unmoved=previewed is not None)
    if json:
        print_json({**_head(command, done=True), "flows": [one.to_json() for one in ended]})
    for one in ended:
        _show_done(one, json=json, debug=debug)
    raise typer.Exit(1 if any(one.error for one in ended) else 0)


def _refuse_danger(previews: Sequence[OverridePreview], *, force: bool) -> None:
    risky = next((preview for preview in previews if preview.dangers), None)
    if risky is not None and not force:
        raise ConfigError(
            f"{risky.name}: {risky.dangers[0]}",
            hint="if that is what you want, add --force; nothing was changed",
        )


def _show_done(one: OverrideResult, *, json: bool, debug: bool) -> None:
    if one.error is not None:
        report_error(one.error, json=False, debug=debug)
    elif not json:
        say(f"{one.preview.name}: done; its next run is the first of epoch {one.epoch}")


def _print_preview(command: str, previews: Sequence[OverridePreview]) -> None:
    from tidegauge.operations.override import name_preview

    flows = [one.to_json() for one in previews]
    print_json({**_head(command, done=False), "preview": name_preview(previews), "flows": flows})


def _head(command: str, *, done: bool) -> dict[str, Any]:
    return {"schema": f"tidegauge/watermark-{command}/1", "done": done}
