"""The options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegauge.errors import ConfigError
from tidegauge.model.location import WITH_COLON, scheme_of
from tidegauge.model.spec import Stage

ProjectOption = Annotated[
    Path | None,
    typer.Option("--project", help="The project file or its folder; else found by walking up from here."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout, and nothing else there.")
]
DebugOption = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Show the whole story behind an error; of a run also its windows, SQL, files and times.",
    ),
]
SelectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        help="A flow's name, a pattern, or tag:x; +NAME adds what it reads from, NAME+ what reads from it.",
    ),
]
TableOption = Annotated[
    list[str] | None, typer.Option("--table", "-t", help="A table, as the source names it, or a pattern.")
]
StageOption = Annotated[Stage | None, typer.Option(help="Only this stage of tables that have two.")]
PipelineOption = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        metavar="NAME",
        help="Another pipeline of the same ledger, such as one that a WatermarkTracker keeps.",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="ROWS", help="Stop each flow at the end of a batch, at so many rows."),
]
WaitOption = Annotated[str, typer.Option(help="How long to wait for a flow that another runner holds: 60s.")]
ParallelOption = Annotated[
    int,
    typer.Option(min=1, max=64, help="Tables side by side; with intra-table, readers inside one table."),
]


def selection(select: list[str] | None, table: list[str] | None) -> tuple[str, ...]:
    return (*(select or ()), *(table or ()))


def local(path: Path) -> Path:
    """The path of a file or folder to write. Raises ConfigError for an address such as `s3://…`, which would
    otherwise become a local folder of that name."""
    if (scheme := scheme_of(str(path))) is not None:
        raise ConfigError(
            f"{path} has to be a local path, and not one of kind `{scheme}:`",
            hint=f"name a local one; {WITH_COLON}",
        )
    return path


def one_stage(stage: Stage | None, words: dict[str, bool]) -> Stage | None:
    """The stage that was asked for; None for both. `words`: the other option for extract and then that for
    load, each with whether it was given. Raises ConfigError if two options disagree."""
    (first, extract), (second, load) = words.items()
    named = {
        **({f"--stage {stage}": stage} if stage else {}),
        **({first: Stage.EXTRACT} if extract else {}),
        **({second: Stage.LOAD} if load else {}),
    }
    if len(set(named.values())) > 1:
        raise ConfigError(
            f"{' and '.join(named)} exclude each other", hint="give one; none means both stages"
        )
    return next(iter(named.values()), None)
