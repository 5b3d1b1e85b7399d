"""Rows that are in the warehouse already: one statement of the warehouse puts them into the staging table."""

from __future__ import annotations

from tidegauge.errors import OutputError, SourceError
from tidegauge.model.batch_data import RowsQuery
from tidegauge.outputs.warehouse.warehouse import (
    PermissionDenied,
    StagingTable,
    Warehouse,
    WarehouseColumn,
    WarehouseSession,
)


def fill_stage(
    warehouse: Warehouse, session: WarehouseSession, stage: StagingTable, inside: RowsQuery
) -> int:
    """Make the staging table and fill it; returns the number of rows. Commits.

    A row with a value that cannot be held exactly gets a number below 0 for its split, in the statement that
    reads it: a second statement that looked for such rows would see another moment of the table.
    """
    columns = [
        WarehouseColumn(field.name, warehouse.type(field, key=field.name in stage.key))
        for field in stage.fields
    ]
    session.run(
        warehouse.create(stage.table, [*columns, WarehouseColumn(stage.ordinal, warehouse.integer_type)])
    )
    names = ", ".join(warehouse.name(one.name) for one in columns)
    ordinal = warehouse.name(stage.ordinal)
    number = f"COALESCE(-1 - {inside.wrong}, 0)" if inside.wrong else "0"
    into = warehouse.table(stage.table)
    try:
        values = ", ".join((*inside.values, number))
        rows = session.run(f"INSERT INTO {into} ({names}, {ordinal}) SELECT {values} {inside.rest}")
    except OutputError as error:
        raise _explain(warehouse, inside, error) from error
    _check_types(session, stage, inside)
    if inside.wrong:
        shown = ", ".join(map(warehouse.name, (*stage.key, stage.ordinal)))
        found = session.rows(f"SELECT {shown} FROM {into} WHERE {ordinal} < 0 LIMIT 1")
        if found:
            *key, wrong = found[0]
            raise inside.refuse(-1 - int(wrong), dict(zip(stage.key, key, strict=True)))
    session.commit()
    return rows


def _check_types(session: WarehouseSession, stage: StagingTable, inside: RowsQuery) -> None:
    """Raises SourceError where a column no longer has the type that the batch was described with: a database
    silently rounds what does not fit. The read of the table keeps others from changing it until the
    transaction ends."""
    now = {str(name): str(kind) for name, kind, *_ in session.rows(inside.types)}
    for field in stage.fields:
        if field.name not in inside.masked and now.get(field.name) != field.source_type:
            raise SourceError(
                f"{inside.table}: the column {field.name} was {field.source_type} when the batch was"
                f" described, and is {now.get(field.name, 'gone')} now",
                hint="somebody changes the table: run again; nothing was loaded",
                retryable=True,
            )


def check_readable(warehouse: Warehouse, session: WarehouseSession, inside: RowsQuery) -> None:
    """As `InsideDatabase` promises. Reads no row."""
    try:
        session.rows(f"SELECT {', '.join(inside.values)} {inside.rest} AND 1 = 0")
    except OutputError as error:
        raise _explain(warehouse, inside, error) from error


def _explain(warehouse: Warehouse, inside: RowsQuery, error: OutputError) -> OutputError | SourceError:
    """The error, saying whether source or target is at fault: one session reads one and writes the other."""
    database = warehouse.database
    if isinstance(error, PermissionDenied):
        login = database.role or database.user
        return OutputError(
            f"{database.name}: the login {login} may not read {inside.table}, and with execute `database` it"
            f" has to: {error.message}",
            hint=f"GRANT SELECT ON {inside.table} TO {login} (and the use of its schema), or write the login"
            f" that may read it into the connection {database.name}; nothing was loaded",
        )
    if type(error) is OutputError:
        return SourceError(
            f"{inside.table} cannot be read inside {warehouse.place}: {error.message}",
            hint="if the table was dropped or its columns changed since the plan, run again once it is there;"
            " nothing was loaded",
        )
    return error
