"""The blocks `alerts:`, `metrics:` and `lineage:`: who gets alerts, and where metrics and lineage go."""

from __future__ import annotations

import re
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from pydantic import Field

from tidegauge.config import values
from tidegauge.config.check import Problems
from tidegauge.config.forms import (
    DocumentedDefault,
    Duration,
    Hidden,
    Keys,
    Listed,
    MaybeText,
    Port,
    ValueParser,
)
from tidegauge.config.problems import InvalidValue, KeyPath, below, must, quoted
from tidegauge.model.alert import AlertChannel, AlertKind, AlertSettings
from tidegauge.model.secret import Secret, remember
from tidegauge.model.telemetry import LineageSettings, MetricsSettings, Telemetry

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://.+")
_OPEN_SCHEMES = frozenset({"json", "jsons", "xml", "xmls", "form", "forms"})
"""Schemes of web hooks, whose addresses may be plain text in the file."""
_REFERENCE = 'write `"${env:NAME}"` or `"${file:PATH}"`'
_TOKEN_LENGTH = 8
_TOKEN = re.compile(r"\d[^.:]*[A-Za-z]|[A-Za-z][^.:]*\d|[a-z][A-Z]|\w[-_]\w")
"""What a token looks like: letters mixed with digits, `aB`, or a `-` or `_` inside a word."""


def _parse_kinds(value: Any) -> tuple[AlertKind, ...]:
    parse = values.choice(AlertKind)
    found = []
    for index, word in enumerate(values.some_texts(value)):
        with below(index) if isinstance(value, list) else nullcontext():
            found.append(AlertKind(parse(word)))
    return tuple(found)


def _parse_web_address(value: Any) -> Secret:
    """The address as a Secret, even if it was plain text in the file: it may hold a login."""
    url = values.text(value)
    wrong = must("be the address of a web server", hint="write `http://HOST:PORT`")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise wrong
    if parts.password and not isinstance(value, Secret):
        raise InvalidValue("this holds a password in plain text", hint=_REFERENCE)
    return hide_address(url) if isinstance(value, Secret) or parts.password else Secret(url)


class AlertKeys(Keys):
    on: Annotated[
        tuple[AlertKind, ...],
        ValueParser(_parse_kinds, "`failed`, `stuck`, `late`, `regressed`, `recovered`, or a list"),
    ] = Field(
        default=tuple(AlertKind),
        description="What is told. `recovered`, the end of an incident that was told, goes with the others: "
        "it need not be named.",
    )
    to: Annotated[Listed, ValueParser(lambda value: value, "address or list")] = Field(
        description="Where to: addresses as Apprise has them (`slack://…`, `mailto://…`, "
        "`json://HOST/PATH`), each a reference, unless it is a web hook (`json`, `xml`, `form`) without a "
        "login."
    )
    after: Annotated[int, ValueParser(values.whole(1, 1000), "1 to 1000")] = Field(
        default=1, description="`failed` is told once a flow has failed so many times in a row."
    )
    remind: Duration = Field(
        default=timedelta(days=1), description="What is still so after this long is told again; `0`: never."
    )


class MetricsKeys(Keys):
    push: Annotated[
        Secret | None, ValueParser(_parse_web_address, "`http://HOST:PORT`"), DocumentedDefault("no push")
    ] = Field(default=None, description="A Pushgateway, which gets the numbers at the end of every run.")
    port: Port = Field(default=9108, description="Where `tidegauge metrics --serve` answers, on 127.0.0.1.")


class LineageKeys(Keys):
    url: Annotated[
        Secret | None,
        ValueParser(_parse_web_address, "`http://HOST:PORT`"),
        DocumentedDefault("this or `file`"),
    ] = Field(default=None, description="A server that takes OpenLineage events; `/api/v1/lineage` is added.")
    file: Annotated[MaybeText, DocumentedDefault("this or `url`")] = Field(
        default=None, description="A file that the events are added to, one a line."
    )
    api_key: Annotated[Hidden, DocumentedDefault("none")] = Field(
        default=None, description="Sent to the server as a bearer token."
    )
    namespace: Annotated[MaybeText, DocumentedDefault("the pipeline's name")] = Field(
        default=None, description="The namespace of the jobs."
    )


