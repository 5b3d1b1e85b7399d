"""`tidegauge watermark list`: shows how far each flow has got. Also names the commands beside it."""

from __future__ import annotations

from tidegauge.cli import watermark_change, watermark_get, watermark_transfer
from tidegauge.cli.group import make_group
from tidegauge.cli.options import DebugOption, JsonOption, PipelineOption, ProjectOption
from tidegauge.cli.output import print_json, say, show_table
from tidegauge.cli.project import open_project

app = make_group("How far everything has got, and changing it by hand.")


@app.command("list")
def list_(
    project: ProjectOption = None,
    pipeline: PipelineOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Show every watermark of the pipeline: the last row delivered, and how far the source was checked."""
    from tidegauge.api.results import WatermarksResult
    from tidegauge.operations.watermarks import list_watermarks

    now, marks = list_watermarks(open_project(project), pipeline)
    result = WatermarksResult(now, tuple(marks))
    if json:
        print_json(result.to_json())
    elif not marks:
        say("no watermark yet; the first run sets them")
    else:
        show_table(result.table)


app.command("get")(watermark_get.get)
app.command("set")(watermark_change.set_)
app.command("reset")(watermark_change.reset)
app.command("copy")(watermark_change.copy)
app.command("undo")(watermark_change.undo)
app.command("export")(watermark_transfer.export)
app.command("import")(watermark_transfer.import_)
