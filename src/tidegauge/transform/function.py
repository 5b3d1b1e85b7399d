"""Finds a transform in Python, calls it with frames by its inputs' names, and checks what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tidegauge.errors import TransformFailed
from tidegauge.model.delta_flow import Function
from tidegauge.transform.faults import explain_function_error, silence_pyspark
from tidegauge.user_modules import ModuleHidden, ModuleMissing, import_by_name, list_own_modules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def load(function: Function) -> Callable[..., Any]:
    """Import the function. Raises TransformFailed where there is none."""
    root = function.root or Path()
    if function.call is not None:
        if function.root is not None:
            _carry_to_workers(root)
        return function.call
    module_name, _, name = function.name.partition(":")
    if not module_name or not name:
        raise TransformFailed(
            f"{function.name} names no function", hint="write it as module:function, like silver:clusters"
        )
    module = _import(module_name, function, root)
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
            hint=f"it has {', '.join(there)}"
            if there
            else f"define it in {getattr(module, '__file__', None) or module_name}",
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
    except (Exception, SystemExit) as error:
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


def _import(name: str, function: Function, root: Path) -> ModuleType:
    try:
        module = import_by_name(root, name)
    except ModuleMissing as missing:
        raise TransformFailed(
            f"there is no module {missing.name} to import {function.name} from",
            hint=f"it is looked for in {root}",
        ) from missing
    except ModuleHidden as hidden:
        raise TransformFailed(str(hidden), hint="give the file another name") from hidden
    except (Exception, SystemExit) as error:
        raise explain_function_error(error, function.name, file=None, root=root) from error
    _carry_to_workers(root)
    return module


def _carry_to_workers(root: Path) -> None:
    """Spark's workers cannot import what lies in the project's folder: its functions go to them by value."""
    from pyspark import cloudpickle

    for module in list_own_modules(root):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _list_items(frames: Mapping[str, object]) -> str:
    names = list(frames)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
