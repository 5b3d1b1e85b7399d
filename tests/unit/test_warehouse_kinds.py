"""Kinds of database that cannot do all that the others can: nobody asks them, and everybody is told."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.support.project import here
from tidegauge.model.engines import Engine
from tidegauge.model.spec import Database
from tidegauge.outputs.warehouse.access import find_lacks
from tidegauge.outputs.warehouse.open import WAREHOUSES, open_warehouse


def test_a_server_without_sql_for_privileges_is_not_asked() -> None:
    nowhere = Database("dw", Engine.POSTGRESQL, port=1, database="dw", user="loader")
    warehouse = open_warehouse(nowhere)
    warehouse.database = replace(nowhere, engine=cast(Engine, "another"))
    assert find_lacks(warehouse, []) is None


def test_a_kind_that_is_only_a_source_is_refused_as_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(WAREHOUSES, Engine.SQLITE)
    with closing(sqlite3.connect(tmp_path / "app.db")) as app:
        app.executescript("CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (id INTEGER PRIMARY KEY)")
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: shop\nledger: sqlite:///ledger.db\n"
        "connections: {app: {type: sqlite, path: app.db}, dw: {type: sqlite, path: dw.db}}\n"
        "sync: [{from: app, to: dw, tables: [a, b], cursor: id}]\n"
    )
    ran = here("plan", "--project", tmp_path / "tidegauge.yml")
    assert ran.code == 1, ran.said
    assert "tidegauge.yml:3:50: dw: a sqlite can be read from, and not written to" in ran.err
    assert "write to a duckdb, postgresql, mysql, redshift or snowflake connection" in ran.err
    assert "KeyError" not in ran.err
