"""Finds and loads the project, as most commands need it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegauge.model.spec import Project


def open_project(path: Path | None) -> Project:
    from tidegauge.config.find import find_project
    from tidegauge.config.load import load_project

    return load_project(find_project(None, path))
