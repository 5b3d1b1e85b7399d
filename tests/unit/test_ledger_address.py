"""Addresses of ledgers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.config.ledger import check_address
from tidegauge.config.problems import InvalidValue
from tidegauge.errors import ConfigError
from tidegauge.ledger.address import parse
from tidegauge.model.ledger_address import ALIASES
from tidegauge.model.secret import Secret, mask


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


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("sqlite:////data/ledger.db?timeout=5", "has no options"),
        ("sqlite:////data/what.db", None),
        ("json:s3a://KEY@bucket/x", "holds a key"),
        ("json:s3a://bucket/a//c", "cannot be read"),
        ("json:s3a://bucket/../c", "cannot be read"),
        ("json:s3a://bucket/x?endpoint", "cannot be read"),
        ("json:s3a://bucket/x#y", "cannot be read"),
        ("json:s3a://bucket/a/c/", None),
    ],
)
def test_what_the_project_file_lets_through_the_ledger_takes(address: str, said: str | None) -> None:
    if said is None:
        found = check_address(address, written=address, base=Path("/"))
        assert parse(found) == parse(address)
        return
    with pytest.raises(ConfigError, match=said):
        parse(address)
    with pytest.raises(InvalidValue, match=said):
        check_address(address, written=address, base=Path("/"))


@pytest.mark.parametrize("name", ["wm.db?timeout=30", "wm.db?", "x.db?immutable", "what?.db", "a?b=c/wm.db"])
def test_the_project_file_takes_no_question_mark_in_a_path_of_sqlite(name: str) -> None:
    address = f"sqlite:////data/{name}"
    with pytest.raises(InvalidValue, match="has no options"):
        check_address(address, written=address, base=Path("/"))


def test_what_looks_like_options_of_sqlite_is_the_name_of_a_file_that_is_there(tmp_path: Path) -> None:
    """Trackers opened such files, and what they had read must not be read again from an empty ledger."""
    address = f"sqlite:///{tmp_path}/wm.db?timeout=30&mode=rw"
    with pytest.raises(ConfigError, match="has no options") as refused:
        parse(address)
    assert "find the file" in str(refused.value.hint)
    (tmp_path / "wm.db").touch()
    with pytest.raises(ConfigError, match="there is no file") as refused:
        parse(address)
    assert refused.value.hint == f"leave out ?timeout=30&mode=rw to open {tmp_path}/wm.db, which is there"
    there = tmp_path / "wm.db?timeout=30&mode=rw"
    there.touch()
    assert parse(address).path == there
    for name in ("wm.db?", "what?.db", "x.db?immutable", "a?b=c/wm.db"):
        assert parse(f"sqlite:///{tmp_path}/{name}").path == tmp_path / name


@pytest.mark.parametrize("alias", ALIASES)
def test_a_word_for_a_scheme_is_answered_with_the_scheme_by_both(alias: str) -> None:
    address = f"{alias}:///a/b.db"
    with pytest.raises(ConfigError) as opened:
        parse(address)
    with pytest.raises(InvalidValue) as checked:
        check_address(address, written=address, base=Path("/"))
    assert str(opened.value.hint).startswith(f"did you mean {ALIASES[alias]}?")
    assert checked.value.hint == f"did you mean `{ALIASES[alias]}`?"


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


@pytest.mark.parametrize("kind", ["json", "delta"])
def test_a_folder_is_relative_or_absolute_and_otherwise_as_it_stands(kind: str) -> None:
    parsed = parse(f"{kind}:/var/lib/a b?c#d%20")
    assert parsed.lake is not None
    assert (parsed.scheme, parsed.lake.path) == (kind, "/var/lib/a b?c#d%20")
    assert parsed.shown == f"{kind}:/var/lib/a b?c#d%20"
    for relative in (f"{kind}:ops/ledger", f"{kind}:file:ops/ledger"):
        lake = parse(relative).lake
        assert lake is not None
        assert lake.path == str(Path.cwd() / "ops/ledger")


def test_a_bucket_is_bucket_prefix_endpoint_and_region() -> None:
    parsed = parse("json:s3a://company-lake/ops/ledger/?endpoint=http://127.0.0.1:9000&region=eu-central-1")
    lake = parsed.lake
    assert lake is not None
    assert (lake.path, lake.endpoint, lake.region) == (
        "s3a://company-lake/ops/ledger",
        "http://127.0.0.1:9000",
        "eu-central-1",
    )
    assert (lake.access_key, lake.secret_key) == (None, None)
    assert parsed.shown == "json:s3a://company-lake/ops/ledger"


@pytest.mark.parametrize(
    "address",
    [
        "json:",
        "json:/",
        "json:s3a://",
        "json:s3://bucket/x",
        "json:s3a://bucket/a//b",
        "json:s3a://bucket/../b",
        "json:s3a://key:canary@bucket/x",
        "json:s3a://bucket/x?secret_key=canary",
        "json:s3a://bucket/x?endpoint",
        "json:s3a://bucket/x#y",
    ],
)
def test_a_folder_or_bucket_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(address)
    assert caught.value.hint
    assert "canary" not in f"{caught.value.message}{caught.value.hint}"
