"""Checks the ledger's address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from tidegauge.config.problems import InvalidValue, must, quoted, suggest
from tidegauge.config.values import check_host, lake_path
from tidegauge.model.ledger_address import (
    FOLDERS,
    OPTIONS,
    SCHEMES,
    find_bad_option,
    nearest_scheme,
    read_bucket,
)
from tidegauge.model.location import is_in_catalogue, scheme_of
from tidegauge.model.secret import Secret, remember

DEFAULT = "sqlite:///.tidegauge/ledger.db"
_FORM = (
    "write `sqlite:///PATH`, `postgresql://USER:PASSWORD@HOST/DATABASE`, the same with `mysql://`, or"
    " `delta:PATH` or `json:PATH`, where PATH may be `s3a://BUCKET/PREFIX`"
)
_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_PLAIN_PASSWORD = re.compile(r"://[^/@]*:[^/@\0]+@")


def check_address(address: Any, *, written: Any, base: Path) -> str | Secret:
    """The address, with local paths made absolute; a Secret stays one. Raises InvalidValue for a wrong one.

    `written` is the text of the file, before references were resolved: the only text an error may quote.
    """
    if not isinstance(address, str | Secret) or not isinstance(written, str):
        raise must("be text", hint=_FORM)
    if _PLAIN_PASSWORD.search(_REFERENCE.sub("\0", written)):
        raise InvalidValue(
            "the ledger's password is plain text in the file; secrets come from outside it",
            hint="write `${env:NAME}` or `${file:PATH}` in its place",
        )
    scheme = _find_scheme(address)
    if scheme not in SCHEMES:
        raise _complain_of_scheme(scheme, written)
    if scheme == "sqlite":
        assert isinstance(address, str)
        return _check_sqlite(address, base)
    if scheme in FOLDERS:
        if isinstance(address, Secret):
            raise InvalidValue("a ledger of files has no password in its address", hint=_FORM)
        return _check_folder(scheme, address, base)
    complaint = _complaint_about_server(address, written)
    if complaint is not None:
        raise complaint
    return address


def _find_scheme(address: str | Secret) -> str:
    text = address.reveal() if isinstance(address, Secret) else address
    return text.partition(":")[0] if ":" in text else ""


def _complain_of_scheme(scheme: str, written: str) -> InvalidValue:
    if "${" in written.partition(":")[0] or not scheme:
        return InvalidValue("the ledger's address does not begin with a scheme that is known", hint=_FORM)
    near = nearest_scheme(scheme)
    hint = f"did you mean `{near}`?" if near else suggest(scheme, SCHEMES)
    return InvalidValue(f"unknown kind of ledger {quoted(scheme)}", hint=hint)


def _check_sqlite(address: str, base: Path) -> str:
    path = address.removeprefix("sqlite:///")
    if path == address or not path.strip("/"):
        raise InvalidValue(
            "the ledger's address names no file",
            hint="write `sqlite:///PATH` relative to the project file, or `sqlite:////ABSOLUTE/PATH`",
        )
    if path == ":memory:":
        raise InvalidValue("a ledger in memory would forget everything", hint=f"write `{DEFAULT}`")
    if "?" in path:
        raise InvalidValue("a ledger in SQLite has no options, only a path", hint=_FORM)
    if not path.isprintable():
        raise InvalidValue("the ledger's address cannot be read as an address", hint=_FORM)
    if (strange := scheme_of(path)) is not None:
        raise InvalidValue(
            f"a ledger in SQLite is a local file, and not one of kind {quoted(strange + ':')}", hint=_FORM
        )
    if path.endswith("/"):
        raise InvalidValue("the ledger's address names a folder", hint=f"name a file in it: `{DEFAULT}`")
    return f"sqlite:///{(base / path).absolute()}"


def _check_folder(scheme: str, address: str, base: Path) -> str:
    path = address.removeprefix(f"{scheme}:")
    if path.startswith("s3a://"):
        try:
            bucket = read_bucket(path)
        except ValueError as error:
            raise InvalidValue(str(error), hint=_FORM) from None
        name = find_bad_option(bucket.options, "s3a")
        if name is not None:
            raise InvalidValue(
                f"the option {quoted(name)} is not allowed in the ledger's address",
                hint=suggest(name, OPTIONS["s3a"]),
            )
        return address
    if not path.strip("/") or not path.isprintable():
        raise InvalidValue("the ledger's address names no folder", hint=_FORM)
    if scheme == "delta" and is_in_catalogue(path):
        raise InvalidValue(
            "the ledger's address is a name in a catalogue, which only Spark can look up, and a project's"
            " ledger is reached without Spark",
            hint=f"write where the schema lies, as `delta:PATH`; a folder of that name is `delta:./{path}`",
        )
    return f"{scheme}:{lake_path(path, base)}"


def _complaint_about_server(address: str | Secret, written: str) -> InvalidValue | None:
    """Returns the complaint instead of raising it, so that no frame of a traceback holds the address."""
    text = address.reveal() if isinstance(address, Secret) else address
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return InvalidValue("the ledger's address cannot be read as an address", hint=_FORM)
    if parts.password:
        remember(unquote(parts.password))
    if not text.isprintable() or parts.fragment or port == 0:
        return InvalidValue("the ledger's address cannot be read as an address", hint=_FORM)
    if not parts.hostname or not parts.path.strip("/"):
        missing = "database" if parts.hostname else "server"
        return InvalidValue(f"the ledger's address names no {missing}", hint=_FORM)
    return _complaint_about_details(parts, written)


def _complaint_about_details(parts: SplitResult, written: str) -> InvalidValue | None:
    try:
        check_host(parts.hostname or "")
    except InvalidValue:
        return InvalidValue("the ledger's server is neither a host name nor an IP address", hint=_FORM)
    options = (name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    name = find_bad_option(options, parts.scheme)
    if name is None:
        return None
    # A name that a reference brought in is not quoted.
    which = f"the option {quoted(name)}" if name in written else "an option"
    return InvalidValue(
        f"{which} is not allowed in the ledger's address", hint=suggest(name, OPTIONS[parts.scheme])
    )
