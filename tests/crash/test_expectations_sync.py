"""A sync that sets rows aside, killed around its commits and in a replay: none is lost, none there twice."""

from __future__ import annotations

import json
import signal
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash import dying
from tests.crash.attached import address_of
from tests.crash.dying import Death
from tests.support.nursery import Nursery
from tests.support.project import Database, here, mysql_database, postgres_database, sqlite_database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUARANTINE = "tidegauge.outputs.warehouse.quarantine:WarehouseQuarantine.put"
COMMITTED = "tidegauge.outputs.warehouse.commit_batch:_declare_key"
DEATHS = [
    Death((QUARANTINE,), "before"),
    Death((QUARANTINE,)),
    Death((COMMITTED,), "before"),
    Death((QUARANTINE,), times=2),
    Death(("tidegauge.run.commit_batch:_tell_checks",), "before"),
]
"""Nothing is there; what is set aside, and not yet its commit; all is there and nobody knows; the second of
two batches; all but the history know."""
WHY = ("--reason", "a test", "--yes")


class Source:
    """Rows `(id, n, version)`; n is expected to be 0 or more."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.file = database, folder / "tidegauge.yml"
        self.rows: dict[int, tuple[int, int]] = {}
        self.version = 0
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT, version INT)")

    def put(self, *rows: tuple[int, int]) -> None:
        with closing(self.database.connect()) as connection:
            cursor = connection.cursor()
            for key, n in rows:
                self.version += 1
                self.rows[key] = (n, self.version)
                cursor.execute(f"DELETE FROM t WHERE id = {key}")
                cursor.execute(f"INSERT INTO t VALUES ({key}, {n}, {self.version})")
            connection.commit()

    def write(self, target: str, *, least: int = 0, options: str = "") -> None:
        self.file.write_text(
            f"pipeline: crash\nconnections:\n  app: {self.database.connection}\n  house: {target}\n"
            "sync:\n  - {from: app, to: house, tables: [t], cursor: version, batch_rows: 3,"
            f" rename: '{{table}}', {options}"
            f" expect: {{n: {{range: {{min: {least}}}, action: quarantine}}}}}}\n"
        )

    def good(self, least: int = 0) -> list[tuple[int, int]]:
        return sorted((key, n) for key, (n, _) in self.rows.items() if n >= least)


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    match request.param:
        case "sqlite":
            return sqlite_database(tmp_path / "house.db")
        case "mysql":
            return mysql_database(request.getfixturevalue("mariadb"))
        case _:
            return postgres_database(request.getfixturevalue("postgres"))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(sqlite_database(tmp_path / "app.db"), tmp_path)


def die(nursery: Nursery, at: Death, source: Source, *words: object, spark: Any = None) -> None:
    ended = dying.run(nursery, at, spark, *words, "--project", source.file)
    assert ended.code == -signal.SIGKILL, (at, ended)


def end(source: Source, *words: object) -> None:
    ran = here(*words, "--project", source.file)
    assert ran.code == 0, ran.said


def found(target: Database) -> tuple[list[tuple[Any, ...]], Counter[tuple[int, int]]]:
    """The target, and how often each version of a row is set aside."""
    row = target.quote("row")
    aside = [json.loads(text) for (text,) in target.rows(f"SELECT {row} FROM t_quarantine")]
    return sorted(target.rows("SELECT id, n FROM t")), Counter((one["id"], one["version"]) for one in aside)


def test_b2_a_kill_around_the_commit_neither_loses_nor_doubles_a_row_set_aside(
    nursery: Nursery, source: Source, target: Database
) -> None:
    source.write(target.connection)
    source.put((1, 1), (2, -2))
    end(source, "run")
    never_change = []
    for turn, at in enumerate(DEATHS):
        # One key is bad after it was good, or good again; of the others each is read as it is here.
        new = 10 * (turn + 1)
        source.put((1, 1 if turn % 2 else -1), (new, 0), (new + 1, -1), (new + 2, -2), (new + 3, turn))
        never_change += [(new + 1, source.rows[new + 1][1]), (new + 2, source.rows[new + 2][1])]
        die(nursery, at, source, "run")
    end(source, "run")
    rows, aside = found(target)
    assert rows == source.good()
    assert [aside[one] for one in never_change] == [1] * len(never_change)
    assert max(aside.values()) == 1
    assert here("verify", "--project", source.file).code == 0


@pytest.mark.parametrize(
    "at",
    [
        Death(("tidegauge.operations.override:run_override",)),
        Death((QUARANTINE,)),
        Death(("tidegauge.operations.quarantine:run",)),
    ],
    ids=["set back", "set aside again", "read again"],
)
@pytest.mark.shown_on("sqlite")
def test_a_replay_that_is_killed_is_ended_by_the_next_one(
    nursery: Nursery, source: Source, target: Database, at: Death
) -> None:
    source.write(target.connection)
    source.put((1, 1), (2, -2), (3, -9), (4, 4), (5, -1))
    end(source, "run")
    assert found(target)[1].total() == 3
    source.write(target.connection, least=-2)
    die(nursery, at, source, "quarantine", "replay", *WHY)
    end(source, "run")
    end(source, "quarantine", "replay", *WHY)
    rows, aside = found(target)
    assert rows == source.good(-2)
    assert aside == {(3, 3): 1}
    assert here("verify", "--project", source.file).code == 0


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.shown_on("postgresql")
def test_a_replay_into_a_target_that_only_grows_moves_all_rows_or_none(
    nursery: Nursery, source: Source, target: Database, side: str
) -> None:
    source.write(target.connection, options="mode: append,")
    source.put((1, 1), (2, -2), (3, -9))
    end(source, "run")
    source.write(target.connection, least=-2, options="mode: append,")
    place = "tidegauge.outputs.warehouse.quarantine:WarehouseQuarantine.take_out"
    die(nursery, Death((place,), side), source, "quarantine", "replay", *WHY)
    assert found(target) == ([(1, 1)], Counter({(2, 2): 1, (3, 3): 1}))
    moved = Death(("tidegauge.outputs.warehouse.replay:_move",), side)
    die(nursery, moved, source, "quarantine", "replay", *WHY)
    end(source, "quarantine", "replay", *WHY)
    assert found(target) == ([(1, 1), (2, -2)], Counter({(3, 3): 1}))


@pytest.mark.long  # `test_expectations_kills` kills a flow at both commits, and this is the same output
def test_a_delta_table_filled_from_a_database_is_killed_at_either_commit(
    spark: SparkSession, nursery: Nursery, source: Source, tmp_path: Path
) -> None:
    def seen() -> tuple[list[tuple[Any, ...]], Counter[int]]:
        rows = spark.sql(f"SELECT id, n FROM delta.`{tmp_path}/bronze/t`").collect()
        aside = spark.sql(f"SELECT row FROM delta.`{tmp_path}/bronze/t_quarantine`").collect()
        return sorted(map(tuple, rows)), Counter(json.loads(one[0])["version"] for one in aside)

    source.write("{type: delta, path: bronze}")
    shared = address_of(spark)
    places = ["tidegauge.outputs.delta.quarantine:Quarantine.put", "tidegauge.outputs.delta.modes:apply"]
    for turn, place in enumerate(places):
        source.put((1, 1 - turn * 2), (turn * 2 + 2, 2), (turn * 2 + 3, -3))
        die(nursery, Death((place,)), source, "run", spark=shared)
    end(source, "run")
    assert seen() == (source.good(), Counter({3: 1, 4: 1, 6: 1}))
