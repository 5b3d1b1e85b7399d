"""What Redshift and Snowflake have in common: how their catalogue is asked, and how a type is chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegauge.errors import OutputError
from tidegauge.model.spec import TableName
from tidegauge.model.table import Field
from tidegauge.model.types import parse_decimal
from tidegauge.outputs.warehouse.warehouse import WarehouseSession

_SCALE_MAX = 37
_TEXT_LENGTH = re.compile(r"(?:n?var)?char(?:acter)?(?: varying)?\s*\((\d+)\)", re.IGNORECASE)
# A quoted name or text is left alone; only a bare `t.` is the target's alias.
_ALIAS = re.compile(r""""(?:[^"]|"")*"|'(?:[^']|'')*'|\bt\.""")


def list_tables(session: WarehouseSession, catalogue: str, schema: str | None, prefix: str) -> list[str]:
    """Names that begin with a prefix. `catalogue`: the view that lists the tables."""
    found = session.rows(
        f"SELECT table_name FROM {catalogue} WHERE table_schema = ? AND LEFT(table_name, {len(prefix)}) = ?",
        (schema, prefix),
    )
    return [str(name) for (name,) in found]


def no_table_error(title: str, table: TableName, kind: object) -> OutputError:
    return OutputError(
        f"{table} is not a table of {title} but a {str(kind).lower()}",
        hint="give the target another name with `rename:`",
    )


def choose_type(title: str, field: Field, types: Mapping[str, str], *, decimal: str) -> str:
    """The column type for a field: by its Spark type, or the word for decimals with its digits.

    Raises OutputError where there is none.
    """
    size = parse_decimal(field.type)
    if size and size.scale <= _SCALE_MAX:
        return f"{decimal}({size.precision},{size.scale})"
    if field.type in types:
        return types[field.type]
    raise OutputError(
        f"{title} has no type for the column {field.name}, which arrives as {field.type}",
        hint=f"bring it as text: `types: {{{field.name}: string}}`",
    )


def find_length(field: Field) -> int | None:
    """How many characters the source allows in a column; None where it sets no limit."""
    match = _TEXT_LENGTH.fullmatch(field.source_type.strip())
    return int(match[1]) if match else None


def replace_alias(sql: str, named: str) -> str:
    """SQL with the target's own name in place of its alias `t`."""
    return _ALIAS.sub(lambda found: f"{named}." if found[0] == "t." else found[0], sql)
