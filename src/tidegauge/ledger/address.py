"""Read a ledger's address: `sqlite:///PATH`, `postgresql://…`, `mysql://…`, `json:PATH` or `delta:PATH`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from tidegauge.errors import ConfigError
from tidegauge.model.ledger_address import (
    FOLDERS,
    OPTIONS,
    SCHEMES,
    find_bad_option,
    nearest_scheme,
    read_bucket,
    split_options,
)
from tidegauge.model.location import WITH_COLON, is_in_catalogue, resolve, scheme_of
from tidegauge.model.secret import Secret, mask, remember
from tidegauge.model.spec import Lake

_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}

_S3 = re.compile(r"s3[an]?://", re.IGNORECASE)


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
    if not colon or scheme not in SCHEMES:
        raise _unknown_scheme_error(scheme if colon else "")
    if scheme in FOLDERS:
        return _bucket(rest, scheme) if _S3.match(rest) else _folder(rest, scheme)
    return _file(rest) if scheme == "sqlite" else _server(text, scheme)


def _file(rest: str) -> Address:
    # The rest is the path, taken literally: `#`, `%` and `?` are ordinary letters of a file name.
    path = rest.removeprefix("///")
    if path == rest or not path.strip("/") or path == ":memory:":
        raise ConfigError(
            "the ledger's address names no file",
            hint="write sqlite:///relative/path.db or sqlite:////absolute/path.db",
        )
    plain, options = split_options(path)
    if options and not Path(path).exists():
        raise ConfigError(
            f"a ledger in SQLite has no options, only a path, and there is no file {mask(path)}",
            hint=f"leave out {mask(options)} to open {mask(plain)}, which is there"
            if Path(plain).exists()
            else f"find the file if it was moved: a new ledger knows nothing of what was read. Only if there"
            f" was none, leave out {mask(options)}",
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
        bucket = read_bucket(rest)
    except ValueError as error:
        raise ConfigError(str(error), hint=form) from None
    _check_options(bucket.options, "s3a")
    options = bucket.options
    lake = Lake("ledger", bucket.path, endpoint=options.get("endpoint"), region=options.get("region"))
    return Address(shown=f"{scheme}:{bucket.path}", lake=lake)


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
    name = find_bad_option(found, kind)
    if name is not None:
        near = get_close_matches(name, OPTIONS[kind], 1)
        raise ConfigError(
            mask(f"the ledger's address has an option that is not allowed: {name}"),
            hint=f"did you mean {near[0]}?" if near else f"allowed are: {', '.join(OPTIONS[kind])}",
        )


def _unknown_scheme_error(scheme: str) -> ConfigError:
    if not scheme:
        return ConfigError(
            "the ledger's address has no scheme",
            hint=f"it begins with one of: {', '.join(f'{known}:' for known in SCHEMES)}",
        )
    near = nearest_scheme(scheme)
    known = f"one of: {', '.join(SCHEMES)}"
    return ConfigError(
        mask(f"'{scheme}' is not a kind of ledger that is known"),
        hint=f"did you mean {near}? ({known})" if near else known,
    )
