"""JDBC addresses are built from parts; nothing a user writes becomes an option of a driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.errors import ConfigError
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Database, Engine
from tidegauge.sources.engines import find_engine


def jdbc_options(database: Database) -> dict[str, str]:
    options = find_engine(database).jdbc_options
    assert options is not None
    return options(database)


HOSTILE = [
    "db?autoDeserialize=true",
    "db:3306/x?allowLoadLocalInfile=true",
    "address=(host=db)(autoDeserialize=true)",
    "(host=db,allowUrlInLocalInfile=true)",
    "db,evil",
    "user:pw@db",
    "db%3fautoDeserialize%3dtrue",
    "db/x",
    "db#",
    "db\\",
    "db\n",
    "",
    " ",
]


@pytest.mark.parametrize("engine", [Engine.MYSQL, Engine.POSTGRESQL])
@pytest.mark.parametrize("host", HOSTILE)
def test_e2_a_host_is_a_host_and_nothing_else(engine: Engine, host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        jdbc_options(Database("app", engine, host=host, database="shop"))
    assert caught.value.hint


@pytest.mark.parametrize("engine", [Engine.MYSQL, Engine.POSTGRESQL])
@given(name=st.text(min_size=1, max_size=30).filter(lambda text: "\0" not in text and text.isprintable()))
def test_e2_a_database_name_cannot_leave_its_place(engine: Engine, name: str) -> None:
    url = jdbc_options(Database("app", engine, host="db.internal", database=name))["url"]
    assert url.count("?") == 0
    assert url.count("/") == 3
    assert not set("&;#=() ") & set(url.rpartition("/")[2])


def test_e2_dangerous_options_are_forced_off() -> None:
    options = jdbc_options(Database("app", Engine.MYSQL, host="db", database="shop"))
    for name in ("autoDeserialize", "allowLoadLocalInfile", "allowUrlInLocalInfile", "allowMultiQueries"):
        assert options[name] == "false"


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("db.internal", "db.internal"),
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "[::1]"),
        ("[::1]", "[::1]"),
        ("db_1", "db_1"),
    ],
)
def test_hosts_of_every_kind_are_addressed(host: str, shown: str) -> None:
    url = jdbc_options(Database("app", Engine.MYSQL, host=host, port=3307, database="shop"))["url"]
    assert url == f"jdbc:mysql://{shown}:3307/shop"


def test_the_driver_is_always_named_and_the_password_is_no_part_of_the_address() -> None:
    for engine in (Engine.MYSQL, Engine.POSTGRESQL):
        options = jdbc_options(Database("app", engine, database="d", user="u", password=Secret("p@ss/word")))
        assert options["driver"]
        assert "p@ss" not in options["url"]
        assert options["password"] == "p@ss/word"
    assert jdbc_options(Database("local", Engine.SQLITE, path=Path("/x.db")))["driver"] == "org.sqlite.JDBC"


def test_a_sqlite_path_cannot_carry_options() -> None:
    path = Path("/data/a?mode=rwc&vfs=x#%20 b.db")
    url = jdbc_options(Database("local", Engine.SQLITE, path=path))["url"]
    assert url == "jdbc:sqlite:file:/data/a%3Fmode%3Drwc%26vfs%3Dx%23%2520%20b.db?mode=ro"


def test_options_of_ours_become_the_drivers_own() -> None:
    ours = {"ssl": "verify-full", "ssl_ca": "/ca.pem", "connect_timeout": "3"}
    mysql = jdbc_options(Database("app", Engine.MYSQL, database="d", options=ours))
    assert (mysql["sslMode"], mysql["connectTimeout"]) == ("VERIFY_IDENTITY", "3000")
    postgresql = jdbc_options(Database("app", Engine.POSTGRESQL, database="d", options=ours))
    assert (postgresql["sslmode"], postgresql["sslrootcert"], postgresql["connectTimeout"]) == (
        "verify-full",
        "/ca.pem",
        "3",
    )
