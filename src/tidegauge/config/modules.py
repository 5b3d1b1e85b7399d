"""Imports the user's modules that declare flows or have a schema, and says what is wrong with one."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import ModuleType

from tidegauge.config.document import show_path
from tidegauge.config.flow_values import is_dotted
from tidegauge.config.problems import InvalidValue, Problem, quoted
from tidegauge.config.values import local_path
from tidegauge.declare import FlowDeclaration, declared_in
from tidegauge.errors import ConfigError, Place
from tidegauge.model.secret import mask
from tidegauge.user_modules import ModuleHidden, ModuleMissing, import_by_file, import_by_name, is_own_file


def import_flows(root: Path, written: str, place: Place) -> tuple[FlowDeclaration, ...]:
    """The flows that the module or file declares. Raises ModuleFailed for all that can go wrong in it."""
    found = declared_in(import_module(root, written, place).__name__)
    if not found:
        raise ModuleFailed(
            f"{quoted(written)} declares no flow",
            place,
            "decorate a function there with `@tg.flow(…)`, or name the module that has one",
        )
    return found


def import_module(root: Path, written: str, place: Place) -> ModuleType:
    """The module or file, from the project's folder. Raises ModuleFailed if it cannot be imported."""
    root = Path(os.path.normpath(root))
    try:
        return _import_named(root, written, place)
    except ModuleFailed:
        raise
    except InvalidValue as complaint:
        raise ModuleFailed(complaint.message, place, complaint.hint) from None
    except ConfigError as error:
        # Raised by a declaration, with a message for the user.
        raise ModuleFailed(
            error.message, show_place(error.place) if error.place else place, error.hint
        ) from None
    except SyntaxError as error:
        where = Place(show_path(Path(error.filename or written)), error.lineno or 1, error.offset or 1)
        raise ModuleFailed(f"{quoted(written)} is not valid Python: {error.msg}", where) from None
    except (Exception, SystemExit) as error:
        reason = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        raise ModuleFailed(
            f"importing {quoted(written)} failed: {mask(reason)}",
            _find_own_line(root, error) or place,
            f"mend it, or install what it needs; `{_show_import_command(written)}` in {root} shows more",
        ) from None


def _show_import_command(written: str) -> str:
    return f"python {written}" if written.endswith(".py") else f"python -c 'import {written}'"


class ModuleFailed(Exception):
    """A module cannot be imported, or declares no flow."""

    def __init__(self, message: str, place: Place, hint: str | None = None) -> None:
        super().__init__(message)
        self.problem = Problem(message, place, hint)


def _import_named(root: Path, written: str, place: Place) -> ModuleType:
    file: Path | None = None
    name: str | None = written
    if written.endswith(".py"):
        file = Path(os.path.normpath(local_path(written, root)))
        if not file.is_file():
            raise ModuleFailed(f"there is no file {file}", place, "it is named relative to the project file")
        name = _find_module_name(root, file)
    elif not is_dotted(written):
        raise ModuleFailed(
            f"{quoted(written)} is neither a module nor a `.py` file",
            place,
            "write it as `pipelines.silver`, or as `pipelines/silver.py`",
        )
    if name is None:
        assert file is not None
        return import_by_file(root, file)
    try:
        return import_by_name(root, name, file)
    except ModuleMissing:
        raise ModuleFailed(
            f"there is no module {quoted(name)} in {root}",
            place,
            "modules are named from the project's folder on: `pipelines.silver` is pipelines/silver.py",
        ) from None
    except ModuleHidden as hidden:
        raise ModuleFailed(str(hidden), place, "give the file another name") from None


def _find_module_name(root: Path, file: Path) -> str | None:
    """The file's module name, seen from the project's folder; None if it has none."""
    if not file.is_relative_to(root):
        return None
    parts = file.relative_to(root).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
    return name if is_dotted(name) else None


def _find_own_line(root: Path, error: BaseException) -> Place | None:
    """The place of the last line of the project's own code that led to the error; None if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_own_file(root, frame.filename):
            return Place(show_path(Path(frame.filename)), frame.lineno or 1, (frame.colno or 0) + 1)
    return None


def show_place(place: Place) -> Place:
    return Place(show_path(Path(place.file)), place.line, place.column)
