"""What is common to warehouses that are one file on this machine."""

from __future__ import annotations

from abc import abstractmethod

from tidegauge.errors import OutputUnreachable
from tidegauge.model.engines import FACTS
from tidegauge.model.spec import Database
from tidegauge.outputs.warehouse.warehouse import Warehouse


class FileWarehouse(Warehouse):
    clock_here = True

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        assert database.path is not None
        self._path = database.path

    @property
    def place(self) -> str:
        return f"{self.database.engine} {self._path}"

    def is_there(self) -> bool:
        return self._path.exists()

    @abstractmethod
    def look(self) -> None:
        """Open the file and change nothing. Raises OutputUnreachable where a run could not write to it now:
        it is no database of this engine, or another process has it."""

    def cannot_open(self, said: str, *, held: bool) -> OutputUnreachable:
        """The error to raise. `held`: another process has the file, so trying again may help."""
        title = FACTS[self.database.engine].title
        return OutputUnreachable(
            f"the {title} file {self._path} cannot be opened: {said}",
            hint="another process has it open: run again when that one is done"
            if held
            else f"check the path in `connections:`, and that the file is a {title} database of yours",
            retryable=held,
        )
