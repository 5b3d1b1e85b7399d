"""Flows declared in Python: checked like those of the project file, with errors that point to the Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tidegauge.config.check import Problems
from tidegauge.config.document import YamlDocument
from tidegauge.config.flows import ProjectContext, make_flows
from tidegauge.config.modules import ModuleFailed, import_flows, show_place
from tidegauge.config.problems import Problem, quoted
from tidegauge.declare import DeclaredInput, DeclaredOutput, FlowDeclaration
from tidegauge.errors import Place
from tidegauge.model.delta_flow import Function
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.view_flow import WrittenInFlows


def make_declared(
    check: Problems, modules: Sequence[str], around: ProjectContext
) -> list[WrittenInFlows | OptimizeFlow]:
    """The flows that these modules declare. A name that the project file has already is a problem."""
    root = check.document.file.parent
    taken = _find_flows_in_file(check)
    python = YamlDocument(check.document.file, {}, {(): check.document.place(())}, {})
    bodies: dict[str, Any] = {}
    functions: dict[str, Function] = {}
    for declared in _import_declared(check, modules):
        place, first = show_place(declared.place), taken.get(declared.name)
        if first is not None:
            check.problems.append(
                Problem(
                    f"there are two flows {quoted(declared.name)}, the first one at {first}",
                    place,
                    "give one of them another name",
                )
            )
            continue
        taken[declared.name] = place
        python.values["flows", declared.name] = place
        bodies[declared.name] = _make_body(python, declared)
        if declared.function is not None:
            functions[declared.name] = Function(
                name=f"{declared.module}:{getattr(declared.function, '__qualname__', declared.name)}",
                root=root,
                call=declared.function,
            )
            _check_parameters(check.problems, declared, declared.function, place)
    return make_flows(check.beside(python), bodies, replace(around, functions=functions))


def _find_flows_in_file(check: Problems) -> dict[str, Place]:
    flows = check.document.root.get("flows")
    return (
        {name: check.document.key_place(("flows", name)) for name in flows} if isinstance(flows, dict) else {}
    )


def _import_declared(check: Problems, modules: Sequence[str]) -> list[FlowDeclaration]:
    found: dict[int, FlowDeclaration] = {}
    several = isinstance(check.document.written(("modules",)), list)
    for index, written in enumerate(modules):
        place = check.document.place(("modules", index) if several else ("modules",))
        try:
            # Keyed by identity, as one module may be named twice: as a module and as a file.
            found |= {id(one): one for one in import_flows(check.document.file.parent, written, place)}
        except ModuleFailed as failed:
            check.problems.append(failed.problem)
    return list(found.values())


def _make_body(document: YamlDocument, declared: FlowDeclaration) -> dict[str, Any]:
    """The flow as it would be written in the project file. Notes the places of its parts in `document`."""
    trail = ("flows", declared.name)
    if declared.output is None:
        return _as_yaml(declared.keys)
    inputs: dict[str, Any] = {}
    for name, part in declared.inputs.items():
        inputs[name] = _as_yaml(part.keys) if isinstance(part, DeclaredInput) else part
        document.values[*trail, "inputs", name] = _place(part, declared)
    document.values[*trail, "output"] = _place(declared.output, declared)
    return {**_as_yaml(declared.keys), "inputs": inputs, "output": _as_yaml(declared.output.keys)}


def _place(part: DeclaredInput | DeclaredOutput | str, declared: FlowDeclaration) -> Place:
    """The place of the table, if it is in the flow's file; else the place of the flow."""
    if isinstance(part, str) or part.place.file != declared.place.file:
        return show_place(declared.place)
    return show_place(part.place)


def _as_yaml(keys: Any) -> dict[str, Any]:
    return {key: _text(value) for key, value in keys.items()}


def _text(value: Any) -> Any:
    """The value as the text that YAML would give. Values of other types are left for the checks to refuse."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return str(value)
    return [_text(item) for item in value] if isinstance(value, list | tuple) else value


def _check_parameters(
    problems: list[Problem], declared: FlowDeclaration, function: Callable[..., Any], place: Place
) -> None:
    """Note a problem for each input that is no parameter of the function, and the other way round."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    by_name = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    for name in declared.inputs:
        if name not in by_name and not takes_any:
            problems.append(
                Problem(
                    f"{quoted(name)} is an input of the flow {quoted(declared.name)}, and its function does"
                    " not take it",
                    place,
                    f"its parameters are named like the inputs: {', '.join(declared.inputs)}",
                )
            )
    for name, parameter in signature.parameters.items():
        needed = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        )
        if needed and (name not in declared.inputs or name not in by_name):
            problems.append(
                Problem(
                    f"the function of the flow {quoted(declared.name)} wants {quoted(name)}, which is no"
                    " input",
                    place,
                    "add the input, or give the parameter a default value",
                )
            )
