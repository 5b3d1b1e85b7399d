"""Read a ledger's address: `sqlite:///PATH`, `postgresql://…` or `mysql://…`."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from tidegauge.errors import ConfigError
from tidegauge.model.secret import Secret, mask, remember

_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
_SCHEMES = ("sqlite", *_DRIVERS)
_SAME = {
    "postgres": "postgresql",
    "pgsql": "postgresql",
    "mariadb": "mysql",
    "sqlite3": "sqlite",
    "file": "sqlite",
}

# What may stand after the question mark. Everything else a driver takes can read files, run statements at
# the start of a session or switch off what we rely on.
_OPTIONS = {
    "postgresql": ("application_name", "connect_timeout", "sslcert", "sslkey", "sslmode", "sslrootcert"),
    "mysql": ("connect_timeout", "ssl_ca", "ssl_cert", "ssl_check_hostname", "ssl_key"),
}


@dataclass(frozen=True)
class Address:
    """Either a file or a server."""

    shown: str
    """As errors name it: without the password."""
    path: Path | None = None
    url: URL | None = None

    @property
    def scheme(self) -> str:
        return self.url.get_backend_name() if self.url is not None else "sqlite"


def parse(address: str | Secret) -> Address:
    """Raises ConfigError, with the nearest valid word, for an address that names no store we know."""
    text = address.reveal() if isinstance(address, Secret) else address
    scheme, colon, rest = text.partition(":")
    if not colon or scheme not in _SCHEMES:
        raise _unknown(scheme if colon else "")
    return _file(rest) if scheme == "sqlite" else _server(text, scheme)


def _file(rest: str) -> Address:
    # Whatever follows is the path as it stands: `?`, `#` and `%` are letters of a file name.
    path = rest.removeprefix("///")
    if path == rest or not path.strip("/") or path == ":memory:":
        raise ConfigError(
            "the ledger's address names no file",
            hint="write sqlite:///relative/path.db or sqlite:////absolute/path.db",
        )
    absolute = Path(path).absolute()
    return Address(shown=f"sqlite:///{absolute}", path=absolute)


def _server(text: str, scheme: str) -> Address:
    form = f"write {scheme}://USER:PASSWORD@HOST:PORT/DATABASE, with special characters percent-encoded"
    try:
        url = make_url(_DRIVERS[scheme] + text.removeprefix(scheme))
    except (ArgumentError, ValueError):
        raise ConfigError(f"the ledger's {scheme} address cannot be read", hint=form) from None
    if url.password:
        remember(str(url.password))
    if not url.host or not url.database:
        missing = "database" if url.host else "server"
        raise ConfigError(f"the ledger's {scheme} address names no {missing}", hint=form)
    for name in url.query:
        if name not in _OPTIONS[scheme]:
            near = get_close_matches(name, _OPTIONS[scheme], 1)
            raise ConfigError(
                mask(f"the ledger's address has an option that is not allowed: {name}"),
                hint=f"did you mean {near[0]}?" if near else f"allowed are: {', '.join(_OPTIONS[scheme])}",
            )
    shown = url.set(drivername=scheme, query={}).render_as_string(hide_password=True)
    return Address(shown=mask(shown), url=url)


def _unknown(scheme: str) -> ConfigError:
    if not scheme:
        return ConfigError(
            "the ledger's address has no scheme",
            hint=f"it begins with one of: {', '.join(f'{known}:' for known in _SCHEMES)}",
        )
    plain = scheme.lower().partition("+")[0]
    near = [_SAME[plain]] if plain in _SAME else get_close_matches(plain, _SCHEMES, 1)
    known = f"one of: {', '.join(_SCHEMES)}"
    return ConfigError(
        mask(f"'{scheme}' is not a kind of ledger that is known"),
        hint=f"did you mean {near[0]}? ({known})" if near else known,
    )
