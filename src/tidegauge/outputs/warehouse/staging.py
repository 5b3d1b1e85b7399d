"""Staging tables: one for each attempt, under a name that no other attempt or reader knows."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegauge.errors import KeyUnsuitable, OutputError, TidegaugeError
from tidegauge.model.spec import TableName
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse.kept_sessions import is_first
from tidegauge.outputs.warehouse.warehouse import StagingTable, Warehouse, WarehouseColumn, WarehouseSession

PREFIX = "tidegauge_stage_"
SAFE_AGE = timedelta(days=1)
"""Younger staging tables are never cleared away: only age tells a dead attempt's from a running one's."""

_NAME = re.compile(rf"{PREFIX}([0-9a-f]{{8}})[0-9a-f]{{8}}(_\w)?", re.ASCII)
_ORDINAL = "_tidegauge_stretch"


def make_name(warehouse: Warehouse, session: WarehouseSession, schema: str | None) -> TableName:
    """A name that nobody else has: the time by the server's clock, and eight random digits."""
    return TableName(schema, f"{PREFIX}{_clock(warehouse, session):08x}{secrets.token_hex(4)}")


def stage_of(table: TableName, layout: Layout, held: Sequence[Field] = ()) -> StagingTable:
    """The staging table for a layout. `held`: the target's columns; where one holds plain text or bytes for a
    field with a type of its own (`Field.through`), as earlier versions made it, it stays so."""
    texts = {field.name.lower() for field in held if field.type in ("string", "binary")}
    fields = tuple(replace(one, through="") if one.name.lower() in texts else one for one in layout.fields)
    ordinal = _ORDINAL
    taken = {field.name.lower() for field in layout.fields}
    while {ordinal, f"{ordinal}_"} & taken:  # with one more underscore it is the rank of `keep_last`
        ordinal += "_"
    return StagingTable(table, fields, layout.key, ordinal)


def history_of(stage: TableName) -> TableName:
    """The table in which scd2 rebuilds the history of the staged keys."""
    return TableName(stage.schema, f"{stage.table}_h")


def last_of(stage: TableName) -> TableName:
    """The table for the last row of each key, where keys came more than once."""
    return TableName(stage.schema, f"{stage.table}_l")


def is_beside(table: TableName) -> bool:
    """Whether the table is a helper of a staging table, with a suffix such as `_h`."""
    return table.table.startswith(PREFIX) and table.table[-2:].startswith("_")


def list_made(table: TableName, *, history: bool) -> tuple[TableName, ...]:
    """The staging tables of the attempt whose rows are in this one. `history`: one was made for a history."""
    base = TableName(table.schema, table.table[: len(PREFIX) + 16])
    return (base, *([table] if table != base else []), *([history_of(base)] if history else []))


def drop(warehouse: Warehouse, session: WarehouseSession, table: TableName) -> None:
    """Drop a staging table and its helpers. Never raises: a table that stays is cleared away a day later."""
    base = TableName(table.schema, table.table[: len(PREFIX) + 16])
    every = (base, last_of(base), history_of(base))
    # All in one transaction, which is faster; if that fails, one by one, so that the others are dropped.
    for some in (every, *((one,) for one in every)):
        with suppress(TidegaugeError):
            try:
                for one in some:
                    warehouse.drop(session, one)
                session.commit()
            except TidegaugeError:
                session.rollback()
                raise
            if some is every:
                return


def clear_leftovers(warehouse: Warehouse, session: WarehouseSession, schema: str | None) -> None:
    """Drop the staging tables of attempts that began more than a day ago, by the server's clock. Only once a
    command, because it lists all tables."""
    if not is_first("clear", warehouse.place, schema or ""):
        return
    found = [match for name in warehouse.tables(session, schema, PREFIX) if (match := _NAME.fullmatch(name))]
    if not found:
        return
    limit = _clock(warehouse, session) - int(SAFE_AGE.total_seconds())
    for match in found:
        if int(match[1], 16) < limit:
            warehouse.drop(session, TableName(schema, match[0]))
            session.commit()


def check_keys(
    warehouse: Warehouse,
    session: WarehouseSession,
    stage: StagingTable,
    *,
    several: bool,
    proven: bool = False,
    aside: str | None = None,
) -> int | None:
    """How many rows `keep_last` keeps, where keys come in more than one split; None where no key repeats.

    Raises KeyUnsuitable for a key that is NULL, or that one split holds twice: which row the target gets
    would be chance. `proven`: the engine finds a repeated key itself, so only NULLs are looked for. `aside`:
    SQL condition for rows that do not reach the target, and need no key.
    """
    key = ", ".join(map(warehouse.name, stage.key))
    name = warehouse.table(stage.table)
    counts = ", ".join(f"COUNT({warehouse.name(part)})" for part in stage.key)
    keyless, looked = 0, ""
    if aside is not None:
        without = f"{aside} AND ({_has_no_key(warehouse, stage)})"
        ((keyless,),) = session.rows(f"SELECT COUNT(*) FROM {name} WHERE {without}")
        looked = f" WHERE NOT ({without})" if keyless else ""
    # In one statement: for few rows, asking costs more than counting.
    groups = f"(SELECT COUNT(*) FROM (SELECT {key} FROM {name}{looked} GROUP BY {key}) AS k_)"
    asked = counts if proven else f"{counts}, {groups}"
    ((total, *found),) = session.rows(f"SELECT COUNT(*), {asked} FROM {name}{looked}")
    for part, count in zip(stage.key, found, strict=False):
        if count != total:
            raise KeyUnsuitable(
                f"{total - count} rows have no {part}, which is a part of the key",
                hint="choose another `key:`, or fill the column at the source; the batch was not loaded",
            )
    if proven or (different := found[-1]) == total:
        return None
    ordinal = warehouse.name(stage.ordinal)
    twice = session.rows(
        f"SELECT {key}, COUNT(*) FROM {name}{looked} GROUP BY {key}, {ordinal} HAVING COUNT(*) > 1 LIMIT 1"
    )
    if twice or not several:
        shown = show_key(stage.key, twice[0][:-1]) if twice else ", ".join(stage.key)
        raise KeyUnsuitable(
            f"the key {shown} is there more than once",
            hint="choose a `key:` that is unique at the source; the batch was not loaded",
        )
    return int(different) + int(keyless)


