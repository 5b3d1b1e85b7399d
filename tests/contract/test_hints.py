"""Mistakes whose hint once led astray: each is made as a user would make it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import duckdb
import pytest

from tests.support.project import Ran, here

SHOP = """\
pipeline: shop
connections: {{app: {{type: sqlite, path: shop.db}}, dw: {{type: duckdb, path: dw.duckdb}}}}
sync: [{{from: app, to: dw, cursor: at, settle: 0s, {}}}]
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, at TEXT, v TEXT)")
        shop.execute("INSERT INTO a VALUES (1, '2026-01-01 00:00:00', 'x'), (2, '2026-01-02 00:00:00', 'y')")
        shop.execute("CREATE TABLE twice (a INT, b INT, at TEXT)")
        shop.execute("INSERT INTO twice VALUES (1, 1, '2026-01-01 00:00:00'), (1, 1, '2026-01-02 00:00:00')")
        shop.execute("CREATE TABLE ours (id INTEGER PRIMARY KEY, at TEXT, _tidegauge_deleted_at TEXT)")
        shop.execute("INSERT INTO ours VALUES (1, '2026-01-01 00:00:00', 'x')")
    return tmp_path


def say(shop: Path, sync: str, *words: str, more: str = "") -> Ran:
    (shop / "tidegauge.yml").write_text(SHOP.format(sync) + more)
    return here(*(words or ("run",)), "--project", shop)


def test_a_key_that_is_not_unique_is_not_answered_with_itself(shop: Path) -> None:
    said = say(shop, "tables: [twice], key: [a, b]").err
    assert "the key (a, b) is not unique: 2 rows have (1, 1)" in said
    assert "hint: name in `key:`, beside a, b, what tells these rows apart" in said


def test_a_name_that_is_ours_is_not_blamed_on_the_mode(shop: Path) -> None:
    said = say(shop, "tables: [ours], mode: merge").err
    assert "leave it out: `columns: {exclude: [_tidegauge_deleted_at]}`" in said
    assert "scd2" not in said
    assert say(shop, "tables: [ours], columns: {exclude: [_tidegauge_deleted_at]}").code == 0


def test_another_mode_is_refused_with_the_way_on(shop: Path) -> None:
    assert say(shop, "tables: [a], mode: merge").code == 0
    with sqlite3.connect(shop / "shop.db") as database:
        database.execute("UPDATE a SET at = '2026-02-01 00:00:00'")
    said = say(shop, "tables: [a], mode: append").err
    assert "filled in mode merge, and cannot be continued in mode append" in said
    assert "--full-refresh" in said


def test_text_that_is_not_utf8_is_told_with_its_row(shop: Path) -> None:
    with sqlite3.connect(shop / "shop.db") as database:
        database.execute("INSERT INTO a VALUES (7, '2026-01-03 00:00:00', CAST(X'ff41' AS TEXT))")
    said = say(shop, "tables: [a]").err
    assert "a, column v: text that is not UTF-8 in the row with id = 7" in said


@pytest.mark.parametrize(("written", "by_hand"), [("f.py", "python f.py"), ("f", "python -c 'import f'")])
def test_a_module_that_fails_is_tried_by_hand_as_it_can_be(shop: Path, written: str, by_hand: str) -> None:
    (shop / "f.py").write_text("import nothing_there\n")
    said = say(shop, "tables: [a]", "plan", more=f"modules: [{written}]\n").err
    assert f"`{by_hand}` in " in said


def test_an_import_is_called_modules(shop: Path) -> None:
    said = say(shop, "tables: [a]", "plan", more="import: [f.py]\n")
    assert (said.code, "did you mean `modules`?" in said.err) == (2, True)


@pytest.mark.parametrize(("word", "hint"), [("bb", "there are: a"), ("aa", "did you mean a?")])
def test_a_table_that_is_not_there_is_answered_with_tables(shop: Path, word: str, hint: str) -> None:
    text = SHOP.format("tables: [a], via: lake").replace(
        "dw: {type", "lake: {type: parquet, path: lake}, dw: {type"
    )
    (shop / "tidegauge.yml").write_text(text)
    assert f"hint: {hint}\n" in here("run", "-t", word, "--project", shop).err


def test_a_text_can_arrive_as_the_digits_of_a_clock(shop: Path) -> None:
    assert say(shop, "tables: [a], types: {at: timestamp_ntz}").code == 0
    with duckdb.connect(str(shop / "dw.duckdb")) as warehouse:
        [(kind,)] = warehouse.execute("SELECT DISTINCT typeof(a.at) FROM a").fetchall()
    assert kind == "TIMESTAMP"


@pytest.mark.parametrize(
    ("window", "rows"),
    [
        (("--from", "2026-01-02"), 1),
        (("--from", "2026-01-01", "--to", "2026-01-01"), 1),
        (("--to", "2026-01-01 23:59:59"), 1),
        (("--from", "2026-01-01"), 2),
    ],
)
def test_a_backfill_includes_both_ends(shop: Path, window: tuple[str, ...], rows: int) -> None:
    assert say(shop, "tables: [a]").code == 0
    done = here("backfill", "-t", "a", *window, "--dry-run", "--json", "--project", shop)
    assert done.code == 0, done.said
    [flow] = done.json["backfills"]
    assert flow["rows_read_again"] == rows
    past = here("backfill", "-t", "a", "--from", "2026-01-02 00:00:01", "--dry-run", "--project", shop)
    assert (past.code, "lies past the watermark" in past.err) == (2, True)


def test_a_cursor_that_no_table_has_may_be_misspelt(shop: Path) -> None:
    text = SHOP.format('tables: ["*"]').replace("cursor: at", "cursor: att")
    (shop / "tidegauge.yml").write_text(text)
    assert "hint: did you mean `cursor: at`? Else add `without_cursor" in here("run", "--project", shop).err


def test_tables_that_never_ran_are_told_in_one_sentence(shop: Path) -> None:
    said = say(shop, "tables: [a, ours]", "verify")
    assert said.code == 2
    assert "a has no watermark yet, so there is nothing to compare; and 1 more alike\n" in said.err


def test_a_file_without_flows_says_so(tmp_path: Path) -> None:
    (tmp_path / "tidegauge.yml").write_text("pipeline: shop\n")
    assert "the project file has no `sync:` and no `flows:`" in here("run", "--project", tmp_path).out
