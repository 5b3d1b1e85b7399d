"""The columns of a table that are read (`columns:`), and the SQL of those that are masked (`mask:`).

A mask is part of the SQL from which every reader and every comparison takes a column's value, so the value
itself never leaves the database. A hash is of the text that would arrive, in UTF-8: the same hexadecimal
digits on every engine, for text, whole numbers and decimals (in plain digits), and dates.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from tidegauge.errors import ConfigError, TypeNotHeld
from tidegauge.model.columns import ColumnChoice, ColumnMask, MaskKind, covers, find_mask
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.secret import remember
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.table import SourceColumn
from tidegauge.model.types import INTEGER_DIGITS, parse_decimal
from tidegauge.sources.column_types import refuse_unheld
from tidegauge.sources.dialect import Dialect
from tidegauge.sources.types import CatalogueColumn, arrive

_CLOSE = 0.8
_WILD = frozenset("*?[")


@dataclass(frozen=True)
class ChosenColumns:
    columns: tuple[SourceColumn, ...]
    notes: tuple[str, ...]


def choose_columns(
    dialect: Dialect,
    table: TableName,
    options: TableOptions,
    found: Sequence[CatalogueColumn],
    key: Collection[str],
) -> ChosenColumns:
    """Choose the columns to read, and how. Raises ConfigError if the cursor or the key is left out or masked,
    or a mask is not possible; TypeNotHeld for a column that cannot be held exactly."""
    names = [native.name for native in found]
    taken = [native for native in found if options.columns.takes(native.name)]
    masks = {native.name: mask for native in taken if (mask := find_mask(options.mask, native.name))}
    _check_ordering_columns(table, options, set(names) - {native.name for native in taken}, masks, key)
    checked = [one for one in taken if one.name not in masks or masks[one.name].kind is MaskKind.SHA256]
    refuse_unheld(dialect.rules, table, options, checked)
    columns = tuple(_read(dialect, table, options, native, masks.get(native.name)) for native in taken)
    return ChosenColumns(columns, tuple(_make_notes(options, names, {one.name for one in taken}, masks)))


def _check_ordering_columns(
    table: TableName,
    options: TableOptions,
    left_out: set[str],
    masks: dict[str, ColumnMask],
    key: Collection[str],
) -> None:
    """Raises ConfigError if the cursor or the key is left out or masked: the ledger keeps their values of the
    last row, and reading goes on from there."""
    for name in sorted(left_out | set(masks)):
        in_key = name in key
        in_cursor = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", options.cursor, re.IGNORECASE) is not None
        if not in_key and not in_cursor:
            continue
        role = "part of the key" if in_key else "the cursor, or part of it"
        if name in masks:
            raise ConfigError(
                f"{table}: `mask` covers the column {name}, which is {role}: rows are told apart and found"
                " again by its own values, which the ledger keeps",
                hint="name other columns with `key:` or `cursor:`, or leave it out of `mask`",
                place=masks[name].place,
            )
        word = "include" if options.columns.include else "exclude"
        verb = "does not name" if options.columns.include else "covers"
        raise ConfigError(
            f"{table}: `columns: {{{word}: …}}` {verb} the column {name}, which is {role}",
            hint=f"{'add it' if word == 'include' else 'take it out'}, or name other columns with `key:` or"
            " `cursor:`",
            place=options.columns.place,
        )


def _make_notes(
    options: TableOptions, names: list[str], taken: set[str], masks: dict[str, ColumnMask]
) -> list[str]:
    notes = []
    if left_out := [name for name in names if name not in taken]:
        notes.append(f"left out by `columns`: {', '.join(left_out)}")
    if masks:
        notes.append("masked: " + ", ".join(f"{name} ({mask.shown})" for name, mask in masks.items()))
    # Of many tables in one sync most lack some column that it names, so that is no error. But if the name is
    # misspelled, the column that was meant travels unmasked.
    bare = [name for name in names if name in taken and name not in masks]
    for word, pattern in _plain_names(options.columns, options.mask):
        near = get_close_matches(pattern.casefold(), [name.casefold() for name in bare], 1, _CLOSE)
        if near and not any(covers(pattern, name) for name in names):
            notes.append(f"risk: `{word}` names the column {pattern}, and there is only {near[0]}")
    return notes


def _plain_names(choice: ColumnChoice, masks: Sequence[ColumnMask]) -> list[tuple[str, str]]:
    found = [("exclude", name) for name in choice.exclude] + [("mask", one.pattern) for one in masks]
    return [(word, name) for word, name in found if not _WILD & set(name)]


def _read(
    dialect: Dialect,
    table: TableName,
    options: TableOptions,
    native: CatalogueColumn,
    mask: ColumnMask | None,
) -> SourceColumn:
    quoted, rules = dialect.quote(native.name), dialect.rules

    def make_unmasked() -> SourceColumn:
        override = options.types.get(native.name)
        return arrive(
            rules,
            table,
            native,
            quoted,
            override=override,
            zero_dates=options.zero_dates,
            keeps_types=options.keeps_types,
        )

    if mask is None:
        return make_unmasked()
    match mask.kind:
        case MaskKind.NULL:
            try:
                column = make_unmasked()
            except TypeNotHeld:
                text = rules.text.format(c=quoted)
                column = SourceColumn(native.name, native.full, "string", text, "string", "{}")
            never, inside = (
                f"CASE WHEN 1 = 0 THEN {one} END" for one in (column.select, column.inside or column.select)
            )
            return replace(column, select=never, guard=None, inside=inside, mask=mask.digest)
        case MaskKind.TEXT:
            text = dialect.literal(Value(ValueKind.TEXT, mask.text))
            select = f"CASE WHEN {quoted} IS NULL THEN NULL ELSE {text} END"
            return SourceColumn(
                native.name, "text", "string", select, "string", "{}", inside=select, mask=mask.digest
            )
        case MaskKind.SHA256:
            return _mask_by_hash(dialect, table, make_unmasked(), quoted, mask)


def _mask_by_hash(
    dialect: Dialect, table: TableName, column: SourceColumn, quoted: str, mask: ColumnMask
) -> SourceColumn:
    rules = dialect.rules
    number = column.arrives in INTEGER_DIGITS or parse_decimal(column.arrives) is not None
    if column.arrives == "string" and column.finish == "{}":
        text = column.select
    elif number and column.finish == "{}":
        text = (rules.digits or rules.text).format(c=column.select)
    elif column.arrives == "date" and column.wire != "string":
        # Hash the date's text, not the number of days that travels. If that is NULL, the date cannot be held.
        text = f"CASE WHEN {column.select} IS NOT NULL THEN {rules.text.format(c=quoted)} END"
    else:
        raise ConfigError(
            f"{table}: column {column.name}, a {column.native}, cannot be masked by sha256: only text, whole"
            " numbers, decimals and dates have one text on every engine",
            hint=f"mask it by null or a text, leave it out with `columns`, or hash the database's own text"
            f" of it: types: {{{column.name}: string}}",
            place=mask.place,
        )
    salt = dialect.literal(Value(ValueKind.TEXT, mask.salt.reveal() if mask.salt else ""))
    if mask.salt:
        remember(salt)  # it is part of SQL that errors may quote
    select = rules.sha256.format(salt=salt, t=text)
    return SourceColumn(
        column.name,
        "varchar(64)",
        "string",
        select,
        "string",
        "{}",
        column.guard,
        inside=select,
        mask=mask.digest,
        in_process=rules.sha256_in_process,
    )
