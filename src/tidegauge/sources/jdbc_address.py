"""JDBC addresses and options, built from checked parts and never from a user's text (hazard E2)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import quote as percent

from tidegauge.errors import ConfigError
from tidegauge.model.spec import Database, Engine
from tidegauge.sources.dialect import MARK, READER
from tidegauge.sources.mysql import sql as mysql_sql
from tidegauge.sources.postgresql import sql as postgresql_sql
from tidegauge.sources.sqlite import sql as sqlite_sql

_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?")
_ROWS_AT_ONCE = "10000"
_STREAM = "-2147483648"
"""What tells MySQL's driver to hand rows on as they come; any other number makes it hold the whole result."""

_MYSQL_SSL = {
    "disable": "DISABLED",
    "prefer": "PREFERRED",
    "require": "REQUIRED",
    "verify-ca": "VERIFY_CA",
    "verify-full": "VERIFY_IDENTITY",
}


def jdbc_options(database: Database) -> dict[str, str]:
    """Everything Spark needs to connect, with the session pinned to UTC."""
    match database.engine:
        case Engine.SQLITE:
            return _sqlite(database)
        case Engine.MYSQL:
            return _mysql(database)
        case Engine.POSTGRESQL:
            return _postgresql(database)
        case _:
            raise ConfigError(
                f"{database.name}: a {database.engine} can be written to, and not read from",
                hint="read from a sqlite, mysql or postgresql connection",
                place=database.place,
            )


def _sqlite(database: Database) -> dict[str, str]:
    assert database.path is not None
    return {
        "url": f"jdbc:sqlite:{sqlite_sql.uri(database.path)}",
        "driver": "org.sqlite.JDBC",
        "open_mode": "1",
        "busy_timeout": "30000",
        "fetchsize": _ROWS_AT_ONCE,
    }


def _mysql(database: Database) -> dict[str, str]:
    options = database.options
    settings = {
        "autoDeserialize": "false",
        "allowLoadLocalInfile": "false",
        "allowUrlInLocalInfile": "false",
        "allowMultiQueries": "false",
        "tinyInt1isBit": "false",
        "yearIsDateType": "false",
        "connectionTimeZone": "UTC",
        "forceConnectionTimeZoneToSession": "true",
        "characterEncoding": "UTF-8",
        "useServerPrepStmts": "true",
        "connectTimeout": str(1000 * int(options.get("connect_timeout", "10"))),
        "tcpKeepAlive": "true",
    }
    if mode := options.get("ssl"):
        settings["sslMode"] = _MYSQL_SSL[mode]
    if authority := options.get("ssl_ca"):
        settings["trustCertificateKeyStoreUrl"] = f"file:{authority}"
        settings["trustCertificateKeyStoreType"] = "PEM"
    return {
        "url": f"jdbc:mysql://{_address(database, mysql_sql.DEFAULT_PORT)}",
        "driver": "com.mysql.cj.jdbc.Driver",
        "sessionInitStatement": f"SET {MARK} {mysql_sql.SESSION}",
        "prepareQuery": MARK,
        "fetchsize": _STREAM,
        **_login(database),
        **settings,
    }


def _postgresql(database: Database) -> dict[str, str]:
    options = database.options
    settings = {
        "ApplicationName": READER,
        "connectTimeout": options.get("connect_timeout", "10"),
        "tcpKeepAlive": "true",
    }
    names = {"ssl": "sslmode", "ssl_ca": "sslrootcert"}
    settings |= {theirs: options[ours] for ours, theirs in names.items() if ours in options}
    return {
        "url": f"jdbc:postgresql://{_address(database, postgresql_sql.DEFAULT_PORT)}",
        "driver": "org.postgresql.Driver",
        "sessionInitStatement": postgresql_sql.SESSION,
        "fetchsize": _ROWS_AT_ONCE,
        **_login(database),
        **settings,
    }


def _login(database: Database) -> Mapping[str, str]:
    login = {"user": database.user or ""}
    if database.password is not None:
        login["password"] = database.password.reveal()
    return login


def _address(database: Database, port: int) -> str:
    return f"{_host(database)}:{database.port or port}/{percent(database.database or '', safe='')}"


def _host(database: Database) -> str:
    """A name or an address and nothing else: `host?autoDeserialize=true` is none."""
    host = database.host.strip("[]")
    try:
        if ipaddress.ip_address(host).version == 6:
            return f"[{host}]"
    except ValueError:
        if _HOST.fullmatch(host) is None:
            raise ConfigError(
                f"{database.name}: {database.host!r} is not the name or address of a host",
                hint="`host` is a name or an IP address alone; the port has a key of its own",
                place=database.place,
            ) from None
    return host
