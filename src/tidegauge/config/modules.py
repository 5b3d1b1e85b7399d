"""Imports the user's modules that declare flows."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tidegauge.config.document import show_path
from tidegauge.config.flow_values import is_dotted
from tidegauge.config.problems import Complaint, Problem, quoted
from tidegauge.config.values import local_path
from tidegauge.declare import Declared, declared_in, forget
from tidegauge.errors import ConfigError, Place
from tidegauge.model.secret import mask

_PREFIX = "tidegauge_flows_"
_LIBRARIES = ("site-packages", "dist-packages")
# The modules that each project of this process has imported, by its folder: two may both have a `silver`.
_brought: dict[Path, set[str]] = {}


def import_flows(root: Path, written: str, place: Place) -> tuple[Declared, ...]:
    """The flows that the module or file declares. Raises Failed for everything that can go wrong in it."""
    found = declared_in(import_module(root, written, place).__name__)
    if not found:
        raise ModuleFailed(
            f"{quoted(written)} declares no flow",
            place,
            "decorate a function there with `@tg.flow(…)`, or name the module that has one",
        )
    return found


def import_module(root: Path, written: str, place: Place) -> ModuleType:
    """The module or file, imported from the project's folder. Raises Failed if it cannot be imported."""
    root = Path(os.path.normpath(root))
    try:
        return _import_named(root, written, place)
    except ModuleFailed:
        raise
    except Complaint as complaint:
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
    with _from(root):
        if name is None:
            assert file is not None
            return _import_by_file(file)
        return _import_by_name(root, name, file, place)


def _import_by_name(root: Path, name: str, file: Path | None, place: Place) -> ModuleType:
    if name not in sys.modules:
        forget(name)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise ModuleFailed(
                f"there is no module {quoted(name)} in {root}",
                place,
                "modules are named from the project's folder on: `pipelines.silver` is pipelines/silver.py",
            ) from None
        raise
    found = getattr(module, "__file__", None)
    wanted = file or next((path for path in _find_module_files(root, name) if path.is_file()), None)
    if wanted is not None and (found is None or not wanted.samefile(found)):
        raise ModuleFailed(
            f"{wanted} is hidden by another module {quoted(name)}, {found or 'a part of Python'}",
            place,
            "give the file another name",
        )
    return module


def _import_by_file(file: Path) -> ModuleType:
    """Import a file that has no module name below the project's folder."""
    digest = hashlib.sha256(os.fsencode(file)).hexdigest()[:8]
    name = f"{_PREFIX}{re.sub(r'[^A-Za-z0-9]', '_', file.stem)}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextlib.contextmanager
def _from(root: Path) -> Iterator[None]:
    """In this block imports look into the project's folder first, and into no other project's.

    The folder stays at the end of `sys.path`, for what functions import when they run. What a module prints
    goes to stderr: stdout is for the command's own answer.
    """
    for other in [other for other in _brought if other != root]:
        for name in _brought.pop(other):
            sys.modules.pop(name, None)
            forget(name)
        with contextlib.suppress(ValueError):
            sys.path.remove(str(other))
    before = set(sys.modules)
    importlib.invalidate_caches()
    sys.path.insert(0, str(root))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path.remove(str(root))
        if str(root) not in sys.path:
            sys.path.append(str(root))
        new = {name: sys.modules[name] for name in set(sys.modules) - before}
        _brought.setdefault(root, set()).update(
            name for name, module in new.items() if _is_own_module(root, module)
        )


def _find_module_name(root: Path, file: Path) -> str | None:
    """The file's module name, seen from the project's folder; None if it has none."""
    if not file.is_relative_to(root):
        return None
    parts = file.relative_to(root).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
    return name if is_dotted(name) else None


def _find_module_files(root: Path, name: str) -> tuple[Path, Path]:
    stem = root.joinpath(*name.split("."))
    return stem.with_name(f"{stem.name}.py"), stem / "__init__.py"


def _find_own_line(root: Path, error: BaseException) -> Place | None:
    """The place of the last line of the project's own code that led to the error; None if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_own(root, frame.filename):
            return Place(show_path(Path(frame.filename)), frame.lineno or 1, (frame.colno or 0) + 1)
    return None


def _is_own_module(root: Path, module: ModuleType) -> bool:
    files = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return module.__name__.startswith(_PREFIX) or any(_is_own(root, file) for file in files)


def _is_own(root: Path, file: str | None) -> bool:
    return (
        file is not None and Path(file).is_relative_to(root) and not set(_LIBRARIES) & set(Path(file).parts)
    )


def show_place(place: Place) -> Place:
    return Place(show_path(Path(place.file)), place.line, place.column)
