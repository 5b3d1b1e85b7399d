"""Tables that have nothing to page by: refused with one sentence, left out, or read whole and compared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import (
    Database,
    Ran,
    duckdb_database,
    here,
    mysql_database,
    postgres_database,
    sqlite_database,
)

PROJECT = """\
pipeline: shop
ledger: sqlite:///ledger.db
connections:
  app: {app}
  copy: {copy}
  lake: {{type: parquet, path: lake}}
sync:
  - {{from: app, {route}, tables: [{tables}], settle: 1s{more}}}
"""


class Shop:
    """Two databases and a project file over them."""

    def __init__(self, folder: Path, app: Database, copy: Database) -> None:
        self.file, self.app, self.copy = folder / "tidegauge.yml", app, copy

    def write(self, tables: str = '"*"', more: str = "", route: str = "to: copy") -> None:
        self.file.write_text(
            PROJECT.format(
                app=self.app.connection, copy=self.copy.connection, tables=tables, more=more, route=route
            )
        )

    def do(self, *words: str, code: int = 0) -> Ran:
        ran = here(*words, "--json", "--project", self.file)
        assert ran.code == code, ran.said
        return ran

    def run(self, *words: str, code: int = 0) -> dict[str, tuple[Any, ...]]:
        """By flow: its state, and the rows read, inserted, updated and deleted."""
        ran = self.do("run", *words, code=code)
        counts = ("rows_read", "rows_inserted", "rows_updated", "rows_deleted")
        return {
            one["flow"].removeprefix(self.app.home): (one["state"], *(one[count] for count in counts))
            for one in ran.json["flows"]
        }

    def verify(self, code: int = 0) -> dict[str, dict[str, Any]]:
        found = self.do("verify", code=code).json["tables"]
        return {one["table"].removeprefix(self.app.home): one for one in found}


def make_database(engine: str, request: pytest.FixtureRequest, file: Path) -> Database:
    match engine:
        case "mysql":
            return mysql_database(request.getfixturevalue("mariadb"))
        case "postgresql":
            return postgres_database(request.getfixturevalue("postgres"))
        case "duckdb":
            return duckdb_database(file.with_suffix(".duckdb"))
        case _:
            return sqlite_database(file.with_suffix(".db"))


PAIRS = [
    "mysql-postgresql",
    "sqlite-duckdb",
    *(pytest.param(pair, marks=pytest.mark.long) for pair in ("postgresql-mysql", "duckdb-sqlite")),
]


@pytest.fixture(params=PAIRS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return make_shop(request, tmp_path, *request.param.split("-"))


def make_shop(request: pytest.FixtureRequest, folder: Path, app: str, copy: str) -> Shop:
    return Shop(
        folder, make_database(app, request, folder / "app"), make_database(copy, request, folder / "copy")
    )


@pytest.fixture
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    """Where the servers have no say."""
    return make_shop(request, tmp_path, "sqlite", "duckdb")


def two_tables(shop: Shop) -> None:
    """One that can be paged, one that has no cursor, one without a key, and a view."""
    shop.app.execute(
        f"CREATE TABLE orders (id INT PRIMARY KEY, total INT, seen {shop.app.moment} NOT NULL)",
        f"INSERT INTO orders VALUES (1, 10, {shop.app.ago(60)}), (2, 20, {shop.app.ago(50)})",
        f"CREATE TABLE words (id INT PRIMARY KEY, word {shop.app.word})",
        "INSERT INTO words VALUES (1, 'one')",
        f"CREATE TABLE log (line {shop.app.word}, seen {shop.app.moment} NOT NULL)",
        f"INSERT INTO log VALUES ('a', {shop.app.ago(60)})",
        "CREATE VIEW totals AS SELECT id, total, seen FROM orders",
    )


def test_a_table_without_a_cursor_is_compared_and_only_the_difference_is_committed(shop: Shop) -> None:
    shop.app.execute(
        f"CREATE TABLE film_text (id INT PRIMARY KEY, title {shop.app.word} NOT NULL, note {shop.app.word})"
    )
    shop.app.insert("film_text", [(n, f"film {n}", None) for n in range(1, 301)])
    shop.write(more=", without_cursor: snapshot, deletes: hard, batch_rows: 100")
    [planned] = shop.do("plan").json["flows"]
    assert any("read whole in each run, 300 rows" in note for note in planned["notes"])
    assert shop.run() == {"film_text": ("SUCCESS", 300, 300, 0, 0)}
    assert shop.run() == {"film_text": ("SKIPPED", 0, 0, 0, 0)}
    shop.app.execute(
        "UPDATE film_text SET note = 'seen' WHERE id IN (7, 8)",
        "DELETE FROM film_text WHERE id = 100",
        "INSERT INTO film_text VALUES (400, 'new', NULL)",
    )
    assert shop.verify(code=1)["film_text"]["different"] == 2
    assert shop.run() == {"film_text": ("SUCCESS", 3, 1, 2, 1)}
    assert shop.verify()["film_text"]["equal"]
    everything = "SELECT id, title, note FROM film_text ORDER BY id"
    assert shop.copy.rows(everything) == shop.app.rows(everything)
    # A row that went and is there again, as it was.
    shop.app.execute("INSERT INTO film_text VALUES (100, 'film 100', NULL)")
    assert shop.run() == {"film_text": ("SUCCESS", 1, 1, 0, 0)}
    # Somebody's hand in the target is mended by the next run.
    shop.copy.execute("DELETE FROM film_text WHERE id < 4", "INSERT INTO film_text VALUES (999, 'x', 'x')")
    assert shop.run() == {"film_text": ("SUCCESS", 3, 3, 0, 1)}
    assert shop.copy.rows(everything) == shop.app.rows(everything)


@pytest.mark.shown_on("sqlite-duckdb")
def test_rows_that_are_alike_are_counted_where_there_is_no_key(shop: Shop) -> None:
    shop.app.execute(f"CREATE TABLE votes (name {shop.app.word}, points INT)")
    shop.app.insert("votes", [("a", 1)] * 3 + [("b", None)] * 2 + [(None, None)] + [("c", 5)])
    shop.write(more=", without_cursor: snapshot, deletes: hard, deletes_limit: 90%")
    everything = "SELECT name, points FROM votes"
    assert shop.run() == {"votes": ("SUCCESS", 7, 7, 0, 0)}
    assert Counter(shop.copy.rows(everything)) == Counter(shop.app.rows(everything))
    assert shop.run() == {"votes": ("SKIPPED", 0, 0, 0, 0)}
    shop.app.insert("votes", [("a", 1)] * 2 + [(None, None)])
    shop.app.execute("DELETE FROM votes WHERE name = 'b'", "UPDATE votes SET points = 6 WHERE name = 'c'")
    assert shop.run() == {"votes": ("SUCCESS", 4, 4, 0, 3)}
    assert Counter(shop.copy.rows(everything)) == Counter(shop.app.rows(everything))
    assert shop.verify()["votes"]["equal"]


@pytest.mark.shown_on("sqlite-duckdb")
def test_all_tables_without_a_cursor_are_named_in_one_sentence_and_the_others_run(shop: Shop) -> None:
    two_tables(shop)
    shop.write(more=", cursor: seen")
    ran = shop.do("run", code=1)
    states = {one["flow"].removeprefix(shop.app.home): one["state"] for one in ran.json["flows"]}
    assert states.pop("orders") == "SUCCESS"
    [failed] = [one for one in ran.json["flows"] if one["state"] == "FAILED"]
    assert failed["error"]["message"].endswith(
        "connection 'app' has tables with no column seen, which is to be the cursor, or no key:"
        f" {shop.app.home}log, {shop.app.home}words"
    )
    assert "`without_cursor: snapshot`" in failed["error"]["hint"]
    # Who asks for another table is not told.
    shop.do("run", "-t", f"{shop.app.home}orders")
    shop.write(more=", cursor: seen, without_cursor: skip")
    ran = shop.do("run")
    assert [one["flow"] for one in ran.json["flows"]] == [f"{shop.app.home}orders"]
    assert any(f"leaves out {shop.app.home}log, {shop.app.home}words" in note for note in ran.json["notes"])
    shop.write(more=", cursor: seen, without_cursor: snapshot")
    assert shop.run() == {
        "orders": ("SKIPPED", 0, 0, 0, 0),
        "log": ("SUCCESS", 1, 1, 0, 0),
        "words": ("SUCCESS", 1, 1, 0, 0),
    }


def test_a_table_whose_cursor_goes_is_not_skipped(files: Shop) -> None:
    two_tables(files)
    for word in ("skip", "snapshot"):
        files.write("orders", more=f", cursor: seen, without_cursor: {word}")
        files.run()
        files.app.execute("DROP VIEW IF EXISTS totals", "ALTER TABLE orders RENAME COLUMN seen TO moved")
        [flow] = files.do("run", code=1).json["flows"]
        assert flow["error"]["type"] == "ColumnMissing"
        files.app.execute("ALTER TABLE orders RENAME COLUMN moved TO seen")


def test_a29_a_table_that_was_read_whole_and_is_gone_is_not_passed_over(files: Shop) -> None:
    two_tables(files)
    files.write('"w*"', more=", without_cursor: snapshot")
    files.run()
    files.app.execute("DROP TABLE words")
    [flow] = files.do("run", code=1).json["flows"]
    assert (flow["flow"], flow["error"]["type"]) == ("words", "TableMissing")


@pytest.mark.shown_on("sqlite-duckdb")
def test_rows_without_a_key_are_appended_by_their_cursor_alone(shop: Shop) -> None:
    """A whole tie is one batch: nothing tells its rows apart."""
    old, young = shop.app.ago(60), shop.app.ago(40)
    shop.app.execute(f"CREATE TABLE log (line {shop.app.word}, seen {shop.app.moment} NOT NULL)")
    tie = ", ".join(["('tie', '2025-01-01 00:00:00')"] * 20)
    shop.app.execute(f"INSERT INTO log VALUES {tie}", f"INSERT INTO log VALUES ('a', {old}), ('a', {young})")
    shop.write("log", more=", cursor: seen, mode: append, batch_rows: 7")
    assert shop.run() == {"log": ("SUCCESS", 22, 22, 0, 0)}
    assert shop.run() == {"log": ("SKIPPED", 0, 0, 0, 0)}
    shop.app.execute(f"INSERT INTO log VALUES ('a', {shop.app.ago(20)})")
    assert shop.run() == {"log": ("SUCCESS", 1, 1, 0, 0)}
    everything = "SELECT line, seen FROM log"
    lines = Counter(line for line, _ in shop.app.rows(everything))
    assert Counter(line for line, _ in shop.copy.rows(everything)) == lines == {"tie": 20, "a": 3}
    assert shop.verify()["log"]["equal"]
    shop.copy.execute("DELETE FROM log WHERE line = 'tie'", "INSERT INTO log SELECT * FROM log")
    found = shop.verify(code=1)["log"]
    assert (found["missing"], found["extra"]) == (20, 3)


@pytest.mark.shown_on("sqlite-duckdb")
def test_a_view_is_read_if_it_is_named(shop: Shop) -> None:
    two_tables(shop)
    shop.write("totals", more=", cursor: seen, key: id")
    assert shop.run() == {"totals": ("SUCCESS", 2, 2, 0, 0)}
    shop.app.execute(f"INSERT INTO orders VALUES (3, 30, {shop.app.ago(20)})")
    assert shop.run() == {"totals": ("SUCCESS", 1, 1, 0, 0)}
    assert shop.verify()["totals"]["equal"]
    assert shop.copy.rows("SELECT id, total FROM totals ORDER BY id") == [(1, 10), (2, 20), (3, 30)]
    shop.app.execute("UPDATE orders SET id = 1 WHERE id = 99", "DROP VIEW totals")
    [flow] = shop.do("run", code=1).json["flows"]
    assert flow["error"]["type"] == "TableMissing"


def test_through_a_lake_goes_the_whole_table_if_it_has_changed(files: Shop) -> None:
    two_tables(files)
    files.write(
        "words",
        more=", without_cursor: snapshot, deletes: hard, deletes_limit: 90%",
        route="via: lake, to: copy",
    )
    assert files.run() == {
        "words/extract": ("SUCCESS", 1, None, None, 0),
        "words/load": ("SUCCESS", 1, 1, 0, 0),
    }
    assert {state for state, *_ in files.run().values()} == {"SKIPPED"}
    files.app.insert("words", [(2, "two"), (3, "three")])
    files.run("--stage", "extract")
    files.app.execute("DELETE FROM words WHERE id = 2", "UPDATE words SET word = 'uno' WHERE id = 1")
    # Two copies lie in the lake, and the newest counts: the row of the first is not brought back.
    assert files.run()["words/load"] == ("SUCCESS", 2, 1, 1, 0)
    assert files.copy.rows("SELECT id, word FROM words ORDER BY id") == [(1, "uno"), (3, "three")]
    files.app.execute("DELETE FROM words WHERE id = 3")
    assert files.run()["words/load"][4] == 1
    files.app.insert("words", [(3, "three")])
    assert files.run()["words/load"] == ("SUCCESS", 2, 1, 0, 0)
    assert all(one["equal"] for one in files.verify().values())


def test_what_has_no_place_for_whole_tables_says_so(files: Shop) -> None:
    two_tables(files)
    for more, words, wanted in [
        (", mode: append", ("run",), "mode append would add"),
        (", mode: scd2", ("run",), "needs a column as its cursor"),
        (
            "",
            ("backfill", "-t", "words", "--from", "2025-01-01", "--reason", "x", "--yes"),
            "none to backfill",
        ),
        ("", ("repair", "-t", "words", "--reason", "x", "--yes"), "none to repair"),
        ("", ("watermark", "set", "-t", "words", "--timestamp", "2025-01-01", "--reason", "x"), "no cursor"),
    ]:
        files.write("words", more=f", without_cursor: snapshot{more}")
        if not more:
            files.run()
        ran = here(*words, "--project", files.file)
        assert ran.code in (1, 2), ran.said
        assert wanted in ran.said


@pytest.mark.shown_on("sqlite-duckdb")
def test_rows_without_a_key_are_filtered_and_masked_before_they_are_counted(shop: Shop) -> None:
    word = shop.app.word
    shop.app.execute(f"CREATE TABLE votes (name {word}, mail {word}, points INT, secret {word})")
    rows = [("a", "x", 1, "s"), ("a", "y", 1, "t"), ("a", "y", 9, "t"), ("b", None, 1, None)]
    shop.app.insert("votes", rows)
    more = ", without_cursor: snapshot, deletes: hard, deletes_limit: 90%, where: points < 9"
    shop.write(more=f"{more}, columns: {{exclude: [secret]}}, mask: {{mail: '***'}}")
    assert shop.run() == {"votes": ("SUCCESS", 3, 3, 0, 0)}
    everything = "SELECT name, mail, points FROM votes"
    assert Counter(shop.copy.rows(everything)) == {("a", "***", 1): 2, ("b", None, 1): 1}
    # What is left out or masked makes no difference.
    shop.app.execute("UPDATE votes SET secret = 'other', mail = 'z' WHERE name = 'a'")
    assert shop.run() == {"votes": ("SKIPPED", 0, 0, 0, 0)}
    shop.app.execute("UPDATE votes SET points = 9 WHERE name = 'b'")
    assert shop.run() == {"votes": ("SUCCESS", 0, 0, 0, 1)}
    assert shop.verify()["votes"]["equal"]


def test_inside_one_database_a_table_without_cursor_or_key_keeps_its_types(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    app = make_database("postgresql", request, tmp_path)
    shop = Shop(tmp_path, app, app)
    app.execute(
        "CREATE TABLE t (id uuid PRIMARY KEY, n numeric, j json)",
        "INSERT INTO t SELECT md5(i::text)::uuid, i / 3.0, '{\"a\":  1}' FROM generate_series(1, 5) AS i",
        "CREATE TABLE v (n numeric, r int4range)",
        "INSERT INTO v VALUES (1.50, 'empty'), (1.50, 'empty'), (NULL, '(,)')",
    )
    more = ", without_cursor: snapshot, deletes: hard, deletes_limit: 90%, execute: database"
    shop.write("t, v", more=more + ', rename: "{table}_copy"', route="to: app")
    assert {flow: counts[:2] for flow, (_, *counts) in shop.run().items()} == {"t": [5, 5], "v": [3, 3]}
    app.execute("UPDATE t SET n = 1.0 WHERE id = md5('3')::uuid", "DELETE FROM v WHERE n IS NULL")
    assert {flow: counts[1:] for flow, (_, *counts) in shop.run().items()} == {"t": [0, 1, 0], "v": [0, 0, 1]}
    for table, columns in (("t", "id, n::text, j::text"), ("v", "n::text, r::text")):
        here_, there = (app.rows(f"SELECT {columns} FROM {name}") for name in (table, f"{table}_copy"))
        assert Counter(there) == Counter(here_)
    assert app.rows("SELECT DISTINCT pg_typeof(id)::text FROM t_copy") == [("uuid",)]
    assert all(one["equal"] for one in shop.verify().values())


def test_rows_longer_than_a_packet_of_the_server_are_told_apart(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """MySQL gives NULL for a text beyond `max_allowed_packet`: for one value, or for the row."""
    shop = make_shop(request, tmp_path, "mysql", "postgresql")
    packet = 1 << 20
    [(before,)] = shop.app.rows("SELECT @@GLOBAL.max_allowed_packet")
    shop.app.execute(f"SET GLOBAL max_allowed_packet = {packet}")
    try:
        shop.app.execute(
            "CREATE TABLE pages (name VARCHAR(9), a LONGTEXT, b LONGTEXT)",
            f"INSERT INTO pages VALUES ('one', REPEAT('y', {packet // 2 + 9}), NULL)",
            f"INSERT INTO pages VALUES ('one', REPEAT('z', {packet // 2 + 9}), NULL)",
            f"INSERT INTO pages VALUES ('two', REPEAT('y', {packet // 3}), REPEAT('z', {packet // 3}))",
            f"INSERT INTO pages VALUES ('two', REPEAT('z', {packet // 3}), REPEAT('y', {packet // 3}))",
            "INSERT INTO pages VALUES ('two', NULL, NULL)",
        )
        shop.write(more=", without_cursor: snapshot, deletes: hard, deletes_limit: 90%")
        assert shop.run() == {"pages": ("SUCCESS", 5, 5, 0, 0)}
        hashes = shop.copy.rows("SELECT _tidegauge_row, _tidegauge_copy FROM pages")
        assert len({row for row, _ in hashes}) == 5
        assert {copy for _, copy in hashes} == {1}
        assert shop.run() == {"pages": ("SKIPPED", 0, 0, 0, 0)}
        shop.app.execute("DELETE FROM pages WHERE a LIKE 'y%' AND b IS NOT NULL")
        assert shop.run() == {"pages": ("SUCCESS", 0, 0, 0, 1)}
        everything = "SELECT name, a, b FROM pages"
        assert Counter(shop.copy.rows(everything)) == Counter(shop.app.rows(everything))
    finally:
        shop.app.execute(f"SET GLOBAL max_allowed_packet = {before}")
