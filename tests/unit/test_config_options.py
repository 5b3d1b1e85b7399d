"""Hazard E2: no option of a driver's own gets through, however it is spelled."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.config.load import load_project
from tidegauge.config.options import MEANINGS, check_option_name, check_options
from tidegauge.config.problems import InvalidValue
from tidegauge.errors import ConfigError
from tidegauge.model.spec import Database

HOSTILE = [
    "autoDeserialize", "allowLoadLocalInfile", "allowUrlInLocalInfile", "allowLoadLocalInfileInPath",
    "queryInterceptors", "statementInterceptors", "exceptionInterceptors", "connectionLifecycleInterceptors",
    "socketFactory", "socketFactoryArg", "sslfactory", "sslfactoryarg", "sslhostnameverifier",
    "sslpasswordcallback", "loggerFile", "loggerLevel", "logger", "authenticationPluginClassName",
    "authenticationPlugins", "defaultAuthenticationPlugin", "clientInfoProvider", "propertiesTransform",
    "useConfigs", "local_infile", "init_command", "sessionVariables", "allowMultiQueries",
    "trustCertificateKeyStoreUrl", "jaasApplicationName", "gsslib", "options", "service", "password", "user",
    "read_default_file", "profilerEventHandler", "loadBalanceStrategy", "ha.loadBalanceStrategy",
]  # fmt: skip
ENGINES = ["mysql", "postgresql", "redshift", "snowflake"]
NEEDED = {"redshift": "    host: h\n", "snowflake": "    account: a\n"}


def project(folder: Path, engine: str, options: str) -> Path:
    file = folder / "tidegauge.yml"
    file.write_text(
        f"pipeline: x\nconnections:\n  db:\n    type: {engine}\n    database: d\n    user: u\n    options:\n"
        f"      {options}\n{NEEDED.get(engine, '')}"
    )
    return file


def all_percent(text: str) -> str:
    return "".join(f"%{ord(letter):02x}" for letter in text)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "disguise",
    [
        str,
        str.upper,
        str.swapcase,
        all_percent,
        lambda name: all_percent(name[0]) + name[1:],
        lambda name: quote(all_percent(name)),
        lambda name: f"ssl&{name}",
        lambda name: f"ssl=disable&{name}",
    ],
)
def test_e2_a_hostile_option_is_refused_with_its_place(
    tmp_path: Path, engine: str, name: str, disguise: object
) -> None:
    assert callable(disguise)
    file = project(tmp_path, engine, f'"{disguise(name)}": true')
    with pytest.raises(ConfigError) as caught:
        load_project(file)
    error = caught.value
    assert error.place is not None
    assert (error.place.line, error.place.column) == (8, 7)
    assert f"is not allowed on {engine}" in error.message


@given(st.text(max_size=30))
def test_e2_only_our_own_names_come_through(name: str) -> None:
    for engine in ENGINES:
        try:
            found = check_option_name(name, engine)
        except InvalidValue:
            continue
        assert found in MEANINGS


@pytest.mark.parametrize("written", ["ssl_ca", "SSL_CA", "Ssl_Ca", "ssl%5Fca", "ssl%255Fca"])
def test_e2_names_are_compared_without_case_and_percent(written: str) -> None:
    assert check_option_name(written, "mysql") == "ssl_ca"


def test_e2_the_same_option_in_two_spellings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="given twice") as caught:
        load_project(project(tmp_path, "mysql", "ssl: require\n      SSL: disable"))
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (9, 7)


@pytest.mark.parametrize(
    "path", ["ca.pem?autoDeserialize=true", "ca&allowLoadLocalInfile=true", "ca%26x", "a#b", "a;b"]
)
def test_e2_a_path_cannot_carry_an_option(path: str) -> None:
    with pytest.raises(InvalidValue, match="the path holds"):
        check_options({"ssl_ca": path}, engine="mysql", base=Path("/p"))


@pytest.mark.parametrize(
    ("options", "place", "message", "hint"),
    [
        ("conect_timeout: 5", (8, 7), "`conect_timeout` is not allowed", "`connect_timeout`"),
        ("ssl: requir", (8, 12), "`requir` is not known", "`require`"),
        ("ssl: true", (8, 12), "`true` is not known", "`verify-full`"),
        ("connect_timeout: soon", (8, 24), "`soon` is not a duration", "`30s`"),
        ("connect_timeout: 0", (8, 24), "from 1s to 1h", ""),
        ("connect_timeout: [5]", (8, 24), "must be text", ""),
        ("ssl_cert: c.pem", (8, 7), "`ssl_cert` is not allowed", ""),
        ("ssl_ca: ''", (8, 15), "must not be empty", ""),
    ],
)
def test_a_wrong_option_is_named_with_its_place(
    tmp_path: Path, options: str, place: tuple[int, int], message: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_project(project(tmp_path, "postgresql", options))
    error = caught.value
    assert error.place is not None
    assert (error.place.line, error.place.column) == place
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize(("written", "seconds"), [("5", "5"), ("5s", "5"), ("1m30s", "90"), ("1500ms", "2")])
def test_connect_timeout_becomes_whole_seconds(tmp_path: Path, written: str, seconds: str) -> None:
    database = load_project(project(tmp_path, "mysql", f"connect_timeout: {written}")).connections["db"]
    assert isinstance(database, Database)
    assert database.options == {"connect_timeout": seconds}


def test_paths_in_options_are_relative_to_the_project_file(tmp_path: Path) -> None:
    options = "ssl: verify-full\n      ssl_ca: c/ca.pem"
    database = load_project(project(tmp_path, "mysql", options)).connections["db"]
    assert isinstance(database, Database)
    assert database.options == {
        "ssl": "verify-full",
        "ssl_ca": f"{tmp_path}/c/ca.pem",
    }
