"""What may stand in a ledger's address: the check of the project file and the ledger itself both ask here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import parse_qsl, unquote, urlsplit

from tidegauge.model.secret import remember

FOLDERS = ("json", "delta")
SCHEMES = ("sqlite", "postgresql", "mysql", *FOLDERS)
ALIASES = {
    "postgres": "postgresql",
    "pgsql": "postgresql",
    "mariadb": "mysql",
    "sqlite3": "sqlite",
    "file": "sqlite",
}
"""Words that people write for a scheme; they are not taken, but answered with the scheme."""

# Options that are allowed after the question mark. The drivers' other options can read files, run statements
# at the start of a session, or switch off what the ledger relies on.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "s3a": ("endpoint", "region"),
    "postgresql": ("application_name", "connect_timeout", "sslcert", "sslkey", "sslmode", "sslrootcert"),
    "mysql": ("connect_timeout", "ssl_ca", "ssl_cert", "ssl_check_hostname", "ssl_key"),
}
_OPTIONS_AT_END = re.compile(r"\?\w+=[\w.%+-]*(&\w+=[\w.%+-]*)*\Z", re.ASCII)


@dataclass(frozen=True)
class Bucket:
    """A folder on S3, as a ledger's address names it."""

    path: str
    """`s3a://BUCKET/PREFIX`, without a trailing slash."""
    options: Mapping[str, str]


def nearest_scheme(word: str) -> str | None:
    """The scheme that a word was probably meant to be."""
    plain = word.lower().partition("+")[0]
    return ALIASES.get(plain) or next(iter(get_close_matches(plain, SCHEMES, 1)), None)


def find_bad_option(names: Iterable[str], kind: str) -> str | None:
    """The first option that is not allowed for this kind of store."""
    return next((name for name in names if name not in OPTIONS[kind]), None)


def split_options(path: str) -> tuple[str, str]:
    """Split SQLite's path from what looks like options behind it, such as `?timeout=30`; SQLite's ledger has
    none, so they are part of the file's name. Any other `?` is an ordinary letter."""
    found = _OPTIONS_AT_END.search(path)
    return (path, "") if found is None else (path[: found.start()], found[0])


def read_bucket(rest: str) -> Bucket:
    """Read `s3a://BUCKET/PREFIX?OPTIONS`. Raises ValueError, with a message that quotes nothing."""
    try:
        parts = urlsplit(rest)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise ValueError("the ledger's S3 address cannot be read") from None
    if "@" in parts.netloc:
        remember(unquote(parts.password or ""))
        raise ValueError("the ledger's S3 address holds a key")
    if not parts.netloc:
        raise ValueError("the ledger's address names no bucket")
    prefix = parts.path.strip("/")
    strange = any(part in ("", ".", "..") for part in prefix.split("/")) if prefix else False
    if parts.scheme != "s3a" or parts.fragment or strange or not rest.isprintable():
        raise ValueError("the ledger's S3 address cannot be read")
    return Bucket(f"s3a://{parts.netloc}/{prefix}".rstrip("/"), options)
