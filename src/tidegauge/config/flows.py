"""Turns the entries of `flows:` into flows. Flows declared in Python are made here too."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tidegauge.config import values
from tidegauge.config.check import Problems
from tidegauge.config.expectations import make_expectations
from tidegauge.config.flow_combinations import (
    FlowConflict,
    in_a_flow,
    in_a_place,
    in_an_input,
    in_an_output,
)
from tidegauge.config.flow_keys import KINDS, FlowKeys, InputKeys, OutputKeys
from tidegauge.config.flow_values import NONE, VERSION, is_dotted
from tidegauge.config.optimize_flows import make_optimize
from tidegauge.config.problems import InvalidValue, KeyPath, quoted
from tidegauge.config.view_keys import ViewInputKeys, ViewKeys, ViewOutputKeys
from tidegauge.model.delta_flow import (
    DeltaFlow,
    DeltaInput,
    DeltaTable,
    Evaluate,
    Function,
    OnDelete,
    OnMissing,
    ReadByColumn,
    Sql,
    TableRef,
)
from tidegauge.model.expectation import Expectation, ForeignKey
from tidegauge.model.mode import Mode
from tidegauge.model.optimize_flow import OPTIMIZE, OptimizeFlow
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.spec import Drift, Lake
from tidegauge.model.view_flow import VIEW, ViewFlow, ViewName, WrittenInFlows

MAX_SQL = 1024 * 1024

_NAME = re.compile(r"\w[\w.-]*")
_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OURS = "__tidegauge"


@dataclass(frozen=True)
class ProjectContext:
    """What a flow takes from the rest of the project."""

    pipeline: str
    lakes: Sequence[Lake] = ()
    functions: Mapping[str, Function] = field(default_factory=dict)
    """Transforms declared in Python, by the flow's name."""
    schedule: FlowSchedule | None = None
    """The schedule of flows that have none of their own."""


MakeInput = Callable[[Problems, str, Any, KeyPath, ProjectContext], DeltaInput | None]


def make_flows(check: Problems, written: Any, around: ProjectContext) -> list[WrittenInFlows | OptimizeFlow]:
    if not isinstance(written, dict):
        return []
    found: list[WrittenInFlows | OptimizeFlow | None] = []
    for name, body in written.items():
        trail = ("flows", name)
        _check_name(check, name, trail)
        kind = (body.get("kind") if isinstance(body, dict) else None) or KINDS[0]
        if kind == VIEW:
            found.append(_make_view(check, name, body, trail, around))
        elif kind == OPTIMIZE:
            found.append(make_optimize(check, name, body, trail, around.pipeline))
        elif check.attempt(partial(values.choice(KINDS), kind), (*trail, "kind")) is not None:
            found.append(_make_flow(check, name, body, trail, around))
    return [flow for flow in found if flow is not None]


def _make_flow(
    check: Problems, name: str, body: Any, trail: KeyPath, around: ProjectContext
) -> DeltaFlow | None:
    if not isinstance(body, dict):
        check.require("be a mapping with `inputs` and an `output`", trail)
        return None
    before = len(check.problems)
    keys = check.keys(FlowKeys, body, trail)
    inputs = _make_inputs(check, body.get("inputs"), (*trail, "inputs"), around)
    output = _make_output(check, body.get("output"), (*trail, "output"), around)
    transform = around.functions.get(name)
    written = None if keys is None else keys.transform
    made = check.attempt(lambda: _read_transform(written, check.document.file.parent), (*trail, "transform"))
    expect = make_expectations(
        check,
        None if keys is None else keys.expect,
        (*trail, "expect"),
        lambda place, at: _find_expected_table(check, place, at, around),
    )
    if keys is None or output is None or len(check.problems) > before:
        return None
    flow = DeltaFlow(
        pipeline=around.pipeline,
        name=name,
        inputs=(*inputs, *_looked_up(expect)),
        output=output,
        transform=transform or made,
        expect=expect,
        evaluate=Evaluate(keys.evaluate),
        allow_nondeterministic=keys.allow_nondeterministic,
        drift=Drift(keys.drift),
        tags=keys.tags,
        place=check.document.key_place(trail),
        schedule=keys.schedule if "schedule" in keys.model_fields_set else around.schedule,
    )
    _refuse(check, in_a_flow(flow), trail)
    return flow if len(check.problems) == before else None


