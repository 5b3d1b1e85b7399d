"""The folder for files that can always be made again, such as jars and a wrapper for Java."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    if chosen := os.environ.get("TIDEGAUGE_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tidegauge"