def _has_no_key(warehouse: Warehouse, stage: StagingTable) -> str:
    return " OR ".join(f"{warehouse.name(part)} IS NULL" for part in stage.key)


def keep_last(
    warehouse: Warehouse, session: WarehouseSession, stage: StagingTable, keys: int
) -> StagingTable:
    """Make a staging table with only the last row of each key, and all rows without a key. The other table
    stays until both are dropped. `keys`: how many rows it has to have."""
    kept = replace(stage, table=last_of(stage.table))
    columns = [
        WarehouseColumn(field.name, warehouse.type(field, key=field.name in stage.key))
        for field in stage.fields
    ]
    session.rollback()
    session.run(
        warehouse.create(kept.table, [*columns, WarehouseColumn(stage.ordinal, warehouse.integer_type)])
    )
    session.commit()
    key = ", ".join(map(warehouse.name, stage.key))
    ordinal = warehouse.name(stage.ordinal)
    names = ", ".join(map(warehouse.name, (*(field.name for field in stage.fields), stage.ordinal)))
    rank = warehouse.name(f"{stage.ordinal}_")
    ranked = f"SELECT {names}, ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {ordinal} DESC) AS {rank}"
    rows = session.run(
        f"INSERT INTO {warehouse.table(kept.table)} ({names})"
        f" SELECT {names} FROM ({ranked} FROM {warehouse.table(stage.table)}) AS r_"
        f" WHERE {rank} = 1 OR {_has_no_key(warehouse, stage)}"
    )
    if rows != keys:
        raise OutputError(
            f"{warehouse.place} found {rows} rows to be the last of {keys} keys",
            hint="somebody changes the staging table or the files under it; the batch was not loaded",
        )
    session.commit()
    return kept


def check_values(
    warehouse: Warehouse,
    session: WarehouseSession,
    stage: StagingTable,
    narrow: Sequence[Field],
    aside: str | None = None,
) -> None:
    """Raises OutputError, naming column, key and value, for a value that a column of the target cannot hold.

    `aside`: SQL condition for rows that do not reach the target.
    """
    reach = "" if aside is None else f" AND NOT ({aside})"
    for held in narrow:
        column = warehouse.name(held.name)
        shown = ", ".join([*map(warehouse.name, stage.key), column])
        found = session.rows(
            f"SELECT {shown} FROM {warehouse.table(stage.table)}"
            f" WHERE {warehouse.misfit(held, column)}{reach} LIMIT 1"
        )
        if found:
            *key, value = found[0]
            where = f" of the row with {show_key(stage.key, key)}" if stage.key else ""
            raise OutputError(
                f"the target's column {held.name} is {held.source_type} and cannot hold {value!r}{where}",
                hint="make the column wider, or mend the row at the source; the batch was not loaded",
            )


def check_filled(warehouse: Warehouse, session: WarehouseSession, stage: StagingTable, column: str) -> None:
    """Raises OutputError, naming the key, for a row that has NULL in a column."""
    shown = ", ".join(map(warehouse.name, stage.key))
    found = session.rows(
        f"SELECT {shown} FROM {warehouse.table(stage.table)} WHERE {warehouse.name(column)} IS NULL LIMIT 1"
    )
    if found:
        raise OutputError(
            f"the row with {show_key(stage.key, found[0])} has no {column}, and a history is ordered by it",
            hint="fill it at the source, or use another mode than scd2; the batch was not loaded",
        )


def show_key(key: Sequence[str], values: Sequence[Any]) -> str:
    """A row's key as messages show it."""
    return ", ".join(f"{name} = {value!r}" for name, value in zip(key, values, strict=True))


def read_clock(warehouse: Warehouse, session: WarehouseSession) -> datetime:
    """The time by the server's clock, in UTC."""
    ((now,),) = session.rows(f"SELECT {warehouse.now}")
    moment = now if isinstance(now, datetime) else datetime.fromisoformat(str(now))
    return moment.replace(tzinfo=moment.tzinfo or UTC)


def _clock(warehouse: Warehouse, session: WarehouseSession) -> int:
    if warehouse.clock_here:
        return int(time.time())
    return int(read_clock(warehouse, session).timestamp())
