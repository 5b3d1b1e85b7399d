"""`tidegauge files list|clean`: what lies in the lake, and what dead attempts left there."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegauge.cli.confirm import DryRunOption, ReasonOption, YesOption, check_reason, confirm_with_reason
from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption, TableOption, selection
from tidegauge.cli.output import print_json, print_table, say
from tidegauge.cli.project import open_project

app = typer.Typer(
    help="What lies in the lake, and what dead attempts left there. Also called s3clean.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_CLEAN = "nothing to clean: committed files stay, and readers leave them behind after a `watermark reset`"


@app.command("list")
def list_(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Show committed files by batch, and leftovers that no reader sees."""
    from tidegauge.operations.files import listings

    found = listings(open_project(project), selection(select, table))
    if json:
        print_json({"schema": "tidegauge/files-list/1", "tables": [one.to_json() for one in found]})
        return
    rows: list[list[object]] = []
    for one in found:
        for kind, files in (("earlier epoch", one.listing.earlier), ("committed", one.listing.committed)):
            for file in files:
                batch = f"{file.epoch}/{file.seq}"
                rows.append([one.flow, kind, batch, file.file.rows, file.file.bytes, file.file.path])
        rows += [[one.flow, "leftover", None, None, left.bytes, left.path] for left in one.listing.leftovers]
        rows += [
            [one.flow, "MISSING", f"{f.epoch}/{f.seq}", None, None, f.file.path] for f in one.listing.missing
        ]
    if not rows:
        say("no files yet")
        return
    print_table(["flow", "kind", "batch", "rows", "bytes", "path"], rows, numbers=("rows", "bytes"))


@app.command("clean")
def clean(
    reason: ReasonOption = None,
    older_than: Annotated[str, typer.Option(help="Only what its attempt last touched this long ago.")] = "7d",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Delete leftovers of dead attempts. Committed files are never touched."""
    from tidegauge.config.durations import parse_duration
    from tidegauge.operations.files import clean as clean_files

    loaded, wanted, age = open_project(project), selection(select, table), parse_duration(older_than)
    found = clean_files(loaded, wanted, older_than=age, reason=None)
    count = sum(len(paths) for paths in found.values())
    if not json:
        for flow, left in found.items():
            for one in left:
                say(f"{flow}: {one.path} ({one.bytes:,} bytes)")
    if count and not dry_run:
        check_reason("files clean", reason)
        reason = confirm_with_reason(
            f"delete {count} leftover file{'' if count == 1 else 's'}?", reason, yes=yes
        )
        found = clean_files(loaded, wanted, older_than=age, reason=reason)
    if json:
        print_json(
            {
                "schema": "tidegauge/files-clean/1",
                "deleted": not dry_run,
                "tables": [
                    {"flow": flow, "files": [{"path": one.path, "bytes": one.bytes} for one in left]}
                    for flow, left in found.items()
                ],
            }
        )
    elif dry_run or not count:
        say(f"{count} would go; nothing was deleted" if count else _CLEAN)
    else:
        say(f"deleted {count}")
