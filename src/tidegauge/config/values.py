"""Parses single values: each function returns the meaning of the user's text, or raises InvalidValue."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tidegauge.config.durations import parse_duration, show_duration
from tidegauge.config.problems import InvalidValue, below, must, quoted, suggest
from tidegauge.errors import ConfigError
from tidegauge.model.location import WITH_COLON, scheme_of, unsupported
from tidegauge.model.secret import Secret
from tidegauge.model.types import parse_decimal

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_WHOLE = re.compile(r"[+-]?\d[\d_]*", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}", re.ASCII)
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%", re.ASCII)
_SHARE = re.compile(r"0|[01]?\.\d{1,20}|\d(?:\.\d{1,20})?[eE]-\d{1,3}", re.ASCII)
_ROLES = re.compile(r"default|arn:aws[a-z-]*:iam::\d+:role/[\w+=,.@/-]+", re.ASCII)
_ACCOUNT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,250}[A-Za-z0-9])?", re.ASCII)
_TYPES = ("string", "timestamp", "timestamp_ntz", "date")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}|[{}]")


def text(value: Any) -> str:
    if isinstance(value, Secret):
        value = value.reveal()
    if not isinstance(value, str):
        raise must("be text", found=_describe_kind(value))
    if not value.strip():
        raise must("not be empty")
    if _CONTROL.search(value):
        raise InvalidValue("this holds a control character", hint="remove it")
    return value


def secret(value: Any) -> Secret:
    if not isinstance(value, Secret):
        raise must("be a reference", found=_describe_kind(value), hint='write `"${env:NAME}"`')
    return value


def texts(value: Any) -> tuple[str, ...]:
    """One text, or a list of them."""
    if isinstance(value, str):
        return (text(value),)
    if not isinstance(value, list):
        raise must("be text or a list of texts", found=_describe_kind(value))
    found = []
    for index, item in enumerate(value):
        with below(index):
            found.append(text(item))
    doubled = next((index for index, item in enumerate(found) if item in found[:index]), None)
    if doubled is not None:
        raise InvalidValue(f"{quoted(found[doubled])} stands in the list twice", trail=(doubled,))
    return tuple(found)


def some_texts(value: Any) -> tuple[str, ...]:
    found = texts(value)
    if not found:
        raise must("not be an empty list", hint="name at least one")
    return found


def tags(value: Any) -> tuple[str, ...]:
    found = texts(value)
    for index, tag in enumerate(found):
        if re.search(r"[\s,]", tag):
            trail = (index,) if isinstance(value, list) else ()
            raise InvalidValue(
                f"the tag {quoted(tag)} holds a space or a comma", hint="tags are words", trail=trail
            )
    return found


def whole(least: int, most: int | None = None) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        limits = f"of {least} or more" if most is None else f"from {least} to {most}"
        plain = text(value)
        if not _WHOLE.fullmatch(plain) or len(plain) > 19:
            raise must(f"be a whole number {limits}")
        number = int(plain.replace("_", ""))
        if number < least or (most is not None and number > most) or number >= 2**63:
            raise must(f"be a whole number {limits}", found=str(number))
        return number

    return parse


def duration(least: timedelta = timedelta(0)) -> Callable[[Any], timedelta]:
    def parse(value: Any) -> timedelta:
        try:
            length = parse_duration(text(value))
        except ConfigError as error:
            raise InvalidValue(error.message, hint=error.hint) from None
        if length < least:
            raise must(f"be at least {show_duration(least)}", found=show_duration(length))
        return length

    return parse


def choice(words: Iterable[str], *, elsewhere: Mapping[str, str] | None = None) -> Callable[[Any], str]:
    """A parser that allows only `words`. `elsewhere` says of some others what they are."""
    valid, known = tuple(words), elsewhere or {}

    def parse(value: Any) -> str:
        word = text(value)
        if word in known:
            raise InvalidValue(f"{quoted(word)} is {known[word]}", hint=suggest("", valid))
        if word not in valid:
            raise InvalidValue(f"{quoted(word)} is not known here", hint=suggest(word, valid))
        return word

    return parse


def flag(value: Any) -> bool:
    return choice(("true", "false"))(value) == "true"


def share(value: Any) -> float:
    """A part of the whole: `30%`, `0.3` or `3e-1`. A bare `1` could be 1% or all, and is refused."""
    written = text(value).strip()
    percent = _PERCENT.fullmatch(written)
    if not percent and not _SHARE.fullmatch(written):
        raise InvalidValue(f"{quoted(written)} is not a share", hint="write it as `30%`, or as `0.3`")
    # Read as one decimal number, so that `30%` is exactly equal to the default, 0.3.
    found = float(Decimal(percent[1]).scaleb(-2)) if percent else float(written)
    if found > 1:
        raise must("be a share from 0% to 100%", found=written)
    return found


def check_iam_role(value: Any) -> str:
    """One role, or a chain of roles. Refuses characters that could end the quoted text inside a COPY."""
    roles = text(value)
    if not all(_ROLES.fullmatch(role) for role in re.split(r",(?=arn:)", roles)):
        raise InvalidValue(
            "`iam_role` is not the ARN of a role", hint="write it as `arn:aws:iam::ACCOUNT:role/NAME`"
        )
    return roles


def check_account(value: Any) -> str:
    """An account identifier. It becomes part of a host name, so characters that could end one are refused."""
    account = text(value)
    if not _ACCOUNT.fullmatch(account) or account.casefold().endswith(".snowflakecomputing.com"):
        raise InvalidValue(
            "`account` is not the identifier of an account",
            hint="write it as `ORGANISATION-ACCOUNT`, without `.snowflakecomputing.com`",
        )
    return account


def check_host(value: Any) -> str:
    """A host name or an IP address. Refuses characters that could end it early inside a URL."""
    host = text(value)
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if "%" not in bare:
        try:
            return str(ipaddress.ip_address(bare))
        except ValueError:
            pass
    labels = host.removesuffix(".").split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)) or labels[-1].isdigit():
        raise InvalidValue(
            "`host` is neither a host name nor an IP address",
            hint="the port, the database and options have keys of their own",
        )
    return host


def check_endpoint(value: Any) -> str:
    form = "write it as `https://HOST` or `http://HOST:PORT`"
    address = text(value)
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and parts.port != 0
        check_host(parts.hostname)
    except (ValueError, InvalidValue):
        usable = False
    if not usable or "@" in address or parts.query or parts.fragment or parts.path.strip("/"):
        raise InvalidValue("this is not the address of an S3 service", hint=form) from None
    return address.rstrip("/")


def arrival(value: Any) -> str:
    """How a column shall arrive: `string`, `timestamp`, `timestamp_ntz`, `date` or `decimal(p,s)`."""
    written = text(value).strip()
    size = parse_decimal(written)
    if size and size.scale >= 0:
        precision, scale = size
        if not 1 <= precision <= 38 or scale > precision:
            raise InvalidValue(
                f"{quoted(written)} cannot be held",
                hint="decimal(p,s) has p from 1 to 38 and s from 0 to p; `string` holds any number",
            )
        return f"decimal({precision},{scale})"
    if written.lower() not in _TYPES:
        raise InvalidValue(
            f"{quoted(written)} is not a type here", hint=suggest(written, (*_TYPES, "decimal(p,s)"))
        )
    return written.lower()


def template(value: Any) -> str:
    """A name for the target, where `{table}` and `{schema}` stand for the source's."""
    written = text(value)
    for match in _PLACEHOLDER.finditer(written):
        if match[1] not in {"table", "schema"}:
            raise InvalidValue(
                f"{quoted(match[0])} stands for nothing here", hint="use `{table}` and `{schema}`"
            )
    return written


