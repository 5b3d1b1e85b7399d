"""Whether this user may write somewhere on a file system, found out without writing."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def find_barrier(path: Path, *, folder: bool) -> tuple[str, str] | None:
    """Why this user could not write a file, or files in a folder, and what mends it; None if nothing is in
    the way. A path need not exist yet: the first writer makes it."""
    standing = next(one for one in (path, *path.parents) if one.exists())
    if standing != path or folder:
        if not standing.is_dir():
            return (
                f"{standing} is a file, and a folder has to be there",
                "move the file away, or choose another path",
            )
        return _find_folder_barrier(standing)
    if not path.is_file():
        return f"{path} is no file", "move the folder away, or choose another path"
    if not _has_access(path, os.R_OK | os.W_OK):
        return f"this user may not write to {path}", f"chmod u+rw {shlex.quote(str(path))}, as its owner"
    return _find_folder_barrier(path.parent)  # SQLite writes a journal beside the file


def _find_folder_barrier(folder: Path) -> tuple[str, str] | None:
    if _has_access(folder, os.R_OK | os.W_OK | os.X_OK):
        return None
    return (
        f"this user may not make files in {folder}",
        f"chmod u+rwx {shlex.quote(str(folder))}, as its owner",
    )


def _has_access(path: Path, mode: int) -> bool:
    # By the effective ids, which decide on a write, too.
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)
