"""Imports the user's modules from the folder of their project, for flows that they declare or name.

What a module prints goes to stderr: stdout is for the command's own answer.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tidegauge.declare import forget

_PREFIX = "tidegauge_flows_"
_LIBRARIES = ("site-packages", "dist-packages")
_LIBRARY_FOLDERS = (Path(sysconfig.get_path("stdlib")), Path(__file__).parent)
_importing = threading.RLock()
_projects: set[Path] = set()
"""The folders of the projects of this process."""


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
        if not is_own_file(root, found) and any(is_own_file(other, found) for other in _projects):
            raise ModuleMissing(name)
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
    """The modules of the project's folder that this process has imported, whoever did it."""
    root = _normalize(root)
    return [
        module
        for module in _list_modules()
        if module.__name__.startswith(_PREFIX) or any(is_own_file(root, file) for file in _files_of(module))
    ]


def is_own_file(root: Path, file: str | None) -> bool:
    """Whether a file is the project's own code, and not that of a library in its folder."""
    return (
        file is not None
        and any((path := Path(file)).is_relative_to(spelling) for spelling in _spell(root))
        and not set(_LIBRARIES) & set(path.parts)
        and not any(path.is_relative_to(folder) for folder in _LIBRARY_FOLDERS)
    )


@contextlib.contextmanager
def _from(root: Path) -> Iterator[Path]:
    """In this block imports look into the project's folder first. Gives the folder as `sys.path` has it.

    The folder stays at the end of `sys.path`, for what functions import when they run. So do the folders of
    other projects, whose functions may be running, unless they have imported a module that this project has
    too: then that is forgotten.
    """
    root = _normalize(root)
    with _importing:
        _projects.add(root)
        _forget_clashing(root)
        importlib.invalidate_caches()
        sys.path.insert(0, str(root))
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield root
        finally:
            sys.path.remove(str(root))
            _keep_on_path(root)


def _normalize(root: Path) -> Path:
    return Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow links, unlike the modules' files


@functools.cache
def _spell(root: Path) -> tuple[Path, Path]:
    """The folder as it is given and without links: a notebook in it imports by the second."""
    return root, root.resolve()


def _keep_on_path(root: Path) -> None:
    """Put the folder at the end of `sys.path`, but before those of other projects."""
    folders = {str(one) for one in _projects}
    end = len(sys.path)
    while end and sys.path[end - 1] in folders:
        end -= 1
    if str(root) not in sys.path[:end]:
        sys.path[end:] = [str(root), *(one for one in sys.path[end:] if one != str(root))]


def _forget_clashing(root: Path) -> None:
    """Forget the modules of other projects that have the name of a module of this one, and take the folders
    of such projects off `sys.path`."""
    others = _projects - {root}
    if not others:
        return
    ours = {path.name.removesuffix(".py") for path in root.glob("*")}
    for module in _list_modules():
        name, files = module.__name__, _files_of(module)
        if name.partition(".")[0] not in ours:
            continue
        places = _find_module_files(root, name)
        if any(Path(file) in places for file in files):
            continue
        theirs = [one for one in others if any(is_own_file(one, file) for file in files)]
        if theirs:
            sys.modules.pop(name, None)
            forget(name)
        for other in theirs:
            with contextlib.suppress(ValueError):
                sys.path.remove(str(other))


def _list_modules() -> list[ModuleType]:
    """All imported modules, without what other libraries put among them that is none."""
    return [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType) and vars(module).get("__name__") == name != "__main__"
    ]


def _files_of(module: ModuleType) -> list[str]:
    """The file of a module and the folders of a package."""
    facts = vars(module)  # getattr may load a module that waits for its first use
    return [file for file in (facts.get("__file__"), *(facts.get("__path__") or ())) if isinstance(file, str)]


def _find_module_files(root: Path, name: str) -> tuple[Path, Path, Path]:
    """Where the project's folder has a module: a file, a package, or a folder without `__init__.py`."""
    stem = root.joinpath(*name.split("."))
    return stem.with_name(f"{stem.name}.py"), stem / "__init__.py", stem
