"""`tidegauge report`: writes the dashboard's pages as files, to be read without a server."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, local
from tidegauge.cli.output import print_json, say
from tidegauge.cli.project import open_project
from tidegauge.cli.serve import check_extra
from tidegauge.cli.write_file import write_file
from tidegauge.errors import ConfigError

_LIST = "tidegauge-report.json"
"""The file that lists the report's files, so that the next report can delete those it does not replace."""


def command(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where to write them; index.html is the first.")
    ],
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Write the pages of `serve` as files, for a bucket, a build's artifacts or a mail."""
    check_extra()
    from tidegauge.dashboard.files import make_site

    opened, folder = open_project(project), local(out)
    before = _find_written(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be made: {error.strerror}", hint="choose another folder"
        ) from error
    written = []
    for name, text in make_site(opened):
        write_file(folder / name, text)
        written.append(name)
    for name in before - set(written):
        (folder / name).unlink(missing_ok=True)
    write_file(folder / _LIST, jsonlib.dumps({"schema": "tidegauge/report/1", "files": written}, indent=1))
    if json:
        print_json({"schema": "tidegauge/report/1", "folder": str(folder), "files": written})
    else:
        say(f"{len(written):,} files in {folder}; open {folder / 'index.html'}")


def _find_written(folder: Path) -> set[str]:
    """The files of an earlier report there. Raises ConfigError for a folder with anything else in it."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return set()
    try:
        found = jsonlib.loads((folder / _LIST).read_text(encoding="utf-8"))["files"]
        # Only files in this folder: a list that somebody else wrote must not name others.
        return {name for name in map(str, found) if Path(name).name == name and (folder / name).is_file()}
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{folder} is there, and holds no report", hint="choose a new folder; nothing was changed"
        ) from None
