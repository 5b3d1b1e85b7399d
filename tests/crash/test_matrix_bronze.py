"""Kill what fills a Delta table from a database before and after every step, and compare row by row.

Each run has to end what the one before left, and dies at the next place; the source changes in between. The
runs use one Spark, so that a killed one costs no Java.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.attached import address_of
from tests.crash.test_matrix_layers import EVERYWHERE
from tests.support.nursery import Kill, Nursery
from tests.support.project import Database, mysql_database, postgres_database, sqlite_database
from tidegauge.run.steps import Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

long = pytest.mark.long
Row = tuple[int, int, str]
AT_THE_COMMIT = [("after", Step.WRITE), ("after", Step.PUBLISH), ("before", Step.ADVANCE)]
"""Nothing is there, all is there and nobody knows, all but the ledger know. `make test-long` has the other
steps, which are the same for every output, and the other engines."""
CASES = [
    pytest.param("sqlite", "", "merge", AT_THE_COMMIT, id="merge-commit", marks=long),
    pytest.param("sqlite", "", "append", AT_THE_COMMIT, id="append-commit"),
    *(
        pytest.param(
            engine, via, mode, EVERYWHERE, id=f"{engine}-{mode}{via and '-via'}", marks=pytest.mark.long
        )
        for engine in ("sqlite", "mysql", "postgresql")
        for via in ("", "via: raw, ")
        for mode in ("merge", "append")
    ),
]


class Table:
    """A table of a database that keeps in mind all that was ever written to it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.versions: list[Row] = []
        database.execute(
            f"CREATE TABLE t (id INT PRIMARY KEY, version INT NOT NULL, word {database.word} NOT NULL)",
            "CREATE INDEX by_version ON t (version, id)",
        )

    def change(self, turn: int, mode: str) -> None:
        """Two new rows, and for a merge a new version of an old one: what only grows would lack a version
        that was gone before anybody read it."""
        again = [(turn * 2 - 1, "again")] if turn and mode == "merge" else []
        new = [(turn * 2, "new"), (turn * 2 + 1, "new")]
        with closing(self._database.connect()) as connection:
            cursor = connection.cursor()
            for place, (key, word) in enumerate([*again, *new]):
                row = (key, turn * 10 + place + 1, word)
                cursor.execute(f"DELETE FROM t WHERE id = {key}")
                cursor.execute(f"INSERT INTO t VALUES {row}")
                self.versions.append(row)
            connection.commit()

    def expected(self) -> list[Row]:
        return sorted({row[0]: row for row in self.versions}.values())


@pytest.mark.parametrize(("engine", "via", "mode", "places"), CASES)
def test_b1_b2_a_delta_table_filled_from_a_database_loses_and_doubles_nothing(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    nursery: Nursery,
    tmp_path: Path,
    engine: str,
    via: str,
    mode: str,
    places: list[tuple[str, Step]],
) -> None:
    match engine:
        case "sqlite":
            database = sqlite_database(tmp_path / "app.db")
        case "mysql":
            database = mysql_database(request.getfixturevalue("mariadb"))
        case _:
            database = postgres_database(request.getfixturevalue("postgres"))
    table, project = Table(database), tmp_path / "tidegauge.yml"
    project.write_text(
        f"pipeline: crash\nconnections:\n  app: {database.connection}\n"
        "  raw: {type: parquet, path: raw}\n  bronze: {type: delta, path: bronze}\n"
        f"sync:\n  - {{from: app, {via}to: bronze, tables: [t], cursor: version, batch_rows: 2,"
        f" mode: {mode}, rename: '{{table}}'}}\n"
    )
    flow = f"{database.home}t/load" if via else f"{database.home}t"
    shared = address_of(spark)
    for turn, (side, step) in enumerate(places):
        table.change(turn, mode)
        times = 2 if via and step is Step.PLAN else 1
        kill = Kill("crash" if step is Step.PLAN else flow, side, step, times)
        killed = nursery.run(project, kill, shared)
        assert killed.code == -9, (side, step, killed)
    last = nursery.run(project, None, shared)
    assert last.code == 0, last

    found = spark.sql(f"SELECT id, version, word FROM delta.`{tmp_path}/bronze/t`").collect()
    assert sorted(map(tuple, found)) == table.expected()
    commits = spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path}/bronze/t`").collect()
    seqs = [json.loads(one.userMetadata)["seq"] for one in commits if one.userMetadata]
    assert sorted(seqs) == [*range(1, len(seqs) + 1)]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["mode: append", pytest.param("mode: merge, key: id", marks=long)])
def test_b1_b2_a_window_of_a_table_without_versions_killed_at_its_commit_comes_once(
    spark: SparkSession, nursery: Nursery, tmp_path: Path, mode: str
) -> None:
    project, shared = tmp_path / "tidegauge.yml", address_of(spark)
    project.write_text(
        "pipeline: crash\nflows:\n  it: {inputs: {t: {path: t, format: parquet, cursor: n, key: id}},"
        f" output: {{path: bronze, {mode}}}}}\n"
    )
    for turn, (side, step) in enumerate([*AT_THE_COMMIT, (None, None)]):
        # The first row of each turn has the cursor that the last one of the turn before had.
        rows = spark.range(turn * 3, turn * 3 + 3).selectExpr("id", "id - id DIV 3 AS n")
        rows.coalesce(1).write.mode("append").parquet(f"{tmp_path}/t")
        ended = nursery.run(project, Kill("it", side, step) if side and step else None, shared)
        assert ended.code == (-9 if side else 0), (side, step, ended)
    found = spark.sql(f"SELECT id, n FROM delta.`{tmp_path}/bronze`").collect()
    assert sorted(map(tuple, found)) == [(number, number - number // 3) for number in range(12)]
