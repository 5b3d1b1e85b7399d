"""`execute: database` leaves what `execute: auto` leaves, whatever is done to the source."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import Database, here
from tests.support.replicas import make_database

BEGAN = datetime(2025, 1, 1)
MODES = {
    "merge": "mode: merge, deletes: hard, deletes_limit: 100%, null_cursor: include",
    "merge, again": "mode: merge, lookback: 3m, null_cursor: exclude, deletes: soft, deletes_limit: 100%",
    "append": "mode: append, null_cursor: exclude",
    "scd2": "mode: scd2, null_cursor: exclude",
    "overwrite": "mode: overwrite, null_cursor: exclude",
}
STAMPED = {"_tidegauge_deleted_at"}
"""Columns that hold the moment of the run: there, or not."""
SHOWN = {
    ("sqlite", "merge"),
    ("sqlite", "scd2"),
    ("duckdb", "append"),
    ("postgresql", "merge"),
    ("mysql", "merge"),
}
WORDS = ("", "it's", "é漢😀", "NULL", " padded ", "a\\b\n%s ?", "x" * 300)


class TwoReplicas:
    """A table, and what two projects make of it in the same database."""

    def __init__(self, folder: Path, database: Database, mode: str, seed: int) -> None:
        self.database, self.random, self.minutes, self.keys = database, random.Random(seed), 0, 0
        self.files = {way: folder / way / "tidegauge.yml" for way in ("auto", "database")}
        for way, file in self.files.items():
            file.parent.mkdir()
            file.write_text(
                f"pipeline: by_{way}\nconnections:\n  app: {database.connection}\n"
                f"sync:\n  - {{from: app, to: app, tables: [t], rename: t_{way}, cursor: moved, settle: 1s,"
                f" batch_rows: 12, metadata_columns: true, execute: {way}, {MODES[mode]}}}\n"
            )
        database.execute(
            f"CREATE TABLE t (id INT PRIMARY KEY, word {self._text}, moved {database.moment}, amount"
            f" {'REAL' if database.engine == 'sqlite' else 'DECIMAL(9,2)'})"
        )

    @property
    def _text(self) -> str:
        return "VARCHAR(400)" if self.database.engine == "mysql" else "TEXT"

    def change(self) -> None:
        """Rows come, change and go. Some have one moment, some none."""
        draw, statements = self.random, []
        for _ in range(draw.randint(5, 25)):
            self.minutes += draw.choice((0, 0, 1))
            moment = (BEGAN + timedelta(minutes=self.minutes)).isoformat(" ")
            at = "NULL" if draw.random() < 0.15 else f"'{moment}'"
            word = draw.choice(WORDS).replace("'", "''")
            if self.database.engine == "mysql":
                word = word.replace("\\", "\\\\")
            text = "NULL" if draw.random() < 0.1 else f"'{word}'"
            amount = f"{draw.randint(-(10**6), 10**6) / 100:.2f}"
            known = draw.randint(0, max(self.keys - 1, 0))
            what = draw.random()
            if what < 0.5 or not self.keys:
                statements.append(f"INSERT INTO t VALUES ({self.keys}, {text}, {at}, {amount})")
                self.keys += 1
            elif what < 0.85:
                statements.append(
                    f"UPDATE t SET word = {text}, amount = {amount}, moved = {at} WHERE id = {known}"
                )
            else:
                statements.append(f"DELETE FROM t WHERE id = {known}")
        self.database.execute(*statements)

    def run(self, way: str) -> list[int]:
        ran = here("run", "--json", "--confirm-deletes", "--project", self.files[way])
        assert ran.code == 0, ran.said
        [flow] = ran.json["flows"]
        return [flow[f"rows_{what}"] for what in ("read", "inserted", "updated", "deleted")]

    def held(self, way: str, described: str) -> list[tuple[Any, ...]]:
        names = [str(name) for name, *_ in self.database.rows(described.format(table=f"t_{way}"))]
        shown = [name for name in names if name not in ("_tidegauge_run_id", "_tidegauge_loaded_at")]
        assert len(shown) == len(names) - 2
        listed = [
            f"{self.database.quote(name)} IS NULL" if name in STAMPED else self.database.quote(name)
            for name in shown
        ]
        rows = self.database.rows(f"SELECT {', '.join(listed)} FROM t_{way}")
        return sorted(rows, key=repr)


DESCRIBE = {
    "sqlite": "SELECT name, type FROM pragma_table_info('{table}')",
    "mysql": "SELECT COLUMN_NAME, COLUMN_TYPE, COLLATION_NAME FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION",
}
OTHERS = (
    "SELECT column_name, data_type, numeric_precision FROM information_schema.columns"
    " WHERE table_name = '{table}' ORDER BY ordinal_position"
)


@pytest.mark.parametrize(
    ("engine", "mode"),
    [
        pytest.param(
            engine,
            mode,
            marks=() if (engine, mode) in SHOWN else pytest.mark.long,
        )
        for engine in ("sqlite", "duckdb", "postgresql", "mysql")
        for mode in MODES
    ],
)
def test_both_ways_leave_the_same(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str, mode: str
) -> None:
    database = make_database(engine, request, tmp_path / "one.db")
    described = DESCRIBE.get(engine, OTHERS)
    two = TwoReplicas(tmp_path, database, mode, seed=sum(map(ord, engine + mode)))
    for _ in range(2):
        two.change()
        assert two.run("database") == two.run("auto")
        assert two.held("database", described) == two.held("auto", described)
    columns = [database.rows(described.format(table=f"t_{way}")) for way in two.files]
    assert columns[0] == columns[1]
    # One goes on where the other stands: the target is the same table to both.
    text = two.files["auto"].read_text()
    two.files["auto"].write_text(text.replace("execute: auto", "execute: database"))
    two.change()
    assert two.run("database") == two.run("auto")
    assert two.held("database", described) == two.held("auto", described)
