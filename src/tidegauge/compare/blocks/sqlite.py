"""SQLite's SQL of a row's hash: calls of the functions that `model.canonical` gives to a connection."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.compare.blocks.words import HashedColumn
from tidegauge.model.canonical import SQL_HASH, SQL_TEXT, SQL_TOTAL

_ARGUMENTS = 100
"""Arguments in one call at most; SQLite's limit is 127."""


class SqliteHash:
    floats = "postgresql"
    check = ""
    in_process = True
    whole = ""

    def hash(self, columns: Sequence[HashedColumn]) -> str:
        groups = [columns[at : at + _ARGUMENTS] for at in range(0, len(columns), _ARGUMENTS)]
        texts = " || ',' || ".join(map(_text, groups))
        return f"{SQL_HASH}({texts})"

    def total(self, expression: str) -> str:
        return f"{SQL_TOTAL}({expression})"


def _text(columns: Sequence[HashedColumn]) -> str:
    forms = " ".join(str(column.form) for column in columns)
    return f"{SQL_TEXT}('{forms}', {', '.join(column.expression for column in columns)})"
