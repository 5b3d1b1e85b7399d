"""`tidegauge watermark list|get`: how far everything has got; and the commands that change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegauge.cli import watermark_change, watermark_transfer
from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption
from tidegauge.cli.output import ago, print_json, print_table, say
from tidegauge.cli.project import open_project
from tidegauge.errors import ConfigError

if TYPE_CHECKING:
    from tidegauge.model.protocols import Watermark

app = typer.Typer(
    help="How far everything has got, and changing it by hand.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_(project: ProjectOption = None, json: JsonOption = False, debug: DebugOption = False) -> None:  # noqa: ARG001
    """Show every watermark of the pipeline."""
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
            ["flow", "input", "cursor", "position", "epoch", "batches", "moved"],
            [
                [m.flow, m.input, m.cursor, to_text(m.position), m.epoch, m.seq, ago(m.updated_at, now)]
                for m in marks
            ],
            numbers=("epoch", "batches"),
        )


@app.command("get")
def get(
    table: Annotated[str, typer.Option("--table", "-t", "--select", help="The table or flow.")],
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Show one flow's watermark, and where its next run will start."""
    from tidegauge.engine.standing import iso, standings
    from tidegauge.ledger.open import open_ledger
    from tidegauge.model.position import to_json, to_text

    loaded = open_project(project)
    with open_ledger(loaded.ledger, create=False) as ledger:
        every = ledger.watermarks(loaded.pipeline)
    marks = [mark for mark in every if mark.flow == table or mark.flow.endswith(f".{table}")]
    if not marks:
        raise ConfigError(
            f"no watermark for '{table}': it has not run yet, or there is no such flow",
            hint=f"there are: {', '.join(mark.flow for mark in every[:10])}" if every else "run it first",
        )
    [mark] = marks[:1]
    _, [standing] = standings(loaded, [mark.flow])
    if json:
        print_json(
            {
                "schema": "tidegauge/watermark-get/1",
                **_json(mark),
                "checked": to_json(mark.checked),
                "sequence": mark.seq,
                "state": standing.state.value,
                "last_run": standing.to_json()["last_run"],
            }
        )
        return
    run = standing.last_run
    say(f"Watermark of {mark.flow}")
    say(f"   State:                 {standing.state}")
    say(f"   Position:              {to_text(mark.position)}")
    say(f"   Looked as far as:      {to_text(mark.checked)}")
    say(f"   Batches committed:     {mark.seq:,} (epoch {mark.epoch})")
    if run is not None:
        say(f"   Last run:              {run.state}, {run.rows_written:,} rows, {iso(run.started_at)}")
    say(f"   Next run starts from:  {to_text(mark.position)}")


app.command("set")(watermark_change.set_)
app.command("reset")(watermark_change.reset)
app.command("copy")(watermark_change.copy)
app.command("undo")(watermark_change.undo)
app.command("export")(watermark_transfer.export)
app.command("import")(watermark_transfer.import_)


def _json(mark: Watermark) -> dict[str, Any]:
    from tidegauge.engine.standing import iso
    from tidegauge.model.position import to_json

    return {
        "pipeline": mark.pipeline,
        "flow": mark.flow,
        "input": mark.input,
        "cursor": mark.cursor,
        "position": to_json(mark.position),
        "updated_at": iso(mark.updated_at),
        "epoch": mark.epoch,
    }
