"""Tables without a change feed: by a column with a lookback, or read whole and compared."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.project import Ran, here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]


class System:
    """A table that somebody else writes, and a flow that copies it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.file = folder / "tidegauge.yml"

    def add(
        self, *rows: tuple[int, str | None, str], columns: str = "id int, at timestamp, word string"
    ) -> None:
        made = self.spark.createDataFrame([(a, b, c) for a, b, c in rows], "id int, at string, word string")
        names = [column.split()[0] for column in columns.split(", ")]
        types = [column.split()[1] for column in columns.split(", ")]
        given = [
            f"CAST({one} AS {type_}) AS {name}"
            for one, name, type_ in zip(("id", "at", "word"), names, types, strict=True)
        ]
        made.selectExpr(*given).coalesce(1).write.mode("append").parquet(str(self.folder / "source"))

    def write(self, part: str, output: str, *, more: str = "", transform: str = "", expect: str = "") -> None:
        written = ("transform: t.sql, " if transform else "") + (f"expect: {expect}, " if expect else "")
        (self.folder / "t.sql").write_text(transform or "SELECT 1")
        self.file.write_text(
            f"pipeline: p\nflows:\n  bronze: {{inputs: {{t: {{path: source, format: parquet, {part}}}}},"
            f" {written}output: {{path: bronze, {output}}}}}\n{more}"
        )

    def type(self, *words: object, code: int = 0) -> Ran:
        ran = here(*words, "--project", self.file)
        assert ran.code == code, ran.said
        return ran

    def run(self, code: int = 0) -> dict[str, Any]:
        return self.type("run", "--json", code=code).flow("bronze")

    def rows(self, columns: str = "id, word") -> Rows:
        return sorted(
            tuple(row)
            for row in self.spark.sql(f"SELECT {columns} FROM delta.`{self.folder}/bronze`").collect()
        )


@pytest.fixture
def system(spark: SparkSession, tmp_path: Path) -> System:
    return System(spark, tmp_path)


def test_a_merge_takes_late_rows_within_the_lookback_and_the_last_of_each_key(system: System) -> None:
    system.write(
        "cursor: at, lookback: 2h",
        "key: id",
        more="  silver: {inputs: {b: {path: bronze}}, output: {path: silver, key: id}}\n",
    )
    system.add((1, "2025-01-01 10:00:00", "a"), (2, "2025-01-01 12:00:00.123456", "b"), (9, None, "never"))
    first = system.type("run", "--json")
    bronze = first.flow("bronze")
    assert bronze["windows"][0]["upto"] == {"cursor": "2025-01-01 12:00:00.123456", "key": []}
    assert "1 rows have no at" in str(bronze["notes"]) + first.err
    assert first.flow("silver")["state"] == "SUCCESS"
    assert system.rows() == [(1, "a"), (2, "b")]
    assert system.run()["state"] == "SKIPPED"

    # Late, but within the lookback; a tie with the watermark; twice in one window; twice the same; too late.
    system.add(
        (3, "2025-01-01 11:00:00", "late"),
        (4, "2025-01-01 12:00:00.123456", "tie"),
        (2, "2025-01-01 13:00:00", "b2"),
        (5, "2025-01-01 13:00:00", "twice"),
        (5, "2025-01-01 13:00:00", "twice"),
        (6, "2025-01-01 09:00:00", "too late"),
    )
    assert "(2025-01-01 10:00:00.123455, 2025-01-01 13:00:00]" in system.type("explain").out
    second = system.type("run", "--json")
    assert second.flow("bronze")["rows_inserted"] == 3
    assert second.flow("bronze")["rows_updated"] == 1
    assert "1 rows came late" in str(second.flow("bronze")["notes"]) + second.err
    assert system.rows() == [(1, "a"), (2, "b2"), (3, "late"), (4, "tie"), (5, "twice")]
    assert system.run()["state"] == "SKIPPED"

    for word in ("status", "plan", "verify"):
        system.type(word)
    system.type(
        "watermark",
        "set",
        "--select",
        "bronze",
        "--timestamp",
        "2025-01-01 09:00:00",
        "--yes",
        "--force",
        "--reason",
        "late",
    )
    assert system.run()["rows_inserted"] == 1
    assert (6, "too late") in system.rows()
    (system.folder / ".tidegauge/ledger.db").unlink()
    assert "the ledger knows nothing" in system.run(code=1)["error"]["message"]
    system.type("ledger", "rebuild", "--yes", "--reason", "lost")
    system.add((7, "2025-01-01 14:00:00", "new"))
    assert system.run()["rows_inserted"] == 1


