"""Expectations of a sync as a user types them: run, report, verify, and what becomes of rows set aside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.project import Ran, here, refused, sqlite_database

EXPECT = "expect: {n: {range: {min: 0}, action: quarantine}, word: {not_null: true, action: drop}}"
WHY = ("--reason", "a test", "--yes")
Row = tuple[int, str | None, int | None]


class House:
    """A table of SQLite's, by way of a lake or at once into DuckDB."""

    def __init__(self, folder: Path, *, lake: bool = False) -> None:
        self.folder, self.lake = folder, lake
        self.database = sqlite_database(folder / "app.db")
        self.file, self.clock = folder / "tidegauge.yml", 0
        self.name = "t/load" if lake else "t"
        self.database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT, n INTEGER, at INTEGER)")

    def write(self, options: str, **override: str) -> None:
        via = "via: lake, " if self.lake else ""
        over = ", ".join(f"{name}: {{{body}}}" for name, body in override.items())
        self.file.write_text(
            f"pipeline: p\nconnections:\n  app: {self.database.connection}\n"
            "  lake: {type: parquet, path: lake}\n"
            "  house: {type: duckdb, path: house.duckdb}\n"
            f"sync:\n  - from: app\n    {via.rstrip(', ') or 'tags: [x]'}\n    to: house\n    tables: [t]\n"
            f"    cursor: at\n    settle: 0s\n    override: {{{over}}}\n    {options}\n"
        )

    def put(self, *rows: Row) -> None:
        for row in rows:
            self.clock += 1
            values = ", ".join("NULL" if one is None else repr(one) for one in row)
            self.database.execute(f"INSERT OR REPLACE INTO t VALUES ({values}, {self.clock})")

    def type(self, *words: object, code: int = 0) -> Ran:
        ran = here(*words, "--project", self.file)
        assert ran.code == code, ran.said
        return ran

    def run(self, *words: object, code: int = 0) -> dict[str, Any]:
        flows = json.loads(self.type("run", "--json", *words, code=code).out)["flows"]
        return next(one for one in flows if one["flow"] == self.name)

    def verify(self, code: int = 0) -> dict[str, Any]:
        [table] = json.loads(self.type("verify", "--json", code=code).out)["tables"]
        return dict(table)

    def aside(self) -> dict[str, Any] | None:
        found = json.loads(self.type("quarantine", "list", "--rows", 9, "--json").out)["flows"]
        return found[0] if found else None

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.folder / "house.duckdb")) as connection:
            return connection.execute(text).fetchall()

    def ids(self) -> list[int]:
        return [one for (one,) in self.sql("SELECT id FROM t ORDER BY id")]


