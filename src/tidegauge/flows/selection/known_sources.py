"""Sources for commands that need only table names: if a database is down, the ledger has the names too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tidegauge.errors import SourceUnreachable
from tidegauge.flows.names import is_pattern, table_named
from tidegauge.flows.selection.missing_tables import find_remembered
from tidegauge.model.position import RowPosition, Value
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Database, Project, Stage, TableName, TableOptions
from tidegauge.model.table import Cut, SessionVisibility, SourceTable, Survey
from tidegauge.sources.connections import SourceConnections


class KnownSources(SourceConnections):
    """Like `SourceConnections`, but an unreachable database still lists the tables of flows that ran before.

    `flows`: the names of those flows.
    """

    def __init__(self, project: Project, flows: Sequence[str]) -> None:
        super().__init__()
        self._project = project
        self._flows = flows
        self._absent: dict[str, Source] = {}

    def of(self, database: Database) -> Source:
        if database.name in self._absent:
            return self._absent[database.name]
        try:
            return super().of(database)
        except SourceUnreachable as error:
            self._absent[database.name] = _AbsentSource(self._tables(database), error)
            return self._absent[database.name]

    def _tables(self, database: Database) -> tuple[TableName, ...]:
        named = [
            name
            for sync in self._project.syncs
            if sync.source == database
            for name in sync.tables
            if not is_pattern(name)
        ]
        return tuple(dict.fromkeys(table_named(database, name) for name in (*self._flows, *named)))


class LedgerSources(KnownSources):
    """Sources that ask no database: the tables are those that the ledger and the project file name."""

    def of(self, database: Database) -> Source:
        if database.name not in self._absent:
            unasked = SourceUnreachable(f"{database.name} was not asked", hint="`tidegauge plan` asks it")
            self._absent[database.name] = _AbsentSource(self._tables(database), unasked)
        return self._absent[database.name]


def sources_for(project: Project, ledger: LedgerReader, stage: Stage | None) -> SourceConnections:
    """Open the sources of a run. The stage `load` reads only the lake, so it may go on without a database."""
    if stage is not Stage.LOAD:
        return SourceConnections()
    return KnownSources(project, find_remembered(ledger.status(project.pipeline)))


class _AbsentSource:
    """A database that is not connected. It lists known tables, and raises `error` for any other question."""

    def __init__(self, tables: tuple[TableName, ...], error: SourceUnreachable) -> None:
        self._tables = tables
        self._error = error

    def tables(self) -> tuple[TableName, ...]:
        return self._tables or self._refuse()

    def with_column(self, name: str) -> frozenset[TableName]:  # noqa: ARG002
        """All known tables: a load reads the lake alone, so the table's present columns do not matter."""
        return frozenset(self._tables)

    def with_key(self) -> frozenset[TableName]:
        return frozenset(self._tables)

    def describe(self, table: TableName, options: TableOptions) -> SourceTable:  # noqa: ARG002
        self._refuse()

    def survey(
        self,
        source_table: SourceTable,  # noqa: ARG002
        after: RowPosition | None,  # noqa: ARG002
        step: int,  # noqa: ARG002
        pending: str | None,  # noqa: ARG002
    ) -> Survey:
        self._refuse()

    def survey_whole(self, source_table: SourceTable, step: int | None) -> Survey:  # noqa: ARG002
        self._refuse()

    def cuts(
        self,
        source_table: SourceTable,  # noqa: ARG002
        after: RowPosition | None,  # noqa: ARG002
        upto: RowPosition,  # noqa: ARG002
        step: int,  # noqa: ARG002
    ) -> tuple[Cut, ...]:
        self._refuse()

    def count(self, source_table: SourceTable, after: RowPosition | None, upto: RowPosition) -> int:  # noqa: ARG002
        self._refuse()

    def latest(self, source_table: SourceTable) -> Value | None:  # noqa: ARG002
        self._refuse()

    def find_settled(self, source_table: SourceTable) -> Value | None:  # noqa: ARG002
        self._refuse()

    def ask(self, sql: str) -> list[tuple[Any, ...]]:  # noqa: ARG002
        self._refuse()

    def outlook(self) -> SessionVisibility:
        self._refuse()

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        self._refuse()

    def identity(self) -> str:
        self._refuse()

    def close(self) -> None:
        pass

    def _refuse(self) -> NoReturn:
        raise self._error
