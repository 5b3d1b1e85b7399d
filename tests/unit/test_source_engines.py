"""What is particular to one kind of database has its place, and the shared code names none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tidegauge
from tidegauge.config.connection_keys import CONNECTIONS
from tidegauge.errors import ConfigError
from tidegauge.model.default_schema import default_schema, split_name
from tidegauge.model.engines import FACTS, READABLE, Engine
from tidegauge.model.spec import Database, TableName
from tidegauge.sources.engines import ENGINES, find_engine

SOURCE = Path(tidegauge.__file__).parent
PLACES = (
    "model/engines.py",
    "config/connection_keys.py",
    "outputs/",
    "flows/table/deletes.py",
    "compare/blocks/",
)
"""Beside an engine's own folder. `flows/table/deletes.py` asks how a target compares keys,
`compare/blocks` has the SQL of each one's hashes."""


def test_every_kind_has_its_facts_and_its_keys() -> None:
    assert set(FACTS) == set(Engine)
    assert set(Engine) <= set(CONNECTIONS)


def test_what_can_be_read_is_in_the_table_of_sources_with_a_jdbc_driver_or_without() -> None:
    assert set(ENGINES) == set(READABLE)
    assert all(bool(FACTS[engine].jdbc_jar) == bool(ENGINES[engine].jdbc_options) for engine in READABLE)


@pytest.mark.parametrize("engine", READABLE)
def test_only_its_own_folder_names_a_source_database(engine: Engine) -> None:
    named = re.compile(rf"\bEngine\.{engine.name}\b|sources\.{engine}\b")
    found = [str(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py") if named.search(file.read_text())]
    allowed = (*PLACES, f"sources/{engine}/", "sources/engines.py")
    assert [file for file in found if not file.startswith(allowed)] == []


def test_a_database_that_is_only_written_to_is_refused_as_a_source() -> None:
    with pytest.raises(ConfigError) as caught:
        find_engine(Database("house", Engine.REDSHIFT))
    assert caught.value.message == "house: a redshift can be written to, and not read from"
    assert caught.value.hint == "read from a sqlite, mysql, postgresql, duckdb or snowflake connection"


@pytest.mark.parametrize(
    ("database", "schema"),
    [
        (Database("a", Engine.SQLITE, path=Path("/x.db")), None),
        (Database("a", Engine.MYSQL, database="shop"), "shop"),
        (Database("a", Engine.POSTGRESQL), "public"),
        (Database("a", Engine.POSTGRESQL, schema="sales"), "sales"),
        (Database("a", Engine.DUCKDB), "main"),
        (Database("a", Engine.REDSHIFT), "public"),
        (Database("a", Engine.SNOWFLAKE), "PUBLIC"),
    ],
)
def test_a_table_without_a_schema_lives_where_its_connection_or_its_kind_says(
    database: Database, schema: str | None
) -> None:
    assert default_schema(database) == schema


def test_a_dot_is_part_of_a_name_where_there_are_no_schemas() -> None:
    assert split_name(Database("a", Engine.SQLITE), "b.c") == TableName(None, "b.c")
    assert split_name(Database("a", Engine.MYSQL), "b.c") == TableName("b", "c")
    assert split_name(Database("a", Engine.MYSQL), "c") == TableName(None, "c")
