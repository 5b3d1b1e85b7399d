"""Where the files are that a Delta log names, and whether they exist."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from urllib.parse import unquote

from tidegauge.delta_log.commit import Action
from tidegauge.delta_log.deletion_vector import path_of_vector
from tidegauge.delta_log.log import ask_each
from tidegauge.errors import OutputUnreachable
from tidegauge.model.spec import Lake
from tidegauge.storage.store import open_store

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/+.*)", re.DOTALL)


def paths_of(action: Action) -> Iterator[str]:
    """The paths of the data file and of its deletion vector's file: relative to the table's folder, or
    absolute for files elsewhere."""
    yield unquote(action["path"])
    vector = action.get("deletionVector")
    if not vector:
        return
    where: str = vector["pathOrInlineDv"]
    match vector["storageType"]:
        case "p":
            yield unquote(where)
        case "u":
            yield path_of_vector(where)
        case _:
            pass  # the vector is stored in the log itself


def find_missing(lake: Lake, paths: Iterable[str]) -> set[str]:
    """The paths whose files do not exist. A file on another kind of store is assumed to exist."""
    wanted = list(dict.fromkeys(paths))
    found = ask_each(lambda path: _is_there(lake, path), wanted, remote=lake.on_s3)
    return {path for path, there in zip(wanted, found, strict=True) if not there}


def _is_there(lake: Lake, path: str) -> bool:
    elsewhere = _URI.fullmatch(path)
    scheme, rest = elsewhere.groups() if elsewhere else ("", path)
    if scheme in ("s3", "s3a", "s3n"):
        bucket, _, key = rest.lstrip("/").partition("/")
        return _is_on_s3(replace(lake, path=f"s3a://{bucket}"), key)
    if scheme == "file":
        return os.path.exists("/" + rest.lstrip("/"))  # noqa: PTH110 - Path is slow for thousands of files
    if scheme:
        return True
    if lake.on_s3:
        return _is_on_s3(lake, path)
    return os.path.exists(os.path.join(lake.path, path))  # noqa: PTH110, PTH118 - likewise


def _is_on_s3(lake: Lake, key: str) -> bool:
    try:
        open_store(lake).tail(key, 1)
    except OutputUnreachable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return False
        raise
    return True
