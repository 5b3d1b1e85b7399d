"""Writes a file that the user asked for, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from tidegauge.errors import ConfigError
from tidegauge.model.secret import mask


def check_place(file: Path) -> None:
    """Raise ConfigError if the file cannot be written; called before the work whose result it shall hold."""
    if file.is_dir() or not file.parent.is_dir():
        why = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise ConfigError(f"{file} cannot be written: {why}", hint="choose another file")


def write_file(file: Path, text: str) -> None:
    """Write the file under another name and rename it, so that nobody sees half a file, and a full disk does
    not destroy the older one."""
    beside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(mask(text), encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}", hint="choose another file"
        ) from error
