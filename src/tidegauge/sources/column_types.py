"""What `types:` says about a table's columns, by their names or by the types that they have at the source."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidegauge.errors import ColumnMissing, TypeNotHeld, tell_types
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.sources.dialect import suggest_names
from tidegauge.sources.types import CatalogueColumn, TypeRules

_SIZE = re.compile(r" ?\([^)]*\)")


def types_of(
    rules: TypeRules, table: TableName, options: TableOptions, columns: Sequence[CatalogueColumn]
) -> dict[str, str]:
    """Column → how it shall arrive. An entry for its name wins over one for its type. Raises ColumnMissing
    for an entry that names neither a column nor a type, because it would silently do nothing."""
    known = tuple(column.name for column in columns)
    by_type: dict[str, str] = {}
    words = {word for rule in rules.rules for word in rule.types} | {
        word for column in columns for word in names_of(column)
    }
    for name, arrives in options.types.items():
        if name in known:
            continue
        if name.lower() not in words:
            raise ColumnMissing(
                f"{table}: types names '{name}', which is neither a column there nor a type of {rules.title}",
                hint=suggest_names(name, known),
            )
        by_type[name.lower()] = arrives
    found = {column.name: by_type[word] for column in columns for word in names_of(column) if word in by_type}
    return found | {name: arrives for name, arrives in options.types.items() if name in known}


def names_of(column: CatalogueColumn) -> tuple[str, ...]:
    """The ways in which people write a column's type, the plainest first."""
    full = column.full.lower()
    return tuple(dict.fromkeys((column.type, _SIZE.sub("", full), full)))


def refuse_unheld(
    rules: TypeRules,
    table: TableName,
    options: TableOptions,
    columns: Sequence[CatalogueColumn],
) -> None:
    """Raises TypeNotHeld that names all columns that cannot be held exactly, and the `types:` line to add.

    `options.types` has to be by column name, as `types_of` gives it."""
    found: list[tuple[CatalogueColumn, str]] = []
    for column in columns:
        rule = rules.find(column)
        kept = options.keeps_types and rule is not None and rule.through(column)
        if column.name in options.types or kept or (rule is not None and rule.arrives):
            continue
        found.append((column, rule.remark if rule else "Tidegauge does not know it"))
    if not found:
        return
    whose = ", ".join(f"{column.name} ({column.full})" for column, _ in found)
    why = "; ".join(dict.fromkeys(remark for _, remark in found))
    error = TypeNotHeld(
        f"{table}: {'a column' if len(found) == 1 else f'{len(found)} columns'} cannot be held exactly:"
        f" {whose}: {why}",
        hint=tell_types(words := [column.type or column.name for column, _ in found]),
    )
    error.types = tuple(words)
    raise error
