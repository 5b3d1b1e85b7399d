"""`tidegauge watermark export|import`: writes and reads watermarks as JSON, at full precision."""

from __future__ import annotations

import json as jsonlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegauge.cli.confirm import DryRunOption, ForceOption, ReasonOption, YesOption
from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    ProjectOption,
    SelectOption,
    StageOption,
    TableOption,
    local,
    selection,
)
from tidegauge.cli.output import print_json, say
from tidegauge.cli.project import open_project
from tidegauge.cli.watermark_ask import override
from tidegauge.cli.write_file import write_file
from tidegauge.errors import ConfigError, PositionError
from tidegauge.model.spec import Stage

if TYPE_CHECKING:
    from tidegauge.flows.override.preview import Imported

SCHEMA = "tidegauge/watermark-export/1"
SHOWN = "tidegauge/watermark/1"
"""The schema of the document that `watermark get --json` prints."""
_STANDARD = Path("-")


def export(
    file: Annotated[Path | None, typer.Argument(help="Where to; `-` or nothing: stdout.")] = None,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    stage: StageOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Write watermarks as one JSON document that `import` takes."""
    from tidegauge.ledger.open import open_ledger
    from tidegauge.model.position import to_body
    from tidegauge.operations.status import is_wanted, iso

    loaded, chosen = open_project(project), selection(select, table)
    with open_ledger(loaded.ledger, create=False) as ledger:
        marks = [
            mark
            for mark in ledger.watermarks(loaded.pipeline)
            if is_wanted(mark.flow, chosen) and _is_of_stage(mark.flow, stage)
        ]
        now = ledger.now()
    if chosen and not marks:
        raise ConfigError(f"no watermark is selected by {', '.join(chosen)}", hint="see `watermark list`")
    document = {
        "schema": SCHEMA,
        "pipeline": loaded.pipeline,
        "exported_at": iso(now),
        "watermarks": [
            {
                "flow": mark.flow,
                "input": mark.input,
                "cursor": mark.cursor,
                "position": to_body(mark.position),
                "source_id": mark.source_id,
                "epoch": mark.epoch,
                "seq": mark.seq,
                "updated_at": iso(mark.updated_at),
            }
            for mark in marks
        ],
    }
    if file is None or file == _STANDARD:
        print_json(document)
        return
    write_file(local(file), jsonlib.dumps(document, indent=2) + "\n")
    if json:
        print_json(document)
    else:
        say(f"wrote {len(marks)} watermark{'' if len(marks) == 1 else 's'} to {file}")


def import_(
    file: Annotated[Path, typer.Argument(help="What `export` wrote, or `get --json`; `-`: from stdin.")],
    stage: StageOption = None,
    reason: ReasonOption = None,
    force: ForceOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Set the watermarks of an exported document; flows that stand there already are left alone."""
    from tidegauge.flows.override.preview import Import

    override(
        open_project(project),
        (),
        Import({flow: mark for flow, mark in _read(file).items() if _is_of_stage(flow, stage)}, str(file)),
        command="import",
        stage=stage,
        reason=reason,
        yes=yes,
        dry_run=dry_run,
        force=force,
        json=json,
        debug=debug,
    )


def _is_of_stage(flow: str, stage: Stage | None) -> bool:
    """Whether the flow is of this stage, told by its name, as a document has nothing else."""
    from tidegauge.flows.names import stage_of

    return stage is None or stage_of(flow) in (None, stage)


def _read(file: Path) -> dict[str, Imported]:
    try:
        text = sys.stdin.read() if file == _STANDARD else file.read_text(encoding="utf-8")
        document = jsonlib.loads(text)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", hint="look at the path") from error
    except ValueError as error:
        raise ConfigError(f"{file} is not JSON: {error}", hint="export it again") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema not in (SCHEMA, SHOWN):
        raise ConfigError(
            f"{file} is not an export of watermarks: its schema is {schema!r}, not {SCHEMA!r}",
            hint="make one with `tidegauge watermark export FILE`, or `watermark get -t TABLE --json`",
        )
    if schema == SHOWN and "pipeline" in document and "will_start_from" not in document:
        raise ConfigError(
            f"{file} has the watermarks of {document.get('pipeline')}, a pipeline of a WatermarkTracker;"
            " `import` takes those of the project's flows",
            hint="`tidegauge watermark set --pipeline NAME` sets those of a tracker",
        )
    found: dict[str, Imported] = {}
    try:
        for mark in document["watermarks"] if schema == SCHEMA else _read_shown_marks(document):
            if not _add_mark(found, mark):
                raise ConfigError(f"{file} names a flow twice, or none", hint="export it again")
    except (KeyError, TypeError, AttributeError, PositionError) as error:
        raise ConfigError(
            f"{file} was changed by hand and cannot be read: {type(error).__name__}: {error}",
            hint="export it again",
        ) from error
    return found


def _read_shown_marks(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The watermarks of a document that `watermark get --json` printed, in the form of an export."""
    return [
        {**mark, "flow": stage["flow"], "position": mark["exact"]}
        for stage in document["stages"]
        for mark in stage["watermarks"]
    ]


def _add_mark(found: dict[str, Imported], body: dict[str, Any]) -> bool:
    """Add a watermark to those of its flow. False if the input is there already, or the flow has no name."""
    from tidegauge.flows.override.preview import Imported
    from tidegauge.model.position import from_body

    flow, name, position = body["flow"], body.get("input"), from_body(body["position"])
    if not isinstance(flow, str):
        return False
    first = found.get(flow)
    if first is not None:
        if not isinstance(name, str) or name in first.inputs or not first.inputs:
            return False
        found[flow] = replace(first, inputs={**first.inputs, name: position})
        return True
    source = body.get("source_id")
    inputs = {name: position} if isinstance(name, str) else {}
    found[flow] = Imported(position, source if isinstance(source, str) else None, inputs)
    return True
