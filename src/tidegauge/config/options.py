"""The options that a database connection may have; all others are refused (hazard E2).

Drivers have options that run code, read files of this machine or load classes. So only names of our own
are allowed, and each engine's code translates them into its driver's names.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tidegauge.config import values
from tidegauge.config.durations import parse_duration
from tidegauge.config.problems import InvalidValue, below, nearest, quoted
from tidegauge.errors import ConfigError
from tidegauge.model.engines import FACTS, SSL_MODES, Engine

_ENDS_A_VALUE = re.compile(r"[?&#;%]")

MEANINGS = {
    "connect_timeout": "how long to wait for the server to answer: a duration, or whole seconds",
    "ssl": "one of "
    + ", ".join(f"`{mode}`" for mode in SSL_MODES)
    + "; on Redshift "
    + ", ".join(f"`{mode}`" for mode in FACTS[Engine.REDSHIFT].ssl_modes),
    "ssl_ca": "file with the certificates of the authorities to trust",
    "host": "a server other than the account's own, such as a private link",
    "port": "its port",
    "protocol": "`https`, or `http` for a test server",
}


def engines_with(option: str) -> list[str]:
    return [engine for engine, facts in FACTS.items() if option in facts.options]


def check_option_name(written: str, engine: str) -> str:
    """Our name for the option, whatever its case or percent-encoding. Raises InvalidValue for any other."""
    name = written
    while (decoded := unquote(name)) != name:
        name = decoded
    name = name.strip().casefold()
    allowed = FACTS[Engine(engine)].options
    if name in allowed:
        return name
    close = nearest(name, sorted(allowed))
    listed = "allowed are: " + ", ".join(f"`{option}`" for option in MEANINGS if option in allowed)
    raise InvalidValue(
        f"the option {quoted(written)} is not allowed on {engine}",
        hint=f"did you mean `{close}`?" if close else listed,
        at_key=True,
    )


def check_options(written: Any, *, engine: str, base: Path) -> dict[str, str]:
    if not isinstance(written, dict):
        raise InvalidValue("`options` must be a mapping of names to values")
    checked: dict[str, str] = {}
    for key, value in written.items():
        with below(key):
            name = check_option_name(key, engine)
            if name in checked:
                raise InvalidValue(f"the option `{name}` is given twice", at_key=True)
            checked[name] = _value(name, value, engine, base)
    return checked


def _value(name: str, value: Any, engine: str, base: Path) -> str:
    match name:
        case "connect_timeout":
            return _seconds(values.text(value))
        case "ssl":
            return values.choice(FACTS[Engine(engine)].ssl_modes)(value)
        case "host":
            return values.check_host(value)
        case "port":
            return str(values.whole(1, 65535)(value))
        case "protocol":
            return values.choice(("https", "http"))(value)
        case _:
            return _check_file(values.text(value), base)


def _check_file(path: str, base: Path) -> str:
    if _ENDS_A_VALUE.search(path):
        raise InvalidValue("the path holds one of `? & # ; %`", hint="give the file a plainer name")
    return values.local_path(path, base)


def _seconds(written: str) -> str:
    """Whole seconds, rounded up: the only unit that every driver understands."""
    try:
        length = parse_duration(f"{written}s" if written.isascii() and written.isdigit() else written)
    except ConfigError as error:
        raise InvalidValue(error.message, hint=error.hint) from None
    seconds = -(-length // timedelta(seconds=1))
    if not 1 <= seconds <= 3600:
        raise InvalidValue("`connect_timeout` must be from 1s to 1h")
    return str(seconds)
