"""The parts of a JDBC address and login: checked or encoded, so that no text adds options (hazard E2)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import quote as percent

from tidegauge.errors import ConfigError
from tidegauge.model.engines import FACTS
from tidegauge.model.spec import Database

_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?")
ROWS_AT_ONCE = "10000"
"""Rows that a JDBC driver fetches at a time, if it has such a setting."""


def jdbc_login(database: Database) -> Mapping[str, str]:
    login = {"user": database.user or ""}
    if database.password is not None:
        login["password"] = database.password.reveal()
    return login


def server_address(database: Database) -> str:
    """`host:port/database`. Raises ConfigError if `host` is more than a name or an address."""
    port = database.port or FACTS[database.engine].port
    return f"{_host(database)}:{port}/{percent(database.database or '', safe='')}"


def _host(database: Database) -> str:
    """The host, which has to be a name or an address and nothing else: not `host?autoDeserialize=true`."""
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
