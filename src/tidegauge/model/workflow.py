"""A project's work as tasks of an external scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidegauge.errors import Place
from tidegauge.model.cron import Cron


class TaskCommand(StrEnum):
    RUN = "run"
    OPTIMIZE = "optimize"
    HEALTH = "health"


@dataclass(frozen=True)
class Task:
    name: str
    command: TaskCommand = TaskCommand.RUN
    select: tuple[str, ...] = ()
    """What the task selects; empty: every flow."""
    depends_on: tuple[str, ...] | None = None
    """Names of tasks that have to end first; None: follows from which flow reads which."""
    retries: int = 0
    description: str | None = None
    place: Place | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments after `tidegauge`, without the project."""
        return (self.command.value, *(part for word in self.select for part in ("--select", word)))


@dataclass(frozen=True)
class Workflow:
    name: str | None = None
    """The workflow's name; None: the pipeline's name."""
    tasks: tuple[Task, ...] = ()
    """The tasks; empty: one for each tag."""
    schedule: Cron | None = None
    """When it starts; None: by hand."""
    timezone: str = "UTC"
    email: tuple[str, ...] = ()
    """Addresses that are notified of a failure."""
    at: str | None = None
    """The project's folder on the machine where the tasks run; None: the same as here."""
