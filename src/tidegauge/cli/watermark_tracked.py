"""`tidegauge watermark get|set|reset` with `--pipeline NAME`: the pipelines of a WatermarkTracker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.cli.confirm import check_reason, confirm_with_reason
from tidegauge.cli.output import print_json, say
from tidegauge.errors import ConfigError
from tidegauge.observe.tables import show_ago

if TYPE_CHECKING:
    from tidegauge.model.spec import Project
    from tidegauge.operations.tracker_pipelines import TrackerOverridePreview


def show(project: Project, name: str, *, json: bool) -> None:
    """Print the watermark of every input, and the plan that has not ended."""
    from tidegauge.ledger.open import open_ledger
    from tidegauge.model.position import to_json, to_text
    from tidegauge.operations.status import iso, run_to_json
    from tidegauge.operations.tracker_pipelines import check_pipeline

    with open_ledger(project.ledger, create=False) as ledger:
        check_pipeline(ledger, name)
        flows, marks, now = ledger.status(name), ledger.watermarks(name), ledger.now()
    if json:
        print_json(
            {
                "schema": "tidegauge/watermark/1",
                "pipeline": name,
                "stages": [
                    {
                        "flow": one.flow,
                        "state": one.state.value,
                        "watermarks": [
                            {
                                "input": mark.input,
                                "cursor": mark.cursor,
                                "position": to_json(mark.position),
                                "checked": to_json(mark.checked),
                                "epoch": mark.epoch,
                                "sequence": mark.seq,
                                "updated_at": iso(mark.updated_at),
                            }
                            for mark in marks
                            if mark.flow == one.flow
                        ],
                        "last_run": run_to_json(one.last_run) if one.last_run else None,
                    }
                    for one in flows
                ],
            }
        )
        return
    for one in flows:
        say(f"{one.flow}: {one.state}")
        for part in one.plan.draft.inputs if one.plan else ():
            window = part.window
            if window is not None:
                say(
                    f"      planned: {part.input}, after {to_text(window.after)} up to {to_text(window.upto)}"
                )
    for mark in marks:
        say(f"      {mark.input}: {to_text(mark.position)}, moved {show_ago(mark.updated_at, now)}")


def override(
    project: Project,
    preview: TrackerOverridePreview,
    *,
    reason: str | None,
    yes: bool,
    dry_run: bool,
    force: bool,
    json: bool,
) -> None:
    """Show the change, ask, and do it. Raises ConfigError if a reason, --force or a yes is missing."""
    from tidegauge.model.position import to_text
    from tidegauge.operations.tracker_pipelines import carry_out_tracked

    words = f"watermark {preview.kind} --pipeline {preview.pipeline}"
    if not dry_run:
        check_reason(words, reason)
    if not json:
        for name, (before, after) in preview.positions.items():
            say(f"{name}: from {to_text(before)} to {to_text(after)}")
        if preview.supersedes is not None:
            held = f", which {preview.holder} holds" if preview.holder else ""
            say(f"its plan, {preview.supersedes}{held}, is superseded")
    epoch = None
    if not dry_run:
        if preview.dangers and not force:
            raise ConfigError(
                f"{preview.pipeline}: {preview.dangers[0]}",
                hint="if that is what you want, add --force; nothing was changed",
            )
        agreed = confirm_with_reason(f"change the watermark of {preview.pipeline}?", reason, yes=yes)
        epoch = carry_out_tracked(project, preview, reason=agreed)
    if json:
        body = {**preview.to_json(), "epoch": epoch}
        done = epoch is not None
        print_json({"schema": f"tidegauge/watermark-{preview.kind}/1", "done": done, "flows": [body]})
    else:
        say("nothing was changed" if epoch is None else f"{preview.pipeline}: done; epoch {epoch} begins")
