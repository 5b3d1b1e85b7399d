"""A project's flows as tasks for an external scheduler, ordered by which flow reads which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter

from tidegauge.errors import ConfigError
from tidegauge.flows.selection.configured import (
    ConfiguredFlow,
    list_configured_flows,
    select_configured_flows,
)
from tidegauge.model.spec import Project
from tidegauge.model.workflow import Task, TaskCommand, Workflow

_REST = "untagged"

TaskDependencies = Mapping[str, frozenset[str]]
"""By task, the names of the tasks that have to end before it."""


@dataclass(frozen=True)
class PlannedWorkflow:
    workflow: Workflow
    """The complete workflow: every task with its flows and what it depends on."""
    notes: tuple[str, ...] = ()


def plan_workflow(
    project: Project, selection: Sequence[str] = (), *, by_flow: bool = False
) -> PlannedWorkflow:
    """Plan the tasks. `by_flow`: one task for each flow, whatever tasks the file has.

    Raises ConfigError for a task without flows, a flow in two tasks, and tasks that wait in a circle.
    """
    written = project.workflow or Workflow()
    everything = list_configured_flows(project)
    chosen = _choose(project, everything, selection)
    tasks = list_by_flow(everything) if by_flow else written.tasks or group_by_tag(everything)
    flows = {task.name: _select_flows(project, task) for task in tasks}
    runs = {task.name: flows[task.name] for task in tasks if task.command is TaskCommand.RUN}
    _refuse_twice(tasks, runs)
    needs = order_tasks(tasks, flows)
    narrowed = [_narrow(task, flows[task.name], chosen) for task in tasks]
    kept = [task for task in narrowed if task is not None]
    names = [task.name for task in kept]
    planned = tuple(replace(task, depends_on=_replace_dropped(task.name, needs, names)) for task in kept)
    made = replace(written, name=written.name or project.pipeline, tasks=planned)
    return PlannedWorkflow(made, tuple(_note_left_out(chosen, runs)))


def _note_left_out(
    chosen: Mapping[str, ConfiguredFlow], runs: Mapping[str, Sequence[ConfiguredFlow]]
) -> Iterator[str]:
    run = {one.name for flows in runs.values() for one in flows}
    names = [name for name in chosen if name not in run]
    if names:
        yield f"no task of `workflow:` runs {', '.join(names)}"


def _choose(
    project: Project, everything: Sequence[ConfiguredFlow], selection: Sequence[str]
) -> dict[str, ConfiguredFlow]:
    if not everything:
        raise ConfigError("this project has no flows", hint="name some under `sync:` or `flows:`")
    chosen = {one.name: one for one in select_configured_flows(project, selection)}
    if not chosen:
        raise ConfigError(
            f"nothing is selected by {', '.join(selection)}",
            hint=f"there are: {', '.join(one.name for one in everything[:10])}",
        )
    return chosen


def group_by_tag(flows: Sequence[ConfiguredFlow]) -> tuple[Task, ...]:
    """Make one task for each first tag and one for flows without tags; only one if there are no tags."""
    if not any(one.tags for one in flows):
        return (Task("run"),)
    groups: dict[str, list[ConfiguredFlow]] = {}
    for one in flows:
        groups.setdefault(one.tags[0] if one.tags else "", []).append(one)
    names = _name_tasks(groups, "tags")
    return tuple(
        Task(name, select=tuple(word for one in groups[tag] for word in one.words))
        if not tag or any(tag in one.tags[1:] for one in flows)
        else Task(name, select=(f"tag:{tag}",))
        for name, tag in names.items()
    )


def list_by_flow(flows: Sequence[ConfiguredFlow]) -> tuple[Task, ...]:
    """Make one task for each flow, and for each table or pattern that a sync names."""
    words = [word for one in flows for word in one.words]
    return tuple(Task(name, select=(word,)) for name, word in _name_tasks(words, "flows").items())


def _name_tasks(words: Iterable[str], kind: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for word in words:
        name = _task_name(word) if word else _REST
        if names.setdefault(name, word) != word:
            raise ConfigError(
                f"the {kind} `{names[name]}` and `{word}` would be one task, `{name}`",
                hint="name the tasks in a `workflow:` block",
            )
    return names


def order_tasks(tasks: Sequence[Task], flows: Mapping[str, Sequence[ConfiguredFlow]]) -> TaskDependencies:
    """Return what each task depends on: as its `depends_on` says, or else by which flow reads which."""
    writers: dict[str, set[str]] = {}
    """The tasks that write each flow; tables of one sync may be in several tasks."""
    for task in tasks:
        for one in flows[task.name] if task.command is TaskCommand.RUN else ():
            writers.setdefault(one.name, set()).add(task.name)
    needs: TaskDependencies = {
        task.name: _derive(task, tasks, flows[task.name], writers)
        if task.depends_on is None
        else frozenset(task.depends_on)
        for task in tasks
    }
    _refuse_circles(tasks, needs)
    return {
        task.name: _shortest(needs, task.name) if task.depends_on is None else needs[task.name]
        for task in tasks
    }


def _derive(
    task: Task, tasks: Sequence[Task], flows: Sequence[ConfiguredFlow], writers: Mapping[str, set[str]]
) -> frozenset[str]:
    match task.command:
        case TaskCommand.RUN:
            found = {before for one in flows for name in one.reads for before in writers.get(name, ())}
        case TaskCommand.OPTIMIZE:
            found = {before for one in flows for before in writers.get(one.name, ())}
        case TaskCommand.HEALTH:
            found = {other.name for other in tasks if other.command is not TaskCommand.HEALTH}
    return frozenset(found - {task.name})


def _select_flows(project: Project, task: Task) -> tuple[ConfiguredFlow, ...]:
    found = select_configured_flows(project, task.select)
    if task.command is TaskCommand.OPTIMIZE:
        found = tuple(one for one in found if one.writes_delta)
    if not found:
        which = "no Delta table" if task.command is TaskCommand.OPTIMIZE else "no flow"
        words = f" by {', '.join(task.select)}" if task.select else ""
        raise ConfigError(
            f"the task `{task.name}` selects {which}{words}",
            hint="select names, patterns or `tag:WORD` of the flows in this file",
            place=task.place,
        )
    return found


def _refuse_twice(tasks: Sequence[Task], runs: Mapping[str, Sequence[ConfiguredFlow]]) -> None:
    """Raise ConfigError if two tasks run the same flow. A sync's tables may be in different tasks."""
    first: dict[tuple[str, str], str] = {}
    places = {task.name: task.place for task in tasks}
    for name, flows in runs.items():
        for flow, word in ((one.name, word) for one in flows for word in one.words):
            other = first.setdefault((flow, word), name)
            if other != name:
                raise ConfigError(
                    f"the tasks `{other}` and `{name}` both run {flow}",
                    hint="let one task run each flow: narrow `select` of one of them",
                    place=places[name],
                )


