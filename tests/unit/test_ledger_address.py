"""Addresses of ledgers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.errors import ConfigError
from tidegauge.ledger.address import parse
from tidegauge.model.secret import Secret, mask

pytestmark = pytest.mark.unit


def test_a_file_is_relative_or_absolute_and_otherwise_as_it_stands() -> None:
    assert parse("sqlite:////var/lib/a b?c#d%20.db").path == Path("/var/lib/a b?c#d%20.db")
    assert parse("sqlite:///.tidegauge/ledger.db").path == Path.cwd() / ".tidegauge/ledger.db"


@pytest.mark.parametrize(
    ("address", "driver", "port"),
    [
        ("postgresql://me:p%40ss@db.internal/ops", "postgresql+psycopg", None),
        ("mysql://me:p%40ss@db.internal:3307/ops", "mysql+pymysql", 3307),
    ],
)
def test_a_server_is_user_password_host_port_and_database(
    address: str, driver: str, port: int | None
) -> None:
    parsed = parse(Secret(address))
    assert parsed.url is not None
    assert parsed.url.drivername == driver
    assert (parsed.url.username, parsed.url.password) == ("me", "p@ss")
    assert (parsed.url.host, parsed.url.port, parsed.url.database) == ("db.internal", port, "ops")
    assert parsed.scheme == address.partition(":")[0]


def test_e3_the_password_is_neither_shown_nor_printed() -> None:
    parsed = parse("postgresql://me:address%20canary@db/ops?sslmode=require")
    assert "canary" not in parsed.shown
    assert parsed.shown == "postgresql://me:***@db/ops"
    assert mask("driver said: address canary, address%20canary") == "driver said: ***, ***"


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("postgres://u@h/d", "postgresql"),
        ("postgresq://u@h/d", "postgresql"),
        ("mariadb://u@h/d", "mysql"),
        ("mysq://u@h/d", "mysql"),
        ("MySQL://u@h/d", "mysql"),
        ("sqlit:///a.db", "sqlite"),
        ("sqlite3:///a.db", "sqlite"),
        ("postgresql+asyncpg://u@h/d", "postgresql"),
    ],
)
def test_an_unknown_scheme_is_answered_with_the_nearest_word(address: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(address)
    assert caught.value.hint is not None
    assert f"did you mean {near}?" in caught.value.hint


@pytest.mark.parametrize("address", ["", "ledger.db", "/var/ledger.db", "redis://h/0", "http://h/x"])
def test_what_is_no_address_is_answered_with_all_schemes(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(address)
    assert caught.value.hint is not None
    assert "sqlite" in caught.value.hint
    assert "postgresql" in caught.value.hint


@pytest.mark.parametrize(
    "address", ["sqlite:", "sqlite://", "sqlite:///", "sqlite://a.db", "sqlite:///:memory:"]
)
def test_a_ledger_in_memory_or_nowhere_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="names no file"):
        parse(address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://",
        "postgresql://h",
        "mysql://u:canary@:3306/d",
        "mysql://u:canary@h:port/d",
        "mysql://u:canary@h:99x/d",
        "postgresql:/h/d",
    ],
)
def test_an_address_that_cannot_be_read_does_not_show_its_secret(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(Secret(address))
    assert caught.value.hint is not None
    assert "://USER:PASSWORD@HOST" in caught.value.hint
    assert "canary" not in f"{caught.value.message}{caught.value.hint}"


@pytest.mark.parametrize(
    "option",
    [
        "local_infile=1",
        "init_command=DROP",
        "read_default_file=/etc/passwd",
        "LOCAL_INFILE=1",
        "%6cocal_infile=1",
    ],
)
def test_e2_an_option_that_is_not_allowed_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match="not allowed"):
        parse(f"mysql://u@h/d?{option}")


def test_a_misspelt_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("postgresql://u@h/d?ssl_mode=require")
    assert caught.value.hint == "did you mean sslmode?"
