"""Resolves `${env:NAME}` and `${file:PATH}`: references to values that are not in the file.

A value that a reference brings into a password, a key, an option, the ledger's address, a Spark setting or an
address of `alerts`, `metrics` or `lineage` is a Secret from the start, so that no error or repr has its text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidegauge.config.document import YamlDocument
from tidegauge.config.problems import InvalidValue, KeyPath, Problem, quoted
from tidegauge.model.secret import Secret, name_openly, remember

SECRET_KEYS = frozenset({"password", "access_key", "secret_key"})
MAX_BYTES = 64 * 1024

_FORMS = 'write `"${env:NAME}"` or `"${file:PATH}"`'
_OPEN_KEYS = frozenset(
    [
        "type",
        "host",
        "port",
        "database",
        "user",
        "path",
        "schema",
        "region",
        "endpoint",
        "account",
        "warehouse",
        "role",
        "iam_role",
    ]
)
_OPEN_OPTIONS = frozenset({"connect_timeout", "ssl"})
_ADDRESSES = frozenset({"alerts", "metrics", "lineage"})
_TOKEN = re.compile(r"(?P<escape>\$\$\{)|\$\{(?P<inside>[^{}]*)\}|(?P<unclosed>\$\{)")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# A `$NAME` without braces, but not after a letter (`v$session`) or a dollar, nor PostgreSQL's `$tag$`.
_BARE = re.compile(r"(?<![\w$])\$([A-Za-z_]\w*+)(?!\$)", re.ASCII)
_ESCAPED_NAME = re.compile(r"\$\$\w+")
_LOGIN = re.compile(r"://[^/]*@")
_IN_LOGIN = re.compile(r"://[^/@]*\Z")
_IN_PASSWORD = re.compile(r"://[^/@]*:[^/@]*\Z")


def interpolate(document: YamlDocument, problems: list[Problem]) -> dict[str, Any]:
    """The document's values with references resolved. One that cannot be resolved is None, and a problem."""
    tree = _resolve_all(document, document.root, (), problems)
    assert isinstance(tree, dict)
    return tree