def make_telemetry(check: Problems, tree: dict[str, Any]) -> Telemetry:
    return Telemetry(
        _make_alerts(check, tree.get("alerts")),
        _make_metrics(check, tree.get("metrics")),
        _make_lineage(check, tree.get("lineage")),
    )


def _make_alerts(check: Problems, written: Any) -> AlertSettings | None:
    if not isinstance(written, dict):
        return None
    keys = check.keys(AlertKeys, written, ("alerts",))
    if keys is None:
        return None
    trail: KeyPath = ("alerts", "to")
    listed = keys.to if isinstance(keys.to, list) else [keys.to]
    if not listed:
        check.require("not be an empty list", trail, hint="name at least one address")
    found: list[AlertChannel] = []
    for index, value in enumerate(listed):
        place: KeyPath = (*trail, index) if isinstance(keys.to, list) else trail
        url = check.attempt(lambda value=value: _parse_channel_address(value), place)  # type: ignore[misc]
        if url is not None:
            found.append(AlertChannel(_name(url, found), url))
            if found[-1].url in [one.url for one in found[:-1]]:
                check.add("this address stands in the list twice", place, hint="remove one of them")
    return AlertSettings(keys.on, tuple(found), keys.after, keys.remind)


def _make_metrics(check: Problems, written: Any) -> MetricsSettings | None:
    keys = check.keys(MetricsKeys, written, ("metrics",)) if isinstance(written, dict) else None
    return MetricsSettings(keys.push, keys.port) if keys is not None else None


def _make_lineage(check: Problems, written: Any) -> LineageSettings | None:
    keys = check.keys(LineageKeys, written, ("lineage",)) if isinstance(written, dict) else None
    if keys is None:
        return None
    if (keys.url is None) == (keys.file is None):
        check.add(
            "`lineage` needs either `url` or `file`", ("lineage",), hint="write one of them", at_key=True
        )
    if keys.api_key is not None and keys.url is None:
        check.add("`api_key` goes with `url`", ("lineage", "api_key"), hint="remove it", at_key=True)
    file = check.document.file.parent / Path(keys.file).expanduser() if keys.file else None
    return LineageSettings(keys.url, file, keys.api_key, keys.namespace)


def _parse_channel_address(value: Any) -> Secret:
    """The address of an alert channel as a Secret. No InvalidValue about it quotes it."""
    form = "write it as Apprise has it, such as `json://HOST:PORT/PATH`"
    url = values.text(value)
    match = _SCHEME.fullmatch(url)
    if match is None:
        raise must("be an address such as `slack://…` or `json://HOST/PATH`", hint=form)
    if isinstance(value, Secret):
        return hide_address(url)
    if match[1].lower() not in _OPEN_SCHEMES or "@" in url:
        raise InvalidValue(
            f"an address of kind {quoted(match[1])} holds a secret, and stands in plain text in the file",
            hint=_REFERENCE,
        )
    return Secret(url)


def hide_address(url: str) -> Secret:
    """The address as a Secret. Its password and the parts that look like tokens are masked by themselves too.

    Libraries quote parts of an address in their errors. Common words such as `services` are not masked, or
    they would be masked in every message.
    """
    authority, *parts = re.split(r"[/?&=#]", url.partition("://")[2])
    login, _, place = authority.rpartition("@")
    password = login.partition(":")[2]
    tokens = [part for part in (place, *parts) if len(part) >= _TOKEN_LENGTH and _TOKEN.search(part)]
    for part in (password, *tokens):
        remember(part)
        remember(unquote(part))
    return Secret(url)


def _name(url: Secret, before: list[AlertChannel]) -> str:
    scheme = url.reveal().partition("://")[0].lower()
    same = sum(one.name == scheme or one.name.startswith(f"{scheme}-") for one in before)
    return f"{scheme}-{same + 1}" if same else scheme