def local_path(written: str, base: Path) -> str:
    """An absolute local path, from a path or a `file:` address; a relative one is relative to `base`."""
    rest = written
    if written.startswith("file:"):
        rest = written.removeprefix("file:")
        if rest.startswith("//") and not rest.startswith("///"):
            raise InvalidValue(
                "a `file:` address cannot name a host", hint="write `file:///PATH` or just the path"
            )
        rest = "/" + rest.lstrip("/") if rest.startswith("/") else rest
        if not rest:
            raise InvalidValue("a `file:` address needs a path", hint="write `file:///PATH` or just the path")
    scheme = scheme_of(rest)
    if scheme is not None:
        raise InvalidValue(
            f"paths of kind {quoted(scheme + ':')} are not supported", hint=f"name a local path; {WITH_COLON}"
        )
    try:
        path = Path(rest).expanduser() if rest.startswith("~/") else Path(rest)
    except RuntimeError:
        raise InvalidValue("the home folder `~` is not known here", hint="write the path out") from None
    return str((base / path).absolute())


def lake_path(written: str, base: Path) -> str:
    """An absolute local path, or `s3a://bucket/prefix`; no trailing slash."""
    scheme = scheme_of(written)
    if scheme in (None, "file"):
        return local_path(written, base)
    assert scheme is not None
    if scheme.lower() in {"s3", "s3n", "s3a"} and not written.startswith("s3a://"):
        wrong = written[: written.index(":") + 1] + ("//" if "://" in written else "")
        raise InvalidValue(f"S3 paths begin with `s3a://`, not {quoted(wrong)}", hint="write s3a://")
    if scheme != "s3a":
        raise InvalidValue(
            unsupported(scheme), hint=f"write `s3a://bucket/prefix`, or a local path; {WITH_COLON}"
        )
    bucket, _, prefix = written.removeprefix("s3a://").rstrip("/").partition("/")
    if "@" in bucket or ":" in bucket:
        raise InvalidValue("keys do not belong in the path", hint="use `access_key` and `secret_key`")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidValue("the path names no bucket", hint="write it as `s3a://bucket/prefix`")
    if prefix and any(part in {"", ".", ".."} for part in prefix.split("/")):
        raise InvalidValue("the path has an empty, `.` or `..` part", hint="write it out plainly")
    return f"s3a://{bucket}/{prefix}" if prefix else f"s3a://{bucket}"


def _describe_kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds: dict[type[Any], str] = {dict: "a mapping", list: "a list", str: "text"}
    return kinds.get(type(value)) or f"a Python {type(value).__name__}"
