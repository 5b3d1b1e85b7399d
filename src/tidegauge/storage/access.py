"""Whether this user may write somewhere on a file system, found out without writing."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def find_barrier(path: Path, *, folder: bool) -> tuple[str, str] | None:
    """Why a file, or what lies in a folder, could not be written, and what mends it; None: nothing is in the
    way. A path that is not there yet is made by the first who writes."""
    standing = next(one for one in (path, *path.parents) if one.exists())
    if standing != path or folder:
        if not standing.is_dir():
            return (
                f"{standing} is a file, and a folder has to be there",
                "move the file away, or choose another path",
            )
        return _of_folder(standing)
    if not path.is_file():
        return f"{path} is no file", "move the folder away, or choose another path"
    if not _may(path, os.R_OK | os.W_OK):
        return f"this user may not write to {path}", f"chmod u+rw {shlex.quote(str(path))}, as its owner"
    return _of_folder(path.parent)  # a journal comes to stand beside the file


def _of_folder(folder: Path) -> tuple[str, str] | None:
    if _may(folder, os.R_OK | os.W_OK | os.X_OK):
        return None
    return (
        f"this user may not make files in {folder}",
        f"chmod u+rwx {shlex.quote(str(folder))}, as its owner",
    )


def _may(path: Path, mode: int) -> bool:
    # By the ids that a write would go by.
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)