def _resolve_all(document: YamlDocument, value: Any, trail: KeyPath, problems: list[Problem]) -> Any:
    if isinstance(value, dict):
        for key in value:
            name_openly(str(key))
        return {key: _resolve_all(document, item, (*trail, key), problems) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolve_all(document, item, (*trail, index), problems) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    try:
        return _resolve(value, trail, document.file.parent)
    except InvalidValue as complaint:
        problems.append(Problem(complaint.message, document.place(trail), complaint.hint))
        return None


def references(text: str) -> list[str]:
    return [match[0] for match in _TOKEN.finditer(text) if match["inside"] is not None]


def _is_reference(text: str) -> bool:
    match = _TOKEN.fullmatch(text)
    return match is not None and match["inside"] is not None


def _resolve(text: str, trail: KeyPath, base: Path) -> str | Secret:
    secret = _is_secret_field(trail)
    if secret and not _is_reference(text):
        raise InvalidValue(
            f"`{trail[-1]}` is plain text in the file; secrets come from outside it", hint=_FORMS
        )
    if "$" not in text:
        _name_openly(text, trail)
        return text
    if _ESCAPED_NAME.fullmatch(text):
        return text[1:]
    bare = _BARE.search(_TOKEN.sub("", text))
    if bare:
        raise InvalidValue(
            f"{quoted(bare[0])} is not a reference that is read here",
            hint=f"write `${{env:{bare[1]}}}`, or `$${bare[1]}` for the text itself",
        )
    parts = [_read_part(match, base) for match in _TOKEN.finditer(text)]
    if secret and not parts[0]:
        raise InvalidValue(
            f"{quoted(text)} is set but empty",
            hint=f"give it a value, or leave `{trail[-1]}` out if there is none",
        )
    if not references(text):
        return _fill(text, parts)
    if trail == ("ledger",):
        return _fill_ledger_address(text, parts)
    if not secret and not _is_hidden(trail):
        return _fill(text, parts)
    _remember_parts(text, parts, trail)
    return Secret(_fill(text, parts))


def _name_openly(text: str, trail: KeyPath) -> None:
    """Let this text be shown, as the file has it openly; except addresses, which may hold a login."""
    if trail[0] not in {*_ADDRESSES, "ledger"} and not _is_hidden(trail):
        name_openly(text)


def _remember_parts(text: str, parts: list[str], trail: KeyPath) -> None:
    """Mask each part that a reference brought into an address: libraries quote parts of addresses."""
    if trail[0] in _ADDRESSES and not _is_reference(text):
        for part in parts:
            remember(part)


def _is_secret_field(trail: KeyPath) -> bool:
    match trail:
        case ("connections", _, key):
            return key in SECRET_KEYS
        case ("sync", _, "mask", _, "sha256") | ("sync", _, "override", _, "mask", _, "sha256"):
            return True
        case _:
            return False


def _is_hidden(trail: KeyPath) -> bool:
    """Whether a value from a reference is masked here; names, numbers and patterns stay readable."""
    match trail:
        case ("connections", _, "options", option, *_):
            return str(option).lower() not in _OPEN_OPTIONS
        case ("connections", _, key, *_):
            return key not in _OPEN_KEYS
        case ("spark", "conf", *_) | ("alerts", "to", *_):
            return True
        case ("metrics", "push") | ("lineage", "url" | "api_key"):
            return True
        case _:
            return False


def _read_part(match: re.Match[str], base: Path) -> str:
    if match["escape"]:
        return "${"
    if match["unclosed"]:
        raise InvalidValue("a `${` is not closed", hint=f"{_FORMS}; `$${{` stands for the text `${{`")
    kind, colon, name = match["inside"].partition(":")
    if kind == "env" and _ENV_NAME.fullmatch(name):
        return _read_environment(name)
    if kind == "file" and name:
        return _read_file(name, base)
    if kind in {"env", "file"} and colon:
        raise InvalidValue(f"{quoted(match[0])} does not name anything", hint=_FORMS)
    right = f"write `${{env:{kind}}}`" if not colon and _ENV_NAME.fullmatch(kind) else _FORMS
    raise InvalidValue(f"{quoted(match[0])} is not a reference that is read here", hint=right)


def _read_environment(name: str) -> str:
    if name not in os.environ:
        raise InvalidValue(f"the environment variable {name} is not set", hint=f"set it: `export {name}=…`")
    try:
        os.environ[name].encode()
    except UnicodeEncodeError:
        pass
    else:
        return os.environ[name]
    raise InvalidValue(f"the environment variable {name} is not UTF-8")


def _read_file(name: str, base: Path) -> str:
    path = base / Path(name).expanduser() if name.startswith("~/") else base / name
    data, reason = _read_bytes(path)
    if reason:
        del data
        raise InvalidValue(
            f"the secret file {path} cannot be read: {reason}",
            hint="check the path (relative to the project file) and its permissions",
        )
    return data.decode().removesuffix("\n").removesuffix("\r")


def _read_bytes(path: Path) -> tuple[bytes, str | None]:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        data.decode()
    except UnicodeDecodeError:
        return b"", "it is not UTF-8"
    except (OSError, ValueError) as error:
        return b"", (error.strerror if isinstance(error, OSError) else None) or str(error)
    return (b"", f"it is larger than {MAX_BYTES >> 10} KiB") if len(data) > MAX_BYTES else (data, None)


def _fill(text: str, parts: list[str]) -> str:
    remaining = iter(parts)
    return _TOKEN.sub(lambda _: next(remaining), text)


def _fill_ledger_address(text: str, parts: list[str]) -> str | Secret:
    """The ledger's address with its references filled in, percent-encoded in the login to allow any password.

    A Secret, unless it is an address of files without a login.
    """
    matches = list(_TOKEN.finditer(text))
    encoded = []
    for match, part in zip(matches, parts, strict=True):
        before = _TOKEN.sub("x", text[: match.start()])
        in_login = _IN_LOGIN.search(before) and "@" in _TOKEN.sub("x", text[match.end() :])
        encoded.append(quote(part, safe="") if in_login else part)
        if in_login and _IN_PASSWORD.search(before):
            remember(part)
    whole = _fill(text, encoded)
    is_path = whole.startswith(("json:", "delta:")) and not _LOGIN.search(whole)
    return whole if is_path or whole.startswith("sqlite:") else Secret(whole)
