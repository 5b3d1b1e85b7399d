"""What has to be said of one kind of database so that it can be read: one value, `SourceEngine`, for each.

Each kind has a folder of its own, whose `engine.py` makes the value; `sources.engines` is the table of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegauge.model.batch_data import Split
from tidegauge.model.engines import Engine
from tidegauge.model.position import Value
from tidegauge.model.privileges import Asked, ReadAccess
from tidegauge.model.spec import Database, Read, TableName
from tidegauge.model.table import SourceColumn, SourceTable
from tidegauge.sources.dialect import Dialect
from tidegauge.sources.direct_types import ColumnWay
from tidegauge.sources.types import Rules


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
        """A part of a batch that one task reads by itself, into Arrow.

        `guard_query` finds one row that a guard would stop, where the guards are not part of `select`.
        `rows` is about how many there are, where that is known.
        """


@dataclass(frozen=True)
class SourceEngine:
    """Everything about one kind of database that the shared code of this room asks for."""

    engine: Engine
    rules: Rules
    """How its types arrive, for the newest version of the server."""
    open_dialect: Callable[[Database], Dialect]
    """Connects, and loads the driver only then. Raises SourceUnreachable."""
    literal: Callable[[Value], str]
    """SQL that means exactly this value."""
    table_name: Callable[[TableName], str]
    """The table in FROM, quoted."""
    types_query: Callable[[Database, TableName], str]
    """A SELECT of a table's columns now: name and type first, in the words of `SourceColumn.native`."""
    jdbc_options: Callable[[Database], dict[str, str]] | None
    """Everything Spark needs to connect, with the session pinned to UTC. Raises ConfigError. None: there is
    no JDBC driver, and every table can be read without."""
    make_split: MakeSplit
    why_not_direct: Callable[[Database, Read], str | None] = lambda *_: None
    """Why a connection cannot be read without JDBC, under `read: auto` or `direct`; None where it can."""
    column_way: Callable[[SourceColumn], ColumnWay | None] = lambda _: None
    """How a column travels without JDBC where that is particular to this kind; None for the usual way."""
    full_name: Callable[[Database, TableName], str] | None = None
    """The table in FROM, from a session in another database of the same server; None: as `table_name`."""
    spread: Callable[[tuple[Split, ...]], tuple[Split, ...]] | None = None
    """For many rows: the same in more splits, of results that wait at the server. Asks the server now."""
    ask_access: Callable[[Asked, Sequence[TableName]], ReadAccess] | None = None
    """What the login may not read of these tables; None: it has no rights of its own."""
