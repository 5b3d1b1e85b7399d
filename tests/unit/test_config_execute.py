"""`execute: database`: which ends are one database, and what does not go with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidegauge.config.load import load_project
from tidegauge.errors import ConfigError
from tidegauge.model.one_database import are_one, is_one_table, share_a_transaction
from tidegauge.model.spec import Database, Engine, Execution, TableName

HEAD = """\
pipeline: shop
connections:
  app: {type: sqlite, path: shop.db}
  link: {type: sqlite, path: other/../shop.db}
  else: {type: sqlite, path: else.db}
  pg: {type: postgresql, host: DB.internal, database: shop, user: reader}
  house: {type: postgresql, host: db.internal, port: 5432, database: shop, user: loader, schema: dw}
  twin: {type: postgresql, host: db.internal, database: dw, user: reader}
  port: {type: postgresql, host: db.internal, port: 5433, database: shop, user: reader}
  my: {type: mysql, host: db.internal, database: shop, user: reader}
  mine: {type: mysql, host: db.internal, port: 3306, database: dw, user: loader}
  snow: {type: snowflake, account: org-a, database: OPS, user: u}
  snowy: {type: snowflake, account: ORG-A, database: DW, schema: X, user: v}
  lake: {type: parquet, path: lake}
  tables: {type: delta, path: t}
sync:
"""


def load(folder: Path, body: str) -> None:
    file = folder / "tidegauge.yml"
    file.write_text(f"{HEAD}  - {{cursor: at, {body}}}\n")
    project = load_project(file)
    [sync] = project.syncs
    made = [sync.options, *sync.per_table.values()]
    assert Execution.DATABASE in [one.execute for one in made]
    assert all((one.execute is Execution.DATABASE) is (one.parallel == 1) for one in made)


@pytest.mark.parametrize(
    "body",
    [
        "from: app, to: app, tables: t, rename: '{table}_copy', execute: database",
        "from: app, to: link, tables: t, rename: '{table}_copy', execute: database, parallel: 4",
        "from: pg, to: house, tables: public.t, execute: database",
        "from: my, to: mine, tables: shop.t, execute: database",
        "from: snow, to: snowy, tables: PUBLIC.T, execute: database",
        "from: pg, to: house, tables: 'public.*', override: {public.t: {execute: database}}",
        "from: pg, to: house, tables: 'public.*', execute: database, override: {public.t: {execute: spark}}",
    ],
)
def test_ends_that_are_one_database_are_taken(tmp_path: Path, body: str) -> None:
    load(tmp_path, body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("from: app, to: else, tables: t", ["`app` is SQLite", "/shop.db", "`else` is SQLite", "/else.db"]),
        ("from: pg, to: app, tables: t", ["`pg` is PostgreSQL db.internal:5432/shop", "`app` is SQLite"]),
        ("from: pg, to: twin, tables: t", ["PostgreSQL db.internal:5432/shop", "db.internal:5432/dw"]),
        ("from: pg, to: port, tables: t", ["db.internal:5432/shop", "db.internal:5433/shop"]),
        ("from: app, to: lake, tables: t", ["`lake` is not one"]),
        ("from: app, to: tables, tables: t", ["`tables` is not one"]),
        ("from: pg, via: lake, to: house, tables: public.t", ["`via`", "`lake`"]),
        ("from: pg, to: house, tables: public.t, read: jdbc", ["read `jdbc`", "nobody reads them"]),
        (
            "from: pg, to: house, tables: public.t, expect: {id: not_null}",
            ["`expect`", "none comes by"],
        ),
        ("from: app, to: link, tables: t", ["written onto itself"]),
    ],
)
def test_what_cannot_be_done_inside_one_database_is_refused_with_its_place(
    tmp_path: Path, body: str, words: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"{body}, execute: database")
    error = caught.value
    assert error.exit_code == 2
    assert error.place is not None
    assert error.place.line == HEAD.count("\n") + 1
    assert error.hint
    assert "spark" not in error.hint, "the default is `auto`"
    for word in words:
        assert word in error.message, error.message


def test_an_override_is_refused_where_it_stands(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "from: app, to: else, tables: 't*', override: {t1: {execute: database}}")
    assert caught.value.place is not None
    column = "  - {cursor: at, from: app, to: else, tables: 't*', override: {t1: {"
    assert caught.value.place.column == len(column) + 1


def test_a_word_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="databse"):
        load(tmp_path, "from: app, to: else, tables: t, execute: databse")


def test_names_mean_one_table_as_the_engine_says(tmp_path: Path) -> None:
    file = Database("a", Engine.SQLITE, path=tmp_path / "a.db")
    assert is_one_table(file, TableName(None, "T"), file, TableName(None, "t"))
    server = Database("p", Engine.POSTGRESQL, database="d", user="u")
    assert not is_one_table(server, TableName("public", "T"), server, TableName("public", "t"))
    snow = Database("s", Engine.SNOWFLAKE, account="a", database="OPS")
    other = replace(snow, database="DW")
    assert share_a_transaction(snow, other)
    assert not are_one(snow, other)
    assert not is_one_table(snow, TableName("PUBLIC", "T"), other, TableName("PUBLIC", "T"))
