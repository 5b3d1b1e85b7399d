"""What this room has to know about one kind of database to read it: one `SourceEngine` for each kind.

Each kind has a folder of its own, whose `engine.py` makes the value; `sources.engines` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegauge.model.batch_data import Split
from tidegauge.model.engines import Engine
from tidegauge.model.position import Value
from tidegauge.model.privileges import QueryRunner, ReadAccess
from tidegauge.model.spec import Database, ReadMethod, TableName
from tidegauge.model.table import SourceColumn, SourceTable
from tidegauge.sources.dialect import Dialect
from tidegauge.sources.direct_types import ColumnWay
from tidegauge.sources.types import TypeRules


class MakeSplit(Protocol):
    def __call__(
        self,
        database: Database,
        source_table: SourceTable,
        ways: tuple[ColumnWay, ...],
        select: str,
        *,
        guard_query: str | None,
        rows: int | None,
    ) -> Split:
        """Make the part of a batch that one task reads by itself, into Arrow.

        `guard_query` finds one row that a guard stops; None if `select` itself asks for the guards.
        `rows` is the approximate number of rows, None if it is not known.
        """


@dataclass(frozen=True)
class SourceEngine:
    """Everything about one kind of database that the shared code of this room asks for."""

    engine: Engine
    rules: TypeRules
    """How the engine's types arrive, for the newest version of the server."""
    open_dialect: Callable[[Database], Dialect]
    """Connects, and loads the driver only then. Raises SourceUnreachable."""
    literal: Callable[[Value], str]
    """Gives the SQL literal that means exactly this value."""
    table_name: Callable[[TableName], str]
    """Gives the quoted name of a table, for FROM."""
    types_query: Callable[[Database, TableName], str]
    """Gives a SELECT of a table's current columns, name and type first; types as in `SourceColumn.native`."""
    jdbc_options: Callable[[Database], dict[str, str]] | None
    """Gives all that Spark needs to connect, with the session in UTC. Raises ConfigError. None if the engine
    has no JDBC driver; then every table can be read without one."""
    make_split: MakeSplit
    why_not_direct: Callable[[Database, ReadMethod], str | None] = lambda *_: None
    """Says why a connection cannot be read without JDBC, under `read: auto` or `direct`; None if it can."""
    column_way: Callable[[SourceColumn], ColumnWay | None] = lambda _: None
    """How a column travels without JDBC if this engine has its own way for it; None for the usual way."""
    full_name: Callable[[Database, TableName], str] | None = None
    """Gives the table's name in FROM for a session in another database of the same server; None if
    `table_name` does."""
    spread: Callable[[tuple[Split, ...]], tuple[Split, ...]] | None = None
    """Runs the queries of a large batch on the server now, and gives more splits, which fetch its results."""
    ask_access: Callable[[QueryRunner, Sequence[TableName]], ReadAccess] | None = None
    """Finds what the login may not read of these tables; None if the engine has no access rights."""
