"""Names of flows and tables: which table and stage a flow's name means, and which tables a pattern means.

A table that goes through a lake has two flows, `TABLE/extract` and `TABLE/load`; any other has one, with the
table's own name. Nobody else makes or reads these names.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from tidegauge.model.default_schema import default_schema, split_name
from tidegauge.model.spec import Database, Stage, Sync, TableName

_PATTERN = frozenset("*?[")


def is_pattern(text: str) -> bool:
    return bool(_PATTERN & set(text))


def matches(table: TableName, pattern: str, database: Database) -> bool:
    """Whether a name or pattern means this table. Without a schema it means the connection's own schema."""
    name = str(table)
    if name == pattern or fnmatchcase(name, pattern):
        return True
    return table.schema == default_schema(database) and (
        table.table == pattern or fnmatchcase(table.table, pattern)
    )


def means(sync: Sync, table: TableName) -> bool:
    """Whether the sync would read the table, if it is there."""
    return any(matches(table, pattern, sync.source) for pattern in sync.tables) and not any(
        matches(table, pattern, sync.source) for pattern in sync.exclude
    )


def stage_flow(table: TableName | str, stage: Stage) -> str:
    """The name of one of a table's two flows."""
    return f"{table}/{stage}"


def stage_of(name: str) -> Stage | None:
    """The stage at the end of a flow's name; None: it has none."""
    return next((stage for stage in Stage if name.endswith(f"/{stage}")), None)


def table_of(name: str) -> str:
    """A flow's name without its stage."""
    stage = stage_of(name)
    return name if stage is None else name.removesuffix(f"/{stage}")


def table_named(database: Database, name: str) -> TableName:
    """The table that a flow's name, or a name in the project file, means."""
    found = split_name(database, table_of(name))
    return found if found.schema is not None else TableName(default_schema(database), found.table)


def first_flow(sync: Sync, table: TableName) -> str:
    """The name of the table's flow that reads the database."""
    return flows_of(sync, table)[0]


def flows_of(sync: Sync, table: TableName) -> tuple[str, ...]:
    """The names of a table's flows, in the order in which its rows go through them."""
    if sync.via:
        return tuple(stage_flow(table, stage) for stage in Stage)
    return (str(table),)
