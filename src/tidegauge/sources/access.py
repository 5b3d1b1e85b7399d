"""Whether a login may read the tables that syncs name. Only the catalogue is asked: no row is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from tidegauge.model.position import Value, ValueKind
from tidegauge.model.privileges import ReadAccess
from tidegauge.model.spec import Database, TableName
from tidegauge.sources.dialect import Dialect
from tidegauge.sources.engines import find_engine
from tidegauge.sources.open import open_dialect


class _Session:
    """The source's session, for queries with parameters: a NUL character in the SQL stands for each."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        for value in values:
            sql = sql.replace("\0", self._dialect.literal(Value(ValueKind.TEXT, str(value))), 1)
        return self._dialect.rows(sql)


def find_read_access(database: Database, tables: Iterable[TableName]) -> ReadAccess | None:
    """What the login lacks to read these tables; None if the engine has no access rights.

    Raises SourceUnreachable."""
    ask = find_engine(database).ask_access
    if ask is None:
        return None
    with closing(open_dialect(database)) as dialect:
        return ask(_Session(dialect), list(dict.fromkeys(tables)))
