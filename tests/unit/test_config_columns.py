"""`columns`, `mask` and `where` in a project file, and what a watermark remembers of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.test_config_bad_input import WAREHOUSE, refused
from tidegauge.config.column_keys import check_condition
from tidegauge.config.load import load_project
from tidegauge.config.problems import InvalidValue
from tidegauge.model.columns import MaskKind, find_mask
from tidegauge.model.engines import Engine
from tidegauge.model.identity import accept_scope, read_identity
from tidegauge.model.spec import Sync

ROOT = Path(__file__).parents[2]
READABLE = (Engine.MYSQL, Engine.POSTGRESQL, Engine.SQLITE, Engine.DUCKDB, Engine.SNOWFLAKE)


@pytest.fixture(autouse=True)
def salted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TG_SALT", "salt and more")
    monkeypatch.setenv("TG_SHORT", "salt")


def sync(folder: Path, body: str) -> Sync:
    file = folder / "tidegauge.yml"
    file.write_text(WAREHOUSE + body + "}\n")
    [found] = load_project(file).syncs
    return found


CASES = {
    "columns is no mapping": ("columns: ▲[a]", "mapping with `include` or `exclude`"),
    "columns unknown": ("columns: {▲inclde: [a]}", "unknown key `inclde`"),
    "columns both": ("columns: ▲{include: [a], exclude: [b]}", "do not go together"),
    "columns empty": ("columns: {exclude: ▲[]}", "must not be an empty list"),
    "mask is no mapping": ("mask: ▲[email]", "mapping of columns to masks"),
    "mask md5": ("mask: {email: ▲md5}", "`md5` is no mask"),
    "mask quoted null": ("mask: {email: ▲'null'}", "`null` in quotes is text, and no mask"),
    "mask spelling": ("mask: {email: ▲SHA256}", "`SHA256` is no mask"),
    "mask list": ("mask: {email: ▲[a]}", "must be text"),
    "mask other mapping": ("mask: {email: ▲{md5: a}}", "no mask"),
    "plain salt": ("mask: {email: {sha256: ▲a plain salt}}", "plain text in the file"),
    "short salt": ('mask: {email: {sha256: ▲"${env:TG_SHORT}"}}', "at least 8 characters"),
    "override salt": ("override: {orders: {mask: {email: {sha256: ▲aplainsalt}}}}", "plain text in the file"),
    "where list": ("where: ▲[a]", "must be text"),
    "where two": ("where: ▲'a = 1; DROP TABLE t'", "`;` or a comment"),
    "where comment": ("where: ▲'a = 1 -- b'", "`;` or a comment"),
    "where half": ("where: ▲'a = '", "is no condition"),
    "where breaks out": ("where: ▲'1 = 1) OR (1 = 1'", "is no condition"),
    "where override": ("override: {orders: {where: ▲'SELECT 1'}}", "is no condition"),
}


@pytest.mark.parametrize(("body", "said"), CASES.values(), ids=CASES)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, body: str, said: str) -> None:
    error = refused(tmp_path, WAREHOUSE + body + "}\n")
    assert said in f"{error.message} {error.hint}"
    assert "salt and more" not in str(error)


def test_an_override_takes_the_place_of_what_the_sync_says(tmp_path: Path) -> None:
    found = sync(
        tmp_path,
        'columns: {exclude: [a]}, mask: {b: sha256, "*": null, c: "x", D: {sha256: "${env:TG_SALT}"}},'
        ' where: "e = 1",'
        ' override: {one: {mask: {f: sha256}, where: null}, two: {columns: {include: "g"}}}',
    )
    options, one, two = found.options, found.per_table["one"], found.per_table["two"]
    assert (options.columns.exclude, two.columns.include, two.columns.exclude) == (("a",), ("g",), ())
    kinds = [mask.kind for name in "Bcdz" if (mask := find_mask(options.mask, name))]
    assert kinds == [MaskKind.SHA256, MaskKind.TEXT, MaskKind.SHA256, MaskKind.NULL]
    assert [mask.pattern for mask in one.mask] == ["f"]
    assert one.where is None
    assert options.where is not None
    assert two.where == options.where, "with its place on the sync"
    assert "salt and more" not in repr(found)


GOOD = (
    "a = 1",
    "region = 'EU' AND NOT deleted",
    "a IN (SELECT id FROM b)",
    "deleted_at IS NULL",
    "name = 'a;b -- c'",
    "(a = 1 OR b = 2)",
    "EXISTS (SELECT 1 FROM b WHERE b.id = id)",
    "a BETWEEN 1 AND 2",
    "active",
)
BAD = (
    *(
        "a = 1;",
        "a = 1; SELECT 1",
        "a = 1) OR (1 = 1",
        "1 = 1 /* x",
        "1 = 1 /* x */",
        "SELECT 1",
        "DROP TABLE t",
    ),
    *(
        "a = 1 ORDER BY b",
        "a = 1 LIMIT 3",
        "a = 'x",
        "a AS b",
        "a = 1 UNION SELECT 2",
        "UPDATE t SET a = 1",
        "a, b",
    ),
)


@pytest.mark.parametrize("engine", READABLE)
def test_e1_a_filter_is_one_condition_and_nothing_more(engine: Engine) -> None:
    for text in GOOD:
        check_condition(text, engine)
    for text in BAD:
        with pytest.raises(InvalidValue):
            check_condition(text, engine)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a =", "`a =` is no condition: an expression is missing near ="),
        ("a in (select b from )", "Expected table name near )"),
        ("a in (select b from", "Expected table name near from"),
        ("a = 1 order by b", "Invalid expression / Unexpected token near order by"),
        ("a = 'x", "Error tokenizing"),
    ],
)
def test_what_is_wrong_with_a_filter_is_said_without_the_parsers_own_names(text: str, said: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        check_condition(text, Engine.POSTGRESQL)
    assert said in caught.value.message
    assert not re.search("sqlglot|class|Token[ .]|Line 1", caught.value.message), caught.value.message


def test_a_watermark_set_by_hand_keeps_the_table_and_its_order_and_nothing_else() -> None:
    plain, whole = "db#shop.t#0123456789ab", "db#shop.t#0123456789ab.w01234567.m" + "0123456789abcdef" * 2
    found = read_identity(whole)
    assert found is not None
    assert (found.table, found.order, found.where) == ("db#shop.t", "0123456789ab", "01234567")
    assert found.masks == {"01234567": "89abcdef"}
    known = accept_scope(whole)
    assert known == accept_scope(plain) == accept_scope(known) == f"{plain}~"
    assert read_identity(f"{plain}~") == replace(found, where="", masks={}, by_hand=True)
    for other in (None, "lake/t#0:3,1:7", "a-table-id", "delta"):
        assert accept_scope(other) == other


def test_the_pages_example_is_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASK_SALT", "salt and more")
    [example] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "columns.md").read_text(), re.DOTALL)
    file = tmp_path / "tidegauge.yml"
    head = "pipeline: shop\nconnections:\n  app: {type: postgresql, host: db, database: shop, user: u}\n"
    lake = "  lake: {type: parquet, path: lake}\n  warehouse: {type: duckdb, path: w.duckdb}\n"
    file.write_text(head + lake + example)
    [found] = load_project(file).syncs
    assert [mask.kind for mask in found.options.mask] == [MaskKind.SHA256, MaskKind.NULL, MaskKind.TEXT]
    assert found.options.where is not None
