"""Read a ledger's address: `sqlite:///PATH`, `postgresql://…`, `mysql://…`, `json:PATH` or `delta:PATH`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from tidegauge.errors import ConfigError
from tidegauge.model.location import WITH_COLON, is_in_catalogue, resolve, scheme_of
from tidegauge.model.secret import Secret, mask, remember
from tidegauge.model.spec import Lake

_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
_FOLDERS = ("json", "delta")
_SCHEMES = ("sqlite", *_DRIVERS, *_FOLDERS)
_ALIASES = {
    "postgres": "postgresql",
    "pgsql": "postgresql",
    "mariadb": "mysql",
    "sqlite3": "sqlite",
    "file": "sqlite",
}

_S3 = re.compile(r"s3[an]?://", re.IGNORECASE)

# Options that are allowed after the question mark. The drivers' other options can read files, run statements
# at the start of a session, or switch off what the ledger relies on.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "s3a": ("endpoint", "region"),
    "postgresql": ("application_name", "connect_timeout", "sslcert", "sslkey", "sslmode", "sslrootcert"),
    "mysql": ("connect_timeout", "ssl_ca", "ssl_cert", "ssl_check_hostname", "ssl_key"),
}


@dataclass(frozen=True)
class Address:
    """Where a ledger is: exactly one of `path` (a SQLite file), `url` (a server) and `lake` (a folder)."""

    shown: str
    """The address as errors show it, without the password."""
    path: Path | None = None
    url: URL | None = None
    lake: Lake | None = None
    """The folder, local or on S3, with the endpoint and region of the address."""

    @property
    def scheme(self) -> str:
        return self.url.get_backend_name() if self.url is not None else self.shown.partition(":")[0]


def parse(address: str | Secret) -> Address:
    """Parse an address. Raises ConfigError, with the nearest valid word in its hint, if it names no known
    kind of store."""
    text = address.reveal() if isinstance(address, Secret) else address
    scheme, colon, rest = text.partition(":")
    if not colon or scheme not in _SCHEMES:
        raise _unknown_scheme_error(scheme if colon else "")
    if scheme in _FOLDERS:
        return _bucket(rest, scheme) if _S3.match(rest) else _folder(rest, scheme)
    return _file(rest) if scheme == "sqlite" else _server(text, scheme)


def _file(rest: str) -> Address:
    # The rest is the path, taken literally: `?`, `#` and `%` are ordinary letters of a file name.
    path = rest.removeprefix("///")
    if path == rest or not path.strip("/") or path == ":memory:":
        raise ConfigError(
            "the ledger's address names no file",
            hint="write sqlite:///relative/path.db or sqlite:////absolute/path.db",
        )
    if (strange := scheme_of(path)) is not None:
        raise ConfigError(
            f"a ledger in SQLite is a local file, and not one of kind {strange}:", hint=WITH_COLON
        )
    absolute = Path(path).absolute()
    return Address(shown=f"sqlite:///{absolute}", path=absolute)


def _folder(rest: str, scheme: str) -> Address:
    # The path is taken literally, as in `_file`.
    if scheme == "delta" and is_in_catalogue(rest):
        raise ConfigError(
            f"delta:{rest} is a name in a catalogue, which only Spark can look up",
            hint="give WatermarkTracker your session, spark=…, or write where the schema lies, as delta:PATH;"
            f" a folder of that name is delta:./{rest}",
        )
    try:
        path = resolve(rest)
    except ValueError as error:
        raise ConfigError(f"the ledger cannot lie there: {error}", hint=WITH_COLON) from None
    if not path.strip("/") or "\0" in path:
        raise ConfigError(
            "the ledger's address names no folder",
            hint=f"write {scheme}:PATH or {scheme}:s3a://BUCKET/PREFIX",
        )
    absolute = str(Path(path).absolute())
    return Address(shown=f"{scheme}:{absolute}", lake=Lake("ledger", absolute))


def _bucket(rest: str, scheme: str) -> Address:
    form = f"write {scheme}:s3a://BUCKET/PREFIX?endpoint=URL&region=NAME; keys come by the usual AWS chain"
    try:
        parts = urlsplit(rest)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise ConfigError("the ledger's S3 address cannot be read", hint=form) from None
    if "@" in parts.netloc:
        remember(unquote(parts.password or ""))
        raise ConfigError("the ledger's S3 address holds a key", hint=form)
    prefix = parts.path.strip("/")
    strange = any(part in ("", ".", "..") for part in prefix.split("/")) if prefix else False
    if parts.scheme != "s3a" or not parts.netloc or parts.fragment or strange:
        raise ConfigError("the ledger's S3 address cannot be read", hint=form)
    _check_options(options, "s3a")
    path = f"s3a://{parts.netloc}/{prefix}".rstrip("/")
    lake = Lake("ledger", path, endpoint=options.get("endpoint"), region=options.get("region"))
    return Address(shown=f"{scheme}:{path}", lake=lake)


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
    _check_options(url.query, scheme)
    shown = url.set(drivername=scheme, query={}).render_as_string(hide_password=True)
    return Address(shown=mask(shown), url=url)


def _check_options(found: Iterable[str], kind: str) -> None:
    for name in found:
        if name not in _OPTIONS[kind]:
            near = get_close_matches(name, _OPTIONS[kind], 1)
            raise ConfigError(
                mask(f"the ledger's address has an option that is not allowed: {name}"),
                hint=f"did you mean {near[0]}?" if near else f"allowed are: {', '.join(_OPTIONS[kind])}",
            )


def _unknown_scheme_error(scheme: str) -> ConfigError:
    if not scheme:
        return ConfigError(
            "the ledger's address has no scheme",
            hint=f"it begins with one of: {', '.join(f'{known}:' for known in _SCHEMES)}",
        )
    plain = scheme.lower().partition("+")[0]
    near = [_ALIASES[plain]] if plain in _ALIASES else get_close_matches(plain, _SCHEMES, 1)
    known = f"one of: {', '.join(_SCHEMES)}"
    return ConfigError(
        mask(f"'{scheme}' is not a kind of ledger that is known"),
        hint=f"did you mean {near[0]}? ({known})" if near else known,
    )
