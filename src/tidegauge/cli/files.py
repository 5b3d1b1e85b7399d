"""`tidegauge files list|clean|compact`: lists the files of the lake, and keeps their number small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.confirm import DryRunOption, ReasonOption, YesOption, check_reason, confirm_with_reason
from tidegauge.cli.group import make_group
from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption, TableOption, selection
from tidegauge.cli.output import print_json, print_table, say
from tidegauge.cli.project import open_project

if TYPE_CHECKING:
    from tidegauge.operations.files import CleanedFiles, CompactedFiles

app = make_group("What lies in the lake, and what dead attempts left there. Also called s3clean.")

_COMPACT = "nothing to compact: no two small files lie side by side in batches that every load has passed"
_CLEAN = "nothing to clean: committed files stay unless --earlier-epochs or --loaded asks for them"
_CLEAN_ASKED = "nothing to clean that is older than {}: --older-than says how old, such as 1h"


@app.command("list")
def list_(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Show committed files by batch, and leftovers that no reader sees."""
    from tidegauge.operations.files import list_files

    found = list_files(open_project(project), selection(select, table))
    if json:
        print_json({"schema": "tidegauge/files-list/1", "tables": [one.to_json() for one in found]})
        return
    rows: list[list[object]] = []
    for one in found:
        for kind, files in (("earlier epoch", one.listing.earlier), ("committed", one.listing.committed)):
            for file in files:
                batch = f"{file.epoch}/{file.seq}" + ("" if file.last is None else f"-{file.last}")
                rows.append([one.flow, kind, batch, file.file.rows, file.file.bytes, file.file.path])
        for old in one.listing.replaced:
            size = one.listing.there[old.file.path].bytes
            rows.append([one.flow, "replaced", f"{old.epoch}/{old.seq}", None, size, old.file.path])
        rows += [[one.flow, "leftover", None, None, left.bytes, left.path] for left in one.listing.leftovers]
        rows += [
            [one.flow, "MISSING", f"{f.epoch}/{f.seq}", None, None, f.file.path] for f in one.listing.missing
        ]
        for epoch, seq in dict.fromkeys((f.epoch, f.seq) for f in one.listing.removed):
            rows.append([one.flow, "cleaned away", f"{epoch}/{seq}", None, None, ""])
    if not rows:
        say("no files yet")
        return
    print_table(["flow", "kind", "batch", "rows", "bytes", "path"], rows, numbers=("rows", "bytes"))


@app.command("clean")
def clean(
    reason: ReasonOption = None,
    older_than: Annotated[
        str, typer.Option(help="Only files that were last touched or committed at least this long ago.")
    ] = "7d",
    earlier_epochs: Annotated[
        bool,
        typer.Option(
            "--earlier-epochs",
            help="Also what no reader follows since a `watermark reset` or a full refresh, which then cannot"
            " be undone.",
        ),
    ] = False,
    loaded_: Annotated[
        bool,
        typer.Option("--loaded", help="Also batches that every load has passed, as this ledger says."),
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Delete leftovers of dead attempts, files that a compaction replaced, and what else is asked for.

    Never what a load has yet to read. Manifests stay, and say that their files were removed: a load that has
    to read them stops.
    """
    from tidegauge.config.durations import parse_duration
    from tidegauge.operations.files import CleanRequest
    from tidegauge.operations.files import clean as clean_files

    opened, wanted = open_project(project), selection(select, table)
    request = CleanRequest(parse_duration(older_than), loaded_, earlier_epochs)
    found = clean_files(opened, wanted, request, reason=None)
    count = sum(len(one.files) for one in found)
    if not json:
        _preview(found)
    if count and not dry_run:
        check_reason("files clean", reason)
        reason = confirm_with_reason(f"delete {count} file{'' if count == 1 else 's'}?", reason, yes=yes)
        found = clean_files(opened, wanted, request, reason=reason)
    if json:
        print_json(
            {
                "schema": "tidegauge/files-clean/1",
                "deleted": not dry_run,
                "tables": [one.to_json() for one in found],
            }
        )
    elif dry_run or not count:
        nothing = _CLEAN_ASKED.format(older_than) if earlier_epochs or loaded_ else _CLEAN
        say(f"{count} would go; nothing was deleted" if count else nothing)
    else:
        say(f"deleted {count}")


def _preview(found: list[CleanedFiles]) -> None:
    for one in found:
        for left in one.files:
            say(f"{one.flow}: {left.why}: {left.path} ({left.bytes:,} bytes)")
        for note in one.notes:
            say(f"{one.flow}: {note}")


@app.command("compact")
def compact(
    reason: ReasonOption = None,
    older_than: Annotated[str, typer.Option(help="Only batches that were committed this long ago.")] = "0s",
    target_size: Annotated[
        str, typer.Option(help="How large files become. Those of half this size or more stay as they are.")
    ] = "128MiB",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Rewrite many small files of batches that every load has passed into few large ones.

    Readers are not disturbed, whenever they began: the small files stay until `files clean` takes them.
    """
    from tidegauge.config.durations import parse_duration
    from tidegauge.config.sizes import parse_size
    from tidegauge.operations.files import CompactRequest
    from tidegauge.operations.files import compact as compact_files

    opened, wanted = open_project(project), selection(select, table)
    request = CompactRequest(parse_duration(older_than), parse_size(target_size))
    found = compact_files(opened, wanted, request, reason=None)
    count = sum(len(group.before) for one in found for group in one.groups)
    if not json:
        _tell_groups(found)
    if count and not dry_run:
        check_reason("files compact", reason)
        reason = confirm_with_reason(f"rewrite {count} files?", reason, yes=yes)
        found = compact_files(opened, wanted, request, reason=reason)
    if json:
        print_json(
            {
                "schema": "tidegauge/files-compact/1",
                "rewritten": not dry_run,
                "tables": [one.to_json() for one in found],
            }
        )
    elif dry_run or not count:
        say(f"{count} files would be rewritten; nothing was changed" if count else _COMPACT)
    else:
        _tell_written(found)


def _tell_groups(found: list[CompactedFiles]) -> None:
    for one in found:
        for group in one.groups:
            say(
                f"{one.flow}: batches {group.epoch}/{group.first}-{group.last}: {len(group.before)} files,"
                f" {group.rows:,} rows, {group.bytes:,} bytes"
            )
        for note in one.notes:
            say(f"{one.flow}: {note}")


def _tell_written(found: list[CompactedFiles]) -> None:
    groups = [group for one in found for group in one.groups]
    before = [file for group in groups for file in group.before]
    after = [file for group in groups for file in group.files]
    say(
        f"rewrote {len(before)} files ({sum(one.bytes for one in before):,} bytes) as {len(after)}"
        f" ({sum(one.bytes for one in after):,} bytes); the old ones stay until `tidegauge files clean`"
    )
    for one in found:
        for group in one.groups:
            if group.kept:
                say(f"{one.flow}: {len(group.kept)} batches stay as they are: somebody else was at them")
