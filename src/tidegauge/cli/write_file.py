"""Write a file that was asked for, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from tidegauge.errors import ConfigError
from tidegauge.model.secret import mask


def check_place(file: Path) -> None:
    """Before the work whose result it shall hold is begun."""
    if file.is_dir() or not file.parent.is_dir():
        why = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise ConfigError(f"{file} cannot be written: {why}", hint="choose another file")


def write_file(file: Path, text: str) -> None:
    """Beside it first, so that nobody sees half of it, and an older one is not lost to a full disk."""
    beside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(mask(text), encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}", hint="choose another file"
        ) from error
