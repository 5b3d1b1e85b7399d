"""What is asked of a warehouse's table of commits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegauge.model.engines import Engine
from tidegauge.model.plan import Tag
from tidegauge.model.spec import Database, TableName
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.outputs.warehouse.sqlite.warehouse import SQLite, SQLiteSession


class ByName:
    """A session that gives the columns of a name once, as some drivers do."""

    def __init__(self, session: SQLiteSession) -> None:
        self._session = session
        self.asked: list[str] = []

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        selected = re.match(r"SELECT (.+?) FROM", sql)
        columns = selected[1].split(", ") if selected else []
        assert len(columns) == len(set(columns)), sql
        self.asked.append(sql)
        return self._session.rows(sql, values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def test_no_statement_asks_for_a_column_twice(tmp_path: Path) -> None:
    warehouse = SQLite(Database("w", Engine.SQLITE, path=tmp_path / "w.db"))
    session = ByName(warehouse.connect())
    made = Commits(warehouse, TableName(None, "t"), "shop", "t/load")
    made.make(session)
    tag = Tag("shop", "t/load", 0, 1)
    asked = len(session.asked)
    assert made.find_in_line(session, tag) == (None, None)
    assert made.find(session, tag) is None
    assert len(session.asked) == asked + 2