def _refuse_circles(tasks: Sequence[Task], needs: TaskDependencies) -> None:
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1]))
        places = {task.name: task.place for task in tasks}
        raise ConfigError(
            f"tasks wait for each other in a circle: {' → '.join(circle)}",
            hint="flows of each read what the one behind it writes: put such flows into one task, in a"
            " `workflow:` block",
            place=places[circle[0]],
        ) from None


def _find_all_needs(needs: TaskDependencies, name: str) -> frozenset[str]:
    """Return all tasks that have to end before a task, directly or indirectly."""
    return needs[name].union(*(_find_all_needs(needs, other) for other in needs[name]))


def _shortest(needs: TaskDependencies, name: str) -> frozenset[str]:
    """Return a task's dependencies, without those that its other dependencies wait for anyway."""
    implied = frozenset[str]().union(*(_find_all_needs(needs, other) for other in needs[name]))
    return needs[name] - implied


def _replace_dropped(name: str, needs: TaskDependencies, kept: Sequence[str]) -> tuple[str, ...]:
    """Return a task's dependencies, in task order; a dropped task is replaced by its own dependencies."""
    found: set[str] = set()
    waiting = list(needs[name])
    while waiting:
        one = waiting.pop()
        if one in kept:
            found.add(one)
        else:
            waiting += needs[one]
    return tuple(one for one in kept if one in found)


def _narrow(task: Task, flows: Sequence[ConfiguredFlow], chosen: Mapping[str, ConfiguredFlow]) -> Task | None:
    """Keep a task whose flows are all chosen; else select only its chosen flows. None: none is chosen."""
    words = [_common_words(one, chosen.get(one.name)) for one in flows]
    if words == [one.words for one in flows]:
        return task
    select = tuple(dict.fromkeys(word for found in words for word in found))
    return replace(task, select=select) if select else None


def _common_words(own: ConfiguredFlow, chosen: ConfiguredFlow | None) -> tuple[str, ...]:
    """Return the words for what both `own` and `chosen` mean."""
    if chosen is None:
        return ()
    if not chosen.in_part:
        return own.words
    if not own.in_part:
        return chosen.words
    pairs = [(one, other) for one in own.words for other in chosen.words]
    narrower = [other for one, other in pairs if fnmatchcase(other, one)]
    return tuple(dict.fromkeys(narrower + [one for one, other in pairs if fnmatchcase(one, other)]))


def _task_name(tag: str) -> str:
    name = re.sub(r"\W", "_", tag, flags=re.ASCII)
    return f"_{name}" if name[:1].isdigit() else name