@pytest.fixture(params=[False, True], ids=["at once", "by a lake"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(tmp_path, lake=request.param)


def test_rows_that_are_set_aside_are_counted_listed_and_no_difference(house: House) -> None:
    house.write(EXPECT)
    house.put((1, "a", 1), (2, "b", -2), (3, None, 3), (4, "d", None))
    assert "n: range (quarantine)" in house.type("plan").said
    done = house.run()
    assert (done["rows_read"], done["rows_inserted"], done["rows_quarantined"]) == (4, 2, 1)
    assert done["expectations"] == {
        "checked": 4,
        "quarantined": 1,
        "dropped": 1,
        "checks": [
            {"check": "word: not_null", "action": "drop", "failed": 1},
            {"check": "n: range", "action": "quarantine", "failed": 1},
        ],
    }
    assert house.ids() == [1, 4]
    assert "not_as_expected" in house.type("history", "--json").out
    aside = house.aside()
    assert aside is not None
    assert (aside["flow"], aside["rows"], aside["reasons"]) == (house.name, 1, {"n: range": 1})
    assert aside["examples"] == [{"id": 2, "word": "b", "n": -2, "at": 2}]
    assert house.verify()["equal"]
    # Bad after it was good, and good again.
    house.put((1, "a", -1), (2, "b", 2))
    house.run()
    assert house.ids() == [2, 4]
    assert house.verify()["equal"]
    house.put((1, "a", 5))
    house.run()
    assert house.ids() == [1, 2, 4]
    # A row that passes and is not there is a difference, and so is one that is there and does not.
    house.sql("DELETE FROM t WHERE id = 4")
    house.sql("INSERT INTO t VALUES (3, 'x', 3, 3)")
    found = house.verify(code=1)
    assert (found["missing"], found["extra"], found["different"]) == (1, 1, 0)


def test_replay_looks_at_the_rows_again_and_discard_deletes_them(house: House) -> None:
    house.write(EXPECT)
    house.put((1, "a", 1), (2, "b", -2))
    house.run()
    house.put((3, "c", -3), (4, "d", 4))
    house.run()
    assert house.ids() == [1, 4]
    house.write(EXPECT.replace("min: 0", "min: -2"))
    done = json.loads(house.type("quarantine", "replay", *WHY, "--json").out)["flows"]
    assert [(one["rows"], one["left"], one["error"]) for one in done] == [(2, 1, None)]
    assert house.ids() == [1, 2, 4]
    aside = house.aside()
    assert aside is not None
    assert [one["id"] for one in aside["examples"]] == [3]
    assert house.verify()["equal"]
    said = house.type("quarantine", "discard", *WHY).said
    assert "1 rows discarded, 0 left" in said
    assert house.aside() is None
    assert house.verify()["equal"]
    events = house.type("history", "--json").out
    assert "quarantine_replayed" in events
    assert "quarantine_discarded" in events


def test_replay_adds_the_rows_themselves_to_a_target_that_only_grows(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.write("mode: append\n    metadata_columns: true\n    " + EXPECT)
    house.put((1, "a", 1), (2, "it's", -2), (3, "c", -3))
    house.run()
    house.put((1, "a", -9))
    house.run()
    assert house.ids() == [1]
    # What was added stays, though its row has turned bad.
    assert house.verify()["equal"]
    house.write("mode: append\n    metadata_columns: true\n    " + EXPECT.replace("min: 0", "min: -2"))
    for left in (2, 2):
        house.type("quarantine", "replay", *WHY)
        assert house.ids() == [1, 2]
        aside = house.aside()
        assert aside is not None
        assert aside["rows"] == left
    assert house.sql('SELECT word, n, "at", _tidegauge_run_id IS NOT NULL FROM t WHERE id = 2') == [
        ("it's", -2, 2, True)
    ]
    house.sql("ALTER TABLE t_quarantine DROP COLUMN _seq")
    refused(here("quarantine", "replay", *WHY, "--project", house.file), "has no column _seq")


def test_a_mistake_is_told_at_plan_with_its_line_and_an_override_has_its_own(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.put((1, "a", 1), (2, "b", -2))
    house.write("expect: {nn: not_null}")
    said = refused(house.type("plan", code=1), "the rows have no column nn", "they have at, id, n, word")
    assert "tidegauge.yml:14:" in said
    house.write("expect: {'n > now()': warn}")
    refused(house.type("plan", code=1), "reads the clock: now()")
    house.write("expect: {nn: not_null}", t="expect: {n: {range: {max: 0}, action: drop}}")
    assert house.run()["expectations"]["dropped"] == 1
    assert house.ids() == [2]
    house.write("expect: {nn: not_null}", t="expect: null")
    house.put((3, "c", 3))
    assert "expectations" not in house.run()
    house.write("expect: {word: not_null}")
    house.put((4, None, 4))
    failed = house.run(code=1)["error"]
    assert "t: 1 of 1 rows is not as expected, `word: not_null`" in failed["message"]
    assert failed["type"] == "ExpectationFailed"
    assert house.ids() == [2, 3]
    assert "run --full-refresh" not in failed["hint"]
