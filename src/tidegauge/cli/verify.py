"""`tidegauge verify`: source against target, key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    ProjectOption,
    SelectOption,
    StageOption,
    TableOption,
    selection,
)
from tidegauge.cli.output import print_json, print_table, report_error, say
from tidegauge.cli.project import open_project

if TYPE_CHECKING:
    from tidegauge.engine.verify import Verified


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    stage: StageOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Prove that source and target are the same up to the watermark; exit 1 and a list if not.

    The target of a table with two stages is the warehouse; --stage extract looks at the lake.
    """
    from tidegauge.engine.verify import verify

    results = verify(open_project(project), selection(select, table), stage=stage, debug=debug)
    if json:
        print_json({"schema": "tidegauge/verify/1", "tables": [one.to_json() for one in results]})
    else:
        show(results)
    for one in results:
        if one.error is not None and not json:
            report_error(one.error, json=False, debug=debug)
    raise typer.Exit(0 if all(one.equal for one in results) else 1)


def show(results: list[Verified]) -> None:
    print_table(
        ["table", "equal", "source rows", "target rows", "missing", "extra", "different"],
        [
            [
                one.table,
                "✓" if one.equal else "✗",
                *(
                    (d.source_rows, d.target_rows, d.missing, d.extra, d.different)
                    if (d := one.difference)
                    else (None,) * 5
                ),
            ]
            for one in results
        ],
        numbers=("source rows", "target rows", "missing", "extra", "different"),
    )
    for one in results:
        for kind, key in one.difference.examples if one.difference else ():
            say(f"{one.table}: {kind}: {key}")
