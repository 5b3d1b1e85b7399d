"""Turns the block `workflow:` into tasks for another scheduler."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any

from pydantic import Field

from tidegauge.config import values
from tidegauge.config.check import Problems
from tidegauge.config.forms import DocumentedDefault, Keys, Mapped, MaybeText, Texts, ValueParser
from tidegauge.config.problems import InvalidValue, quoted, suggest
from tidegauge.config.schedule import cron as parse_cron_key
from tidegauge.config.schedule import timezone as parse_timezone
from tidegauge.errors import ConfigError
from tidegauge.model.cron import Cron
from tidegauge.model.workflow import Task, TaskCommand, Workflow

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_ADDRESS = re.compile(r"[^\s@,;<>\"']+@[^\s@,;<>\"']+")


def _parse_email(value: Any) -> tuple[str, ...]:
    found = values.texts(value)
    for index, address in enumerate(found):
        if not _ADDRESS.fullmatch(address):
            trail = (index,) if isinstance(value, list) else ()
            raise InvalidValue(
                f"{quoted(address)} is not a mail address", hint="write NAME@HOST", trail=trail
            )
    return found


class WorkflowKeys(Keys):
    name: Annotated[MaybeText, DocumentedDefault("the pipeline's name")] = Field(
        default=None, description="What the job is called there."
    )
    schedule: Annotated[
        Cron | None,
        ValueParser(parse_cron_key, "five fields, such as `30 5 * * *`"),
        DocumentedDefault("started by hand"),
    ] = Field(default=None, description="When it starts: minute, hour, day, month, day of the week.")
    timezone: Annotated[str, ValueParser(parse_timezone, "time zone, such as `Europe/Berlin`")] = Field(
        default="UTC", description="The time zone of the schedule."
    )
    email: Annotated[
        tuple[str, ...], ValueParser(_parse_email, "mail address or list"), DocumentedDefault("nobody")
    ] = Field(default=(), description="Who is told when it fails.")
    at: Annotated[MaybeText, DocumentedDefault("where it is here")] = Field(
        default=None, description="The project's folder on the machines where the tasks run."
    )
    tasks: Annotated[Mapped, DocumentedDefault("one for each tag")] = Field(
        default={}, description="By name, of letters, digits and `_`; see below."
    )


class TaskKeys(Keys):
    command: Annotated[str, ValueParser(values.choice(TaskCommand), "`run`, `optimize`, `health`")] = Field(
        default="run", description="The command of `tidegauge` that it calls."
    )
    select: Annotated[Texts, DocumentedDefault("every flow")] = Field(
        default=(), description="Its flows, as `--select` takes them: names, patterns, `tag:WORD`."
    )
    depends_on: Annotated[
        tuple[str, ...] | None,
        ValueParser(values.texts, "task or list"),
        DocumentedDefault("by who reads whom"),
    ] = Field(
        default=None,
        description="The tasks that have to end well before it. Left out, a task waits for those that write "
        "what it reads, `optimize` for every task that runs its flows, and `health` for all others.",
    )
    retries: Annotated[int, ValueParser(values.whole(0, 100), "0 to 100")] = Field(
        default=0, description="How often it is tried again."
    )
    description: Annotated[MaybeText, DocumentedDefault("none")] = Field(
        default=None, description="A sentence for people who look at the job."
    )


def make_workflow(check: Problems, written: Any) -> Workflow | None:
    if not isinstance(written, dict):
        return None
    keys = check.keys(WorkflowKeys, written, ("workflow",))
    bodies = written.get("tasks")
    tasks = (
        [_make_task(check, name, body) for name, body in bodies.items()] if isinstance(bodies, dict) else []
    )
    made = tuple(task for task in tasks if task is not None)
    if len(made) == len(tasks):
        _check_order(check, made)
    if keys is None:
        return None
    return Workflow(keys.name, made, keys.schedule, keys.timezone, keys.email, keys.at)


def override_workflow(
    workflow: Workflow,
    *,
    schedule: str | None = None,
    timezone: str | None = None,
    email: Sequence[str] | None = None,
) -> Workflow:
    """The workflow with these values in place of the file's. Raises ConfigError for wrong ones."""
    try:
        return replace(
            workflow,
            schedule=workflow.schedule if schedule is None else parse_cron_key(schedule),
            timezone=workflow.timezone if timezone is None else parse_timezone(timezone),
            email=_parse_email(list(email)) if email else workflow.email,
        )
    except InvalidValue as complaint:
        raise ConfigError(complaint.message, hint=complaint.hint) from None


def _make_task(check: Problems, name: str, body: Any) -> Task | None:
    trail = ("workflow", "tasks", name)
    if not _NAME.fullmatch(name):
        check.add(
            f"{quoted(name)} cannot be the name of a task",
            trail,
            hint="use letters, digits and `_`, at most 100, and none first that is a digit",
            at_key=True,
        )
    keys = check.keys(TaskKeys, body, trail)
    if keys is None:
        return None
    return Task(
        name,
        TaskCommand(keys.command),
        keys.select,
        keys.depends_on,
        keys.retries,
        keys.description,
        check.document.key_place(trail),
    )


def _check_order(check: Problems, tasks: tuple[Task, ...]) -> None:
    """Note a problem for a dependency on a task that is not there, and for a circle.

    The schedulers cannot be relied on to find either.
    """
    names = [task.name for task in tasks]
    dangling = False
    for task in tasks:
        for other in task.depends_on or ():
            if other not in names:
                dangling = True
                check.add(
                    f"the task {quoted(task.name)} depends on {quoted(other)}, which is no task",
                    ("workflow", "tasks", task.name, "depends_on"),
                    hint=suggest(other, [name for name in names if name != task.name]),
                )
    try:
        if not dangling:
            TopologicalSorter({task.name: task.depends_on or () for task in tasks}).prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1]))
        check.add(
            f"tasks wait for each other in a circle: {' → '.join(circle)}",
            ("workflow", "tasks", circle[0], "depends_on"),
            hint="each depends on the one behind it; take one of the dependencies out",
        )