def _make_view(
    check: Problems, name: str, body: Any, trail: KeyPath, around: ProjectContext
) -> ViewFlow | None:
    before = len(check.problems)
    keys = check.keys(ViewKeys, body, trail)
    inputs = _make_inputs(check, body.get("inputs"), (*trail, "inputs"), around, _make_view_input)
    at_output = (*trail, "output")
    output = check.keys(ViewOutputKeys, body["output"], at_output) if body.get("output") is not None else None
    written = None if keys is None else keys.transform
    made = check.attempt(lambda: _read_view_sql(written, check.document.file.parent), (*trail, "transform"))
    if keys is None or output is None or made is None or len(check.problems) > before:
        return None
    return ViewFlow(
        pipeline=around.pipeline,
        name=name,
        inputs=inputs,
        output=ViewName(TableRef(name=output.table), check.document.key_place(at_output)),
        transform=made,
        tags=keys.tags,
        place=check.document.key_place(trail),
    )


def _check_name(check: Problems, name: str, trail: KeyPath) -> None:
    if not _NAME.fullmatch(name):
        check.add(
            f"{quoted(name)} cannot be the name of a flow",
            trail,
            hint="use letters, digits, `_`, `-` and `.`",
            at_key=True,
        )


def _make_inputs(
    check: Problems,
    written: Any,
    trail: KeyPath,
    around: ProjectContext,
    make: MakeInput | None = None,
) -> tuple[DeltaInput, ...]:
    if not isinstance(written, dict):
        return ()
    if not written:
        check.require("not be empty", trail, hint="name at least one table")
    seen: dict[str, str] = {}
    for name in written:
        twin = seen.setdefault(name.casefold(), name)
        if not _VIEW.fullmatch(name) or name.casefold().startswith(_OURS):
            check.add(
                f"{quoted(name)} cannot be the name of an input",
                (*trail, name),
                hint="it names a view: use letters, digits and `_`, none first that is a digit"
                if not name.casefold().startswith(_OURS)
                else f"names that begin with `{_OURS}` are taken",
                at_key=True,
            )
        elif twin != name:
            check.add(
                f"the inputs {quoted(twin)} and {quoted(name)} are one name to Spark",
                (*trail, name),
                hint="names of inputs differ by more than their case",
                at_key=True,
            )
    make = make or _make_input
    made = [make(check, name, body, (*trail, name), around) for name, body in written.items()]
    return tuple(part for part in made if part is not None)


def _make_input(
    check: Problems, name: str, body: Any, trail: KeyPath, around: ProjectContext
) -> DeltaInput | None:
    if not isinstance(body, str | dict):
        check.require("be a table's name, or a mapping with `table` or `path`", trail)
        return None
    place = check.document.key_place(trail)
    if isinstance(body, str):
        short = check.keys(InputKeys, {"table": body}, trail)
        return None if short is None else DeltaInput(name, TableRef(name=short.table), place=place)
    keys = check.keys(InputKeys, body, trail)
    if keys is None:
        return None
    _refuse(check, in_an_input(keys), trail)
    return DeltaInput(
        name=name,
        table=_make_table_ref(check, keys, trail, around),
        snapshot=keys.snapshot,
        raw=keys.feed is not None,
        initial=keys.initial,
        on_missing=OnMissing(keys.on_missing),
        max_versions=keys.max_versions,
        max_bytes=keys.max_bytes,
        by_column=_make_read_by_column(keys),
        place=place,
    )


def _find_expected_table(
    check: Problems, place: Mapping[str, Any], trail: KeyPath, around: ProjectContext
) -> TableRef:
    keys = check.keys(InputKeys, dict(place), trail)
    return TableRef() if keys is None else _make_table_ref(check, keys, trail, around)


def _looked_up(expect: Iterable[Expectation]) -> Iterator[DeltaInput]:
    """The tables of foreign keys as inputs, which are pinned with the plan like snapshots."""
    for one in expect:
        if isinstance(one.rule, ForeignKey):
            yield DeltaInput(one.rule.input, one.rule.table, snapshot=True, for_checks=True, place=one.place)


def _make_read_by_column(keys: InputKeys) -> ReadByColumn | None:
    if keys.snapshot or keys.cursor == VERSION:
        return None
    column = None if keys.cursor == NONE else keys.cursor
    return ReadByColumn(column, keys.key, keys.lookback, keys.settle, keys.format)


