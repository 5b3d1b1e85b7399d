"""Finds a transform in Python, calls it with frames by its inputs' names, and checks what it returns."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tidegauge.errors import TransformFailed
from tidegauge.model.delta_flow import Function
from tidegauge.transform.faults import explain_function_error, silence_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_importing = threading.Lock()
_roots: dict[str, str] = {}
"""For each imported module, the project folder that it came from."""


def load(function: Function) -> Callable[..., Any]:
    """Import the function. Raises TransformFailed where there is none."""
    if function.call is not None:
        return function.call
    module_name, _, name = function.name.partition(":")
    if not module_name or not name:
        raise TransformFailed(
            f"{function.name} names no function", hint="write it as module:function, like silver:clusters"
        )
    module = _import(module_name, function)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        there = sorted(
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        )
        raise TransformFailed(
            f"{module_name} has no function {name}",
            hint=f"it has {', '.join(there)}" if there else f"define it in {_file(module) or module_name}",
        )
    call: Callable[..., Any] = found
    return call


def call(function: Function, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Call the function and return its frame. Raises TransformFailed for every error in it."""
    from pyspark.sql import DataFrame

    made = load(function)
    code = getattr(inspect.unwrap(made), "__code__", None)
    try:
        inspect.signature(made).bind(**frames)
    except TypeError as error:
        raise TransformFailed(
            f"{function.name}{inspect.signature(made)} cannot be called with {_list_items(frames)}: {error}",
            hint="its parameters are the inputs of the flow, by their names",
        ) from error
    except ValueError:
        pass  # Python does not know the signature of everything that can be called.
    try:
        with silence_pyspark():
            result = made(**frames)
            if isinstance(result, DataFrame):
                _ = result.columns  # Spark Connect reports errors only when it is asked for the columns.
    except TransformFailed:
        raise
    except Exception as error:
        raise explain_function_error(
            error, function.name, file=code.co_filename if code else None, root=function.root
        ) from error
    if not isinstance(result, DataFrame):
        what = "nothing" if result is None else f"a {type(result).__module__}.{type(result).__qualname__}"
        raise TransformFailed(
            f"{function.name} returned {what.replace('a builtins.', 'a ')}, and not a Spark DataFrame",
            hint="return the DataFrame at its end" if result is None else "return a Spark DataFrame",
        )
    if result.isStreaming:
        raise TransformFailed(
            f"{function.name} returned a streaming DataFrame",
            hint="read with spark.read, not spark.readStream",
        )
    return result


def _import(name: str, function: Function) -> ModuleType:
    root = str(function.root.resolve()) if function.root is not None else None
    with _importing, _first_on_path(root):
        if root is not None:
            _forget_others(name.partition(".")[0], root)
        before = set(sys.modules)
        try:
            module = importlib.import_module(name)
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and error.name in (name, name.partition(".")[0]):
                raise TransformFailed(
                    f"there is no module {error.name}, of which {function.name} shall be taken",
                    hint=f"it is looked for in {root}" if root else "install it, or give its folder",
                ) from error
            raise explain_function_error(error, function.name, file=None, root=function.root) from error
        if root is not None:
            _carry_to_workers([module, *(sys.modules[new] for new in set(sys.modules) - before)], root)
    return module


@contextlib.contextmanager
def _first_on_path(root: str | None) -> Iterator[None]:
    """Put a folder first on `sys.path` for an import, and last afterwards, for imports inside functions."""
    if root is None:
        yield
        return
    sys.path.insert(0, root)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(root)
        if root not in sys.path:
            sys.path.append(root)


def _forget_others(top: str, root: str) -> None:
    """Forget modules of the same names that were imported from another project."""
    for name, module in list(sys.modules.items()):
        first = name.partition(".")[0]
        if first != top and _roots.get(name, root) == root:
            continue
        file = _file(module) or next(iter(getattr(module, "__path__", ())), None)
        theirs = any((Path(root) / part).exists() for part in (f"{first}.py", first))
        if theirs and file is not None and not Path(file).resolve().is_relative_to(root):
            del sys.modules[name]


def _carry_to_workers(modules: Iterable[ModuleType], root: str) -> None:
    """Spark's workers cannot import what lies in the project's folder: its functions go to them by value."""
    from pyspark import cloudpickle

    for module in modules:
        file = _file(module)
        if file is None or not Path(file).is_relative_to(root):
            continue
        if not {"site-packages", "dist-packages"} & set(Path(file).parts):
            _roots[module.__name__] = root
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _file(module: ModuleType) -> str | None:
    file = getattr(module, "__file__", None)
    return str(Path(file).resolve()) if isinstance(file, str) else None


def _list_items(frames: Mapping[str, object]) -> str:
    names = list(frames)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
