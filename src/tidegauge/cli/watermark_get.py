"""`tidegauge watermark get`: shows one table's watermarks, stage by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegauge.cli.options import DebugOption, JsonOption, PipelineOption, ProjectOption
from tidegauge.cli.output import print_json, say
from tidegauge.cli.watermark_tracked import show as show_pipeline
from tidegauge.errors import ConfigError
from tidegauge.ledger.summary import found_nothing
from tidegauge.model.engines import FACTS
from tidegauge.model.position import to_text
from tidegauge.model.spec import DeltaFolder, Lake, LakeTable, WarehouseTable

if TYPE_CHECKING:
    from tidegauge.model.watermark import Watermark
    from tidegauge.operations.table_status import StageSummary, TableSummary


def get(
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="The table, as the source names it: both its stages.")
    ] = None,
    select: Annotated[str | None, typer.Option("--select", help="A flow, such as TABLE/load.")] = None,
    project: ProjectOption = None,
    pipeline: PipelineOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Show one table's watermarks, stage by stage, and where its next run will start."""
    from tidegauge.cli.project import open_project
    from tidegauge.operations.table_status import summarize_table

    if pipeline is not None:
        show_pipeline(open_project(project), pipeline, json=json)
        return
    if (table is None) == (select is None):
        raise ConfigError(
            "`watermark get` needs either --table or --select", hint="-t settlement.orders, for both stages"
        )
    standing = summarize_table(open_project(project), table or select or "")
    if json:
        print_json({"schema": "tidegauge/watermark/1", **standing.to_json()})
    elif not standing.has_run:
        say(f"No watermark found, will start from default: {standing.starts_from}")
    else:
        say("\n".join(_lines(standing)))


def _lines(standing: TableSummary) -> list[str]:
    marks = [mark for stage in standing.stages for mark in stage.marks]
    if any(mark.cursor == "version" for mark in marks):
        return _describe_versions(standing, marks)
    fields = standing.fields
    lines = [f"📅 Current Watermark for {standing.table}:", ""]
    first, load = standing.first, standing.load
    if first is not None:
        lines += [f"   🔄 {_describe_hop(first)}:", *_describe_first_stage(first, fields), ""]
    if load is not None:
        lines += [
            f"   📊 {_describe_hop(load)}:",
            _status(load, fields["redshift_status"]),
            f"      Rows Loaded: {_number(fields['redshift_rows_loaded'])}",
            f"      Last Load Time: {_moment(fields['last_redshift_load_time'])}",
            *_error(load),
            "",
        ]
    if first is not None:
        what = "Backup" if _is_into_lake(first) else "Sync"
        lines += [f"   🔜 Next Incremental {what}:", f"      Will start from: {standing.starts_from}"]
    else:
        lines += ["   🔜 Next Load:", f"      Will start after: {standing.starts_from}"]
    return lines


def _describe_versions(standing: TableSummary, marks: list[Watermark]) -> list[str]:
    """The lines for a flow between Delta tables, one for each input."""
    [stage] = standing.stages
    lines = [f"📅 Current Watermark for {standing.table}:", "", _status(stage, None)]
    for mark in marks:
        pinned = " (pinned)" if mark.cursor == "snapshot" else ""
        lines.append(f"      {mark.input}: {to_text(mark.position)}{pinned}")
    return [*lines, *_error(stage)]


def _describe_first_stage(stage: StageSummary, fields: dict[str, Any]) -> list[str]:
    lake = _is_into_lake(stage)
    lines = [
        _status(stage, fields["mysql_status"]),
        f"      Rows {'Extracted' if lake else 'Synced'}: {_number(fields['mysql_rows_extracted'])}",
    ]
    if lake:
        kind = "S3 Files" if _is_s3(stage) else "Files"
        lines.append(f"      {kind} Created: {_number(fields['s3_file_count'])}")
    row = stage.row or {}
    if row.get("cursor") in (None, "timestamp"):
        lines.append(f"      Last Data Timestamp: {fields['last_mysql_data_timestamp'] or 'none yet'}")
    else:
        value = row["position"] if row["position"] is not None else row["version"]
        lines.append(f"      Last Data Value: {'none yet' if value is None else value}")
    word = "Extraction" if lake else "Sync"
    checked = stage.marks[0].checked if stage.marks else None
    return [
        *lines,
        f"      Checked Up To: {to_text(checked) if checked else 'not yet'}",
        f"      Last {word} Time: {_moment(fields['last_mysql_extraction_time'])}",
        *_error(stage),
    ]


def _describe_hop(stage: StageSummary) -> str:
    """A title such as `MySQL → S3 Backup Stage`, with the names of the flow's own source and target."""
    flow = stage.flow
    if flow is None:
        return stage.name
    match flow.output:
        case LakeTable(lake, _):
            return f"{FACTS[flow.source.engine].title} → {_lake(lake)} Backup Stage"
        case WarehouseTable(warehouse, _):
            target = FACTS[warehouse.engine].title
        case DeltaFolder():
            target = "Delta"
    if flow.reads is None:
        return f"{FACTS[flow.source.engine].title} → {target} Sync Stage"
    return f"{_lake(flow.reads.lake)} → {target} Loading Stage"


def _lake(lake: Lake) -> str:
    return "S3" if lake.on_s3 else "files"


def _is_into_lake(stage: StageSummary) -> bool:
    return stage.flow is None or stage.flow.output.in_lake


def _is_s3(stage: StageSummary) -> bool:
    return stage.flow is not None and stage.flow.on_s3


def _status(stage: StageSummary, word: str | None) -> str:
    shown = word or ("not run yet" if stage.status is None else stage.status.state.value.lower())
    if found_nothing(stage.row or {}):
        shown = "success (nothing new)"
    return f"      Status: {shown}"


def _error(stage: StageSummary) -> list[str]:
    error = (stage.row or {}).get("error")
    return [f"      Last Error: {error}"] if error else []


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _moment(text: str | None) -> str:
    """A moment cut to seconds; `--json` shows it in full."""
    return f"{text[:19]}Z" if text else "none yet"
