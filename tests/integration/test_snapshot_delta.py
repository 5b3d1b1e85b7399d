"""Tables without a cursor, and without a key, into Delta tables: only what differs is written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.project import here, sqlite_database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
@pytest.mark.parametrize("via", ["", pytest.param("via: raw, ", marks=pytest.mark.long)])
def test_only_the_difference_reaches_a_delta_table(spark: SparkSession, tmp_path: Path, via: str) -> None:
    app, file = sqlite_database(tmp_path / "app.db"), tmp_path / "tidegauge.yml"
    app.execute(
        "CREATE TABLE words (id INT PRIMARY KEY, word TEXT)", "CREATE TABLE votes (name TEXT, points INT)"
    )
    app.insert("words", [(n, f"word {n}") for n in range(1, 11)])
    app.insert("votes", [("a", 1)] * 3 + [(None, None)])
    file.write_text(
        f"pipeline: shop\nconnections:\n  app: {app.connection}\n"
        "  raw: {type: parquet, path: raw}\n  bronze: {type: delta, path: bronze}\n"
        f'sync:\n  - {{from: app, {via}to: bronze, tables: ["*"], without_cursor: snapshot, deletes: hard,'
        ' deletes_limit: 90%, rename: "{table}"}\n'
    )

    def run() -> dict[str, tuple[Any, ...]]:
        ran = here("run", "--json", "--project", file)
        assert ran.code == 0, ran.said
        return {
            one["flow"]: (one["state"], *(one[f"rows_{what}"] for what in ("inserted", "updated", "deleted")))
            for one in ran.json["flows"]
            if not one["flow"].endswith("/extract")
        }

    def landed(table: str) -> Counter[tuple[Any, ...]]:
        columns = [name for (name,) in app.rows(f"SELECT name FROM pragma_table_info('{table}')")]
        frame = spark.read.format("delta").load(str(tmp_path / "bronze" / table)).select(*columns)
        return Counter(tuple(row) for row in frame.collect())

    end = "/load" if via else ""
    assert run() == {f"votes{end}": ("SUCCESS", 4, 0, 0), f"words{end}": ("SUCCESS", 10, 0, 0)}
    assert run() == {f"votes{end}": ("SKIPPED", 0, 0, 0), f"words{end}": ("SKIPPED", 0, 0, 0)}
    app.execute("UPDATE words SET word = 'other' WHERE id = 3", "DELETE FROM words WHERE id = 4")
    app.execute("INSERT INTO words VALUES (11, 'new')", "DELETE FROM votes WHERE rowid = 1")
    assert run() == {f"votes{end}": ("SUCCESS", 0, 0, 1), f"words{end}": ("SUCCESS", 1, 1, 1)}
    for table in ("words", "votes"):
        assert landed(table) == Counter(app.rows(f"SELECT * FROM {table}"))
    verified = here("verify", "--json", "--project", file)
    assert verified.code == 0, verified.said