@pytest.mark.long
def test_an_append_with_a_key_adds_what_is_not_there_just_so(system: System) -> None:
    system.write(
        "cursor: n, lookback: 0s, key: id",
        "mode: append",
        transform="SELECT id, n, upper(word) AS word FROM t",
        expect="{id: not_null, 'id > 0': {action: drop}}",
    )
    numbers = "id int, n decimal(10,2), word string"
    system.add((1, "1.00", "a"), (2, "2.50", "b"), (-1, "2.00", "bad"), columns=numbers)
    assert system.run()["rows_inserted"] == 2
    system.add((2, "2.50", "b"), (3, "2.50", "tie"), (2, "3.00", "b2"), columns=numbers)
    assert system.run()["rows_inserted"] == 2
    assert system.rows() == [(1, "A"), (2, "B"), (2, "B2"), (3, "TIE")]


def test_rows_of_the_future_wait_and_hold_nothing_up(system: System) -> None:
    system.write("cursor: at, settle: 1h", "key: id")
    system.add((1, "2025-01-01 10:00:00", "a"), (2, "2999-01-01 00:00:00", "future"))
    assert system.run()["rows_waiting"] == 1
    system.add((3, "2025-01-02 10:00:00", "b"))
    assert system.run()["rows_inserted"] == 1
    assert system.rows() == [(1, "a"), (3, "b")]


@pytest.mark.long
def test_a_table_read_whole_is_written_as_a_difference_and_skipped_while_it_is_the_same(
    system: System,
) -> None:
    system.write("cursor: none", "key: id")
    system.add((1, None, "a"), (2, None, "b"))
    assert system.run()["rows_inserted"] == 2
    assert system.run()["state"] == "SKIPPED"
    shutil.rmtree(system.folder / "source")
    system.add((1, None, "a"), (3, None, "c"))
    found = system.run()
    assert (found["rows_inserted"], found["rows_updated"], found["rows_deleted"]) == (1, 0, 1)
    assert system.rows() == [(1, "a"), (3, "c")]


def retype(system: System) -> None:
    shutil.rmtree(system.folder / "source")
    system.add((1, "2026-01-01 10:00:00", "a"), columns="id int, at date, word string")


def rename(system: System) -> None:
    shutil.rmtree(system.folder / "source")
    system.add((1, "2026-01-01 10:00:00", "a"), columns="id int, moment timestamp, word string")


def set_back(system: System) -> None:
    shutil.rmtree(system.folder / "source")
    system.add((1, "2024-01-01 10:00:00", "a"))


def remove(system: System) -> None:
    shutil.rmtree(system.folder / "source")


def to_text(system: System) -> None:
    shutil.rmtree(system.folder / "source")
    system.add((1, "2026-01-01 10:00:00", "a"), columns="id int, at string, word string")


@pytest.mark.shown_on("set_back")
@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (retype, "CursorUnsuitable", "is date now, and its watermark is a timestamptz"),
        (rename, "ColumnMissing", "has no column at, which `cursor` of 't' names"),
        (set_back, "TableReplaced", "it was made anew or set back"),
        (remove, "TableMissing", "there is no table"),
        (to_text, "CursorUnsuitable", "is string, which cannot be the cursor"),
    ],
)
def test_what_somebody_does_to_the_table_is_told(
    system: System, change: Callable[[System], None], kind: str, said: str
) -> None:
    system.write("cursor: at", "key: id")
    system.add((1, "2025-01-01 10:00:00", "a"))
    system.run()
    change(system)
    error = system.run(code=1)["error"]
    assert (error["type"], said in error["message"]) == (kind, True), error
    assert system.rows() == [(1, "a")]
