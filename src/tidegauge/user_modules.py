"""Imports the user's modules from the folder of their project, for flows that they declare or name.

What a module prints goes to stderr: stdout is for the command's own answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tidegauge.declare import forget

_PREFIX = "tidegauge_flows_"
_LIBRARIES = ("site-packages", "dist-packages")
_importing = threading.RLock()
# The modules that each project of this process has imported, by its folder: two may both have a `silver`.
_brought: dict[Path, set[str]] = {}


class ModuleMissing(Exception):
    """The project has no module of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class ModuleHidden(Exception):
    """Python finds another module of this name before the project's own."""

    def __init__(self, wanted: Path, name: str, found: str | None) -> None:
        super().__init__(f"{wanted} is hidden by another module `{name}`, {found or 'a part of Python'}")


def import_by_name(root: Path, name: str, file: Path | None = None) -> ModuleType:
    """Import a module from the project's folder. Raises ModuleMissing, ModuleHidden if it is not `file`, and
    what the module itself raises."""
    with _from(root) as root:
        if name not in sys.modules:
            forget(name)
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and f"{name}.".startswith(f"{error.name}."):
                raise ModuleMissing(error.name) from error
            raise
        found = getattr(module, "__file__", None)
        wanted = file or next((path for path in _find_module_files(root, name) if path.is_file()), None)
        if wanted is not None and (found is None or not wanted.samefile(found)):
            raise ModuleHidden(wanted, name, found)
        return module


def import_by_file(root: Path, file: Path) -> ModuleType:
    """Import a file that has no module name below the project's folder. Raises what the file raises."""
    with _from(root):
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


def list_own_modules(root: Path) -> list[ModuleType]:
    """The modules of the project's folder that this process has imported."""
    with _importing:
        names = _brought.get(_normalize(root), set())
        return [sys.modules[name] for name in sorted(names) if name in sys.modules]


def is_own_file(root: Path, file: str | None) -> bool:
    """Whether a file is the project's own code, and not that of a library in its folder."""
    return (
        file is not None and Path(file).is_relative_to(root) and not set(_LIBRARIES) & set(Path(file).parts)
    )


@contextlib.contextmanager
def _from(root: Path) -> Iterator[Path]:
    """In this block imports look into the project's folder first, and into no other project's. Gives the
    folder as `sys.path` has it.

    The folder stays at the end of `sys.path`, for what functions import when they run.
    """
    root = _normalize(root)
    with _importing:
        _forget_other_projects(root)
        before = set(sys.modules)
        importlib.invalidate_caches()
        sys.path.insert(0, str(root))
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield root
        finally:
            sys.path.remove(str(root))
            if str(root) not in sys.path:
                sys.path.append(str(root))
            new = {name: sys.modules[name] for name in set(sys.modules) - before}
            _brought.setdefault(root, set()).update(
                name for name, module in new.items() if _is_own_module(root, module)
            )


def _normalize(root: Path) -> Path:
    return Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow links, unlike the modules' files


def _forget_other_projects(root: Path) -> None:
    for other in [other for other in _brought if other != root]:
        for name in _brought.pop(other):
            sys.modules.pop(name, None)
            forget(name)
        with contextlib.suppress(ValueError):
            sys.path.remove(str(other))


def _find_module_files(root: Path, name: str) -> tuple[Path, Path]:
    stem = root.joinpath(*name.split("."))
    return stem.with_name(f"{stem.name}.py"), stem / "__init__.py"


def _is_own_module(root: Path, module: ModuleType) -> bool:
    files = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return module.__name__.startswith(_PREFIX) or any(is_own_file(root, file) for file in files)
