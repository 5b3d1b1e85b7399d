"""Finds the project file."""

from __future__ import annotations

import os
from pathlib import Path

from tidegauge.errors import ConfigError

FILE_NAME = "tidegauge.yml"


def find_project(start: Path | None = None, explicit: Path | None = None) -> Path:
    """The absolute path of the project file.

    `explicit` is the file itself or the folder it stands in; without it, the file is looked for in `start`
    (the working folder unless given) and in every folder above. Raises ConfigError when there is none.
    """
    if explicit is not None:
        return _given(explicit)
    try:
        folder = (start or Path.cwd()).absolute()
    except OSError as error:
        raise ConfigError(
            "the working folder does not exist any more", hint="change to a folder that does"
        ) from error
    for candidate in (folder, *folder.parents):
        found = _in_folder(candidate)
        if found is not None:
            return found
    raise ConfigError(
        f"no {FILE_NAME} in {folder} or in any folder above it",
        hint="make one with `tidegauge init`, or name one with `--project PATH`",
    )


def _given(path: Path) -> Path:
    """The project file at a path that the user gave: the file itself, or its folder."""
    path = path.expanduser().absolute() if str(path).startswith("~") else path.absolute()
    if os.path.isdir(path):  # noqa: PTH112  # unlike Path.is_dir, answers False where we may not look
        found = _in_folder(path)
        if found is None:
            raise ConfigError(f"the folder {path} has no {FILE_NAME}", hint="make one with `tidegauge init`")
        return found
    if not os.path.exists(path):  # noqa: PTH110
        raise ConfigError(
            f"the project {path} does not exist",
            hint=f"`--project` takes a {FILE_NAME} or its folder; make one with `tidegauge init`",
        )
    return path


def _in_folder(folder: Path) -> Path | None:
    file = folder / FILE_NAME
    if os.path.isfile(file):  # noqa: PTH113
        return file
    other = folder / "tidegauge.yaml"
    if os.path.isfile(other):  # noqa: PTH113
        raise ConfigError(f"the project file is called {FILE_NAME}, not {other.name}", hint=f"rename {other}")
    return None
