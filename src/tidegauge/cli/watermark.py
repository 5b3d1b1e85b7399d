"""`tidegauge watermark list`: how far everything has got; and the commands beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from tidegauge.cli import watermark_change, watermark_get, watermark_transfer
from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption
from tidegauge.cli.output import print_json, print_table, say
from tidegauge.cli.project import open_project
from tidegauge.observe.tables import show_ago

if TYPE_CHECKING:
    from tidegauge.model.watermark import Watermark

app = typer.Typer(
    help="How far everything has got, and changing it by hand.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_(project: ProjectOption = None, json: JsonOption = False, debug: DebugOption = False) -> None:  # noqa: ARG001
    """Show every watermark of the pipeline: the last row delivered, and how far the source was checked."""
    from tidegauge.ledger.open import open_ledger
    from tidegauge.model.position import to_text

    loaded = open_project(project)
    with open_ledger(loaded.ledger, create=False) as ledger:
        marks, now = ledger.watermarks(loaded.pipeline), ledger.now()
    if json:
        print_json({"schema": "tidegauge/watermark-list/1", "watermarks": [_json(mark) for mark in marks]})
    elif not marks:
        say("no watermark yet; the first run sets them")
    else:
        print_table(
            ["flow", "input", "cursor", "position", "checked", "epoch", "batches", "moved"],
            [
                [
                    m.flow,
                    m.input,
                    m.cursor,
                    to_text(m.position),
                    to_text(m.checked) if m.checked else "—",
                    m.epoch,
                    m.seq,
                    show_ago(m.updated_at, now),
                ]
                for m in marks
            ],
            numbers=("epoch", "batches"),
        )


app.command("get")(watermark_get.get)
app.command("set")(watermark_change.set_)
app.command("reset")(watermark_change.reset)
app.command("copy")(watermark_change.copy)
app.command("undo")(watermark_change.undo)
app.command("export")(watermark_transfer.export)
app.command("import")(watermark_transfer.import_)


def _json(mark: Watermark) -> dict[str, Any]:
    from tidegauge.model.position import to_json
    from tidegauge.operations.status import iso

    return {
        "pipeline": mark.pipeline,
        "flow": mark.flow,
        "input": mark.input,
        "cursor": mark.cursor,
        "position": to_json(mark.position),
        "checked": to_json(mark.checked),
        "updated_at": iso(mark.updated_at),
        "epoch": mark.epoch,
    }
