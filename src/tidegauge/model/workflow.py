"""A project's work as tasks of somebody else's scheduler."""

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
    """None: every flow."""
    depends_on: tuple[str, ...] | None = None
    """None: as who reads whom says."""
    retries: int = 0
    description: str | None = None
    place: Place | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """Behind `tidegauge`, without the project."""
        return (self.command.value, *(part for word in self.select for part in ("--select", word)))


@dataclass(frozen=True)
class Workflow:
    name: str | None = None
    """None: the pipeline's."""
    tasks: tuple[Task, ...] = ()
    """None: one for each tag."""
    schedule: Cron | None = None
    """None: it is started by hand."""
    timezone: str = "UTC"
    email: tuple[str, ...] = ()
    """Who hears of a failure."""
    at: str | None = None
    """The project's folder where the tasks run; None: the same as here."""
