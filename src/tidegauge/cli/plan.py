"""`tidegauge plan`: shows what a run would read and write, and why. Writes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    LimitOption,
    ProjectOption,
    SelectOption,
    StageOption,
    TableOption,
    selection,
)
from tidegauge.cli.output import print_json, report_error, say, show_table
from tidegauge.cli.project import open_project
from tidegauge.errors import ConfigError

if TYPE_CHECKING:
    from tidegauge.model.spec import Project, Stage

GraphOption = Annotated[
    bool,
    typer.Option("--graph", help="Draw who reads whose table, and where each flow stands; starts no Spark."),
]
MermaidOption = Annotated[bool, typer.Option("--mermaid", help="The same graph as Mermaid text.")]


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    stage: StageOption = None,
    limit: LimitOption = None,
    graph: GraphOption = False,
    mermaid: MermaidOption = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what a run would read and write, and why; write nothing."""
    wanted = selection(select, table)
    if graph + mermaid + json > 1:
        raise ConfigError(
            "--graph, --mermaid and --json exclude each other",
            hint="give one; --json names the flows that each one reads from under `upstreams`",
        )
    if graph or mermaid:
        _draw(open_project(project), wanted, stage=stage, mermaid=mermaid, debug=debug)
    show(open_project(project), wanted, stage=stage, limit=limit, json=json, debug=debug)


def show(
    project: Project,
    wanted: Sequence[str],
    *,
    stage: Stage | None,
    limit: int | None,
    json: bool,
    debug: bool,
) -> NoReturn:
    from tidegauge.api.results import PlanResult
    from tidegauge.operations.plan import preview

    notes: list[str] = []
    shown = preview(project, wanted, stage=stage, limit=limit, remark=notes.append)
    result = PlanResult(tuple(shown), tuple(notes))
    if json:
        print_json(result.to_json())
    else:
        show_table(result.table)
    for error in result.errors:
        if not json or debug:
            report_error(error, json=False, debug=debug)
    raise typer.Exit(0 if result.ok else 1)


def _draw(
    project: Project, wanted: Sequence[str], *, stage: Stage | None, mermaid: bool, debug: bool
) -> NoReturn:
    from tidegauge.cli.draw_graph import draw_mermaid, draw_tree
    from tidegauge.operations.graph import find_graph

    nodes, faults = find_graph(project, wanted, stage=stage)
    root = str(project.root)
    if mermaid:
        lines = draw_mermaid(nodes, root=root)
    else:
        lines = draw_tree(nodes, root=root, width=shutil.get_terminal_size((100, 24)).columns)
    say("\n".join(lines))
    for error in faults:
        report_error(error, json=False, debug=debug)
    raise typer.Exit(1 if faults else 0)