def _make_view_input(
    check: Problems, name: str, body: Any, trail: KeyPath, around: ProjectContext
) -> DeltaInput | None:
    keys = check.keys(ViewInputKeys, {"table": body} if isinstance(body, str) else body, trail)
    if keys is None:
        return None
    _refuse(check, in_a_place(keys, "input"), trail)
    return DeltaInput(
        name, _make_table_ref(check, keys, trail, around), place=check.document.key_place(trail)
    )


def _make_output(check: Problems, body: Any, trail: KeyPath, around: ProjectContext) -> DeltaTable | None:
    if not isinstance(body, dict):
        return None
    keys = check.keys(OutputKeys, body, trail)
    if keys is None:
        return None
    _refuse(check, in_an_output(keys), trail)
    return DeltaTable(
        table=_make_table_ref(check, keys, trail, around),
        mode=Mode(keys.mode),
        key=keys.key,
        sequence_by=keys.sequence_by,
        partition_by=keys.partition_by,
        track=keys.track,
        surrogate_key=keys.surrogate_key,
        on_delete=OnDelete(keys.on_delete),
        zorder=keys.zorder,
        deletion_vectors=keys.deletion_vectors,
        place=check.document.key_place(trail),
    )


def _make_table_ref(
    check: Problems,
    keys: InputKeys | OutputKeys | ViewInputKeys,
    trail: KeyPath,
    around: ProjectContext,
) -> TableRef:
    written = keys.path
    if written is None:
        return TableRef(name=keys.table)
    path = check.attempt(lambda: values.lake_path(written, check.document.file.parent), (*trail, "path"))
    if path is None or path.startswith("s3a://"):
        return TableRef(path=path, storage=storage_of(path, around.lakes) if path else None)
    return TableRef(path=os.path.normpath(path))


def storage_of(path: str, lakes: Iterable[Lake]) -> Lake | None:
    """The connection whose path is above this one, the nearest of several; None if there is none."""
    above = [lake for lake in lakes if f"{path}/".startswith(f"{lake.path}/")]
    return max(above, key=lambda lake: len(lake.path), default=None)


def _refuse(check: Problems, conflicts: Iterator[FlowConflict], trail: KeyPath) -> None:
    for conflict in conflicts:
        where = check.first_written(*((*trail, *below) for below in conflict.trails))
        check.add(conflict.message, where, hint=conflict.hint, at_key=True)


def _read_transform(written: str | None, base: Path) -> Sql | Function | None:
    if written is None:
        return None
    if written.lower().endswith(".sql"):
        return _read_sql(Path(values.local_path(written, base)))
    module, _, function = written.partition(":")
    if is_dotted(module) and is_dotted(function):
        return Function(name=written, root=base)
    hint = "write a path that ends in `.sql`, or `MODULE:FUNCTION`"
    if module.endswith(".py") and is_dotted(function):
        hint = f"write `{module.removesuffix('.py').replace('/', '.')}:{function}`"
    elif re.match(r"\s*(select|with|from)\s", written, re.IGNORECASE):
        hint = "put the SQL into a file of its own, and its path here"
    raise InvalidValue(f"{quoted(written)} is neither a `.sql` file nor a function", hint=hint)


def _read_view_sql(written: str | None, base: Path) -> Sql | None:
    made = _read_transform(written, base)
    if isinstance(made, Function):
        raise InvalidValue(
            "a view is made of SQL, and a function can only run",
            hint="put a SELECT into a `.sql` file, or leave `kind` out for a table",
        )
    return made


def _read_sql(file: Path) -> Sql:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_SQL + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidValue(
            f"the SQL file {file} is not UTF-8: byte 0x{data[error.start]:02x} in line {line}",
            hint="save it as UTF-8",
        ) from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InvalidValue(
            f"the SQL file {file} cannot be read: {reason}",
            hint="check the path, which is relative to the project file, and its permissions",
        ) from None
    if len(data) > MAX_SQL:
        raise InvalidValue(f"the SQL file {file} is larger than {MAX_SQL >> 20} MiB")
    if not text.strip():
        raise InvalidValue(f"the SQL file {file} is empty", hint="write a SELECT over the inputs' names")
    return Sql(text=text, file=file)
