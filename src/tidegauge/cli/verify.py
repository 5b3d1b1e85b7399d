"""`tidegauge verify`: compares source and target, key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidegauge.cli.log import LogFormat, LogFormatOption, watch_here
from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    ProjectOption,
    SelectOption,
    StageOption,
    TableOption,
    selection,
)
from tidegauge.cli.output import print_json, report_error, show_table
from tidegauge.cli.project import open_project

if TYPE_CHECKING:
    from tidegauge.operations.verify import TableVerification


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    stage: StageOption = None,
    log_format: LogFormatOption = LogFormat.TEXT,  # noqa: ARG001 - read where lines are written
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Prove that source and target are the same up to the watermark; exit 1 and a list if not.

    The target of a table with two stages is the warehouse; --stage extract looks at the lake. A flow between
    Delta tables is computed anew over its whole inputs. Rows past the watermark are counted as newer, and are
    no difference. Exit 2 if nothing was compared.
    """
    from tidegauge.api.results import VerifyResult
    from tidegauge.operations.verify import explain_nothing_compared, is_proven, verify

    opened = open_project(project)
    with watch_here() as tell:
        results = verify(opened, selection(select, table), stage=stage, tell=tell, debug=debug)
    nothing = explain_nothing_compared(results)
    if nothing is not None:
        raise nothing
    if json:
        print_json(VerifyResult(tuple(results)).to_json())
    else:
        show(results)
    for one in results:
        if one.error is not None and not one.excused and not json:
            report_error(one.error, json=False, debug=debug)
    raise typer.Exit(0 if is_proven(results) else 1)


def show(results: list[TableVerification]) -> None:
    from tidegauge.api.tables import verify_table

    show_table(verify_table(results))
