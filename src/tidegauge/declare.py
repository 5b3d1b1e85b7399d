"""Flows in Python: `@tg.flow(…)` over a function that makes one table of its inputs.

A declaration only records the flow and returns the function unchanged, so that tests can call it. The
flow belongs to the module whose import ran the declaration. A project names such modules under `modules:`,
and the flows are checked when the project is read.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from types import CodeType, FrameType
from typing import Any, TypeVar

from tidegauge.errors import ConfigError, Place

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class DeclaredInput:
    """A table that a flow reads; made by `changes` and `snapshot`."""

    keys: Mapping[str, Any]
    """The keys that were given, named as in the project file under `inputs:`."""
    place: Place


@dataclass(frozen=True)
class DeclaredOutput:
    """The table that a flow writes; made by `delta`."""

    keys: Mapping[str, Any]
    place: Place


@dataclass(frozen=True)
class FlowDeclaration:
    name: str
    inputs: Mapping[str, DeclaredInput | str]
    output: DeclaredOutput | None
    """None for an optimize flow, which has neither inputs nor an output."""
    keys: Mapping[str, Any]
    """The other keys of the flow that were given, such as `evaluate`, `drift`, `tags` or `kind`."""
    place: Place
    module: str
    function: Callable[..., Any] | None = field(repr=False)
    """The function that makes the table; None for a view, whose SQL is in a file, and an optimize flow."""


@dataclass
class _ModuleFlows:
    """The flows that one execution of a module has declared."""

    code: CodeType | None
    flows: list[FlowDeclaration] = field(default_factory=list)


_modules: dict[str, _ModuleFlows] = {}


def changes(
    table: str | None = None,
    *,
    path: str | None = None,
    initial: str | int | date | None = None,
    on_missing: str | None = None,
    max_versions: int | None = None,
    max_bytes: int | str | None = None,
    feed: str | None = None,
    cursor: str | None = None,
    key: str | Sequence[str] | None = None,
    lookback: str | None = None,
    settle: str | None = None,
    format: str | None = None,  # noqa: A002 - as the file calls it
) -> DeclaredInput:
    """An input whose changes the flow follows: a Delta table by its versions, or any table by a column."""
    keys = {
        "table": table,
        "path": path,
        "initial": initial.isoformat() if isinstance(initial, date) else initial,
        "on_missing": on_missing,
        "max_versions": max_versions,
        "max_bytes": max_bytes,
        "feed": feed,
        "cursor": cursor,
        "key": key if key is None or isinstance(key, str) else list(key),
        "lookback": lookback,
        "settle": settle,
        "format": format,
    }
    return DeclaredInput(_given(keys), _place(sys._getframe(1)))


def snapshot(table: str | None = None, *, path: str | None = None) -> DeclaredInput:
    """A Delta table to join with, pinned when a plan is made. A change of it alone gives the flow no work."""
    return DeclaredInput(_given({"table": table, "path": path, "snapshot": True}), _place(sys._getframe(1)))


def delta(
    table: str | None = None,
    *,
    path: str | None = None,
    mode: str | None = None,
    key: str | Sequence[str] | None = None,
    sequence_by: str | None = None,
    partition_by: str | Sequence[str] | None = None,
    track: str | Sequence[str] | None = None,
    surrogate_key: str | None = None,
    on_delete: str | None = None,
    zorder: str | Sequence[str] | None = None,
    deletion_vectors: bool | None = None,
) -> DeclaredOutput:
    """The Delta table that a flow writes."""
    keys = {
        "table": table,
        "path": path,
        "mode": mode,
        "key": key,
        "sequence_by": sequence_by,
        "partition_by": partition_by,
        "track": track,
        "surrogate_key": surrogate_key,
        "on_delete": on_delete,
        "zorder": zorder,
        "deletion_vectors": deletion_vectors,
    }
    return DeclaredOutput(_given(keys), _place(sys._getframe(1)))


def flow(
    *,
    output: DeclaredOutput,
    evaluate: str | None = None,
    allow_nondeterministic: bool | None = None,
    drift: str | None = None,
    tags: str | Sequence[str] | None = None,
    name: str | None = None,
    expect: Mapping[str, Any] | object | None = None,
    schedule: str | Mapping[str, str] | None = None,
    **inputs: DeclaredInput | str,
) -> Callable[[_F], _F]:
    """Declare a flow: the function takes each input as a DataFrame by its name, and returns one.

    An input may be just a table's name, which is the same as `changes` of it. The flow has the function's
    name, unless `name` gives another. Raises ConfigError, with the place, for a wrong output or input.
    """
    frame = sys._getframe(1)
    place = _place(frame)
    if not isinstance(output, DeclaredOutput):
        raise ConfigError(
            f"`output` is a {type(output).__name__}, and not a table to write",
            hint='write `output=tg.delta("SCHEMA.TABLE", …)`',
            place=place,
        )
    for key, value in inputs.items():
        if not isinstance(value, DeclaredInput | str):
            raise ConfigError(
                f"the input `{key}` is a {type(value).__name__}, and not a table to read",
                hint=f'write `{key}=tg.changes("SCHEMA.TABLE")`, or the same with `tg.snapshot`',
                place=place,
            )
    keys = _given(
        {
            "evaluate": evaluate,
            "allow_nondeterministic": allow_nondeterministic,
            "drift": drift,
            "tags": tags,
            "expect": expect,
            "schedule": schedule,
        }
    )
    module, code = _find_running(frame)

    def declare(function: _F) -> _F:
        if not callable(function):
            raise ConfigError("only a function can be a flow", place=place)
        _flows_of(module, code).flows.append(
            FlowDeclaration(
                name=name or str(getattr(function, "__name__", type(function).__name__)),
                inputs=dict(inputs),
                output=output,
                keys=keys,
                place=place,
                module=module,
                function=function,
            )
        )
        return function

    return declare


def view(
    table: str,
    *,
    transform: str,
    name: str | None = None,
    tags: str | Sequence[str] | None = None,
    **inputs: str | DeclaredInput,
) -> None:
    """Declare a view in Spark's catalogue, made of the SELECT in the file `transform` over the inputs.

    An input is the name of a table or of another view, or `tg.table(path=…)` for a table by its folder. The
    flow has the view's name without its schema, unless `name` gives another.
    """
    frame = sys._getframe(1)
    place = _place(frame)
    module, code = _find_running(frame)
    _flows_of(module, code).flows.append(
        FlowDeclaration(
            name=name or table.rpartition(".")[2],
            inputs=dict(inputs),
            output=DeclaredOutput({"table": table}, place),
            keys=_given({"kind": "view", "transform": transform, "tags": tags}),
            place=place,
            module=module,
            function=None,
        )
    )


def optimize(
    name: str,
    *,
    select: str | Sequence[str] | None = None,
    vacuum: bool | None = None,
    tags: str | Sequence[str] | None = None,
) -> None:
    """Declare a flow that compacts and vacuums the tables of other flows after they have run, where it pays.

    `select` names those flows: names, patterns or `tag:WORD`; without it, all that write a Delta table.
    """
    frame = sys._getframe(1)
    module, code = _find_running(frame)
    _flows_of(module, code).flows.append(
        FlowDeclaration(
            name=name,
            inputs={},
            output=None,
            keys=_given({"kind": "optimize", "select": select, "vacuum": vacuum, "tags": tags}),
            place=_place(frame),
            module=module,
            function=None,
        )
    )


def table(name: str | None = None, *, path: str | None = None) -> DeclaredInput:
    """A table that a view reads, by its name or its folder."""
    return DeclaredInput(_given({"table": name, "path": path}), _place(sys._getframe(1)))


def declared_in(module: str) -> tuple[FlowDeclaration, ...]:
    """The flows that the last execution of this module has declared, in order."""
    found = _modules.get(module)
    return tuple(found.flows) if found else ()


def forget(module: str) -> None:
    """Drop the flows of this module before it is executed again, as it may then declare fewer."""
    _modules.pop(module, None)


def _flows_of(module: str, code: CodeType | None) -> _ModuleFlows:
    found = _modules.get(module)
    if found is None or found.code is not code:
        # Another code object: the module was reloaded, and its earlier declarations no longer count.
        found = _modules[module] = _ModuleFlows(code)
    return found


def _find_running(frame: FrameType) -> tuple[str, CodeType | None]:
    """The module being executed, also when it calls a function of another module to declare flows."""
    name = str(frame.f_globals.get("__name__"))
    at: FrameType | None = frame
    while at is not None:
        if at.f_code.co_name == "<module>":
            return str(at.f_globals.get("__name__")), at.f_code
        at = at.f_back
    return name, None


def _given(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that are not None."""
    return {key: value for key, value in keys.items() if value is not None}


def _place(frame: FrameType) -> Place:
    code = frame.f_code
    line, _, column, _ = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None))
    return Place(code.co_filename, line or frame.f_lineno or 1, (column or 0) + 1)
