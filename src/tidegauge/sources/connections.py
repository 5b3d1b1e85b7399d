"""The open source databases of one thread."""

from __future__ import annotations

from contextlib import ExitStack

from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Database
from tidegauge.sources.open import open_source


class SourceConnections:
    """The open databases of one thread. Each is connected when it is first asked for."""

    def __init__(self) -> None:
        self._open: dict[str, Source] = {}
        self._stack = ExitStack()

    def __enter__(self) -> SourceConnections:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(self, database: Database) -> Source:
        if database.name not in self._open:
            source = open_source(database)
            self._stack.callback(source.close)
            self._open[database.name] = source
        return self._open[database.name]
