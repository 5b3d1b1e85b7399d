"""The keys `columns`, `mask` and `where`: which columns and rows are read, and which values are hidden."""

from __future__ import annotations

from typing import Any

from tidegauge.config import values
from tidegauge.config.problems import InvalidValue, below, must, quoted
from tidegauge.model.columns import ColumnChoice, ColumnMask, MaskKind
from tidegauge.model.engines import FACTS, Engine
from tidegauge.model.secret import Secret
from tidegauge.model.sql_error import describe_sql_error

SHORTEST_SALT = 8
_FORMS = 'write `sha256`, `{sha256: "${env:SALT}"}`, `null`, or the text that takes the value\'s place'
_NOT_MEANT = frozenset({"md5", "sha1", "sha-1", "sha-256", "sha512", "hash", "hmac", "null", "none", "true"})
"""Words that are refused as the text of a mask: who writes one of them wants a hash or NULL."""


def column_choice(value: Any) -> ColumnChoice:
    form = "write `{include: [a, b]}` or `{exclude: [c, '*_d']}`"
    if not isinstance(value, dict) or not value:
        raise must("be a mapping with `include` or `exclude`", hint=form)
    for key in value:
        if key not in ("include", "exclude"):
            raise InvalidValue(f"unknown key {quoted(key)}", hint=form, trail=(key,), at_key=True)
    if len(value) > 1:
        raise InvalidValue("`include` and `exclude` do not go together", hint=form)
    [(word, patterns)] = value.items()
    with below(word):
        found = values.some_texts(patterns)
    return ColumnChoice(include=found) if word == "include" else ColumnChoice(exclude=found)


def masks(value: Any) -> tuple[ColumnMask, ...]:
    if not isinstance(value, dict):
        raise must("be a mapping of columns to masks", hint=_FORMS)
    found = []
    for pattern, way in value.items():
        with below(pattern):
            found.append(_mask(pattern, way))
    return tuple(found)


def _mask(pattern: str, way: Any) -> ColumnMask:
    if way is None:
        return ColumnMask(pattern, MaskKind.NULL)
    if isinstance(way, dict):
        if set(way) != {"sha256"}:
            raise InvalidValue("this is no mask", hint=_FORMS)
        return ColumnMask(pattern, MaskKind.SHA256, salt=_salt(way["sha256"]))
    text = values.text(way)
    if text == "sha256":
        return ColumnMask(pattern, MaskKind.SHA256)
    if text.strip().lower() == "null":
        raise InvalidValue(f"{quoted(text)} in quotes is text, and no mask", hint="write null without quotes")
    if text.strip().lower() in {*_NOT_MEANT, "sha256"}:
        raise InvalidValue(f"{quoted(text)} is no mask", hint=_FORMS)
    return ColumnMask(pattern, MaskKind.TEXT, text)


def _salt(value: Any) -> Secret:
    with below("sha256"):
        salt = values.secret(value)
    if len(salt.reveal()) < SHORTEST_SALT or "\0" in salt.reveal():
        raise InvalidValue(
            "this is no salt",
            hint=f"it has at least {SHORTEST_SALT} characters, none of them NUL: `openssl rand -hex 32`",
            trail=("sha256",),
        )
    return salt


def condition(value: Any) -> str:
    """The condition of `where` on one line; people may write it over several."""
    return values.text(" ".join(value.splitlines()).strip() if isinstance(value, str) else value)


def check_condition(text: str, engine: Engine) -> None:
    """Raise InvalidValue for text that is not exactly one condition, as it is put into larger conditions.

    Only the form is checked: the database says whether the columns exist.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    hint = "write one condition, as it stands behind WHERE: no `;`, no comment, no other clause"
    dialect = FACTS[engine].grammar or engine.value
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
        commented = any(token.comments for token in tokens)
        # Parsed without our brackets around it, so that text such as `a) OR (b` is refused.
        parsed = sqlglot.parse(text, read=dialect)
    except (ParseError, TokenError) as error:
        said = describe_sql_error(error)
        raise InvalidValue(f"{quoted(text)} is no condition: {said}", hint=hint) from None
    if commented or any(token.token_type.name == "SEMICOLON" for token in tokens):
        raise InvalidValue(f"{quoted(text)} holds a `;` or a comment", hint=hint)
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Condition):
        raise InvalidValue(f"{quoted(text)} is no condition", hint=hint)
