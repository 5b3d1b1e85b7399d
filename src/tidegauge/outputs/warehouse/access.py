"""May a login do what the flows into a warehouse do? Asked of its catalogue: nothing is tried or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial

from tidegauge.model.privileges import MissingPrivilege
from tidegauge.model.spec import Engine, TableFlow
from tidegauge.outputs.warehouse.file_warehouse import FileWarehouse
from tidegauge.outputs.warehouse.mysql import privileges as mysql
from tidegauge.outputs.warehouse.postgresql import privileges as postgresql
from tidegauge.outputs.warehouse.privileges import SchemaNeeds, find_needs
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseSession
from tidegauge.storage.access import find_barrier

_ASKED: Mapping[Engine, Callable[[WarehouseSession, SchemaNeeds], Iterable[MissingPrivilege]]] = {
    Engine.MYSQL: lambda session, needs: mysql.find_lacks(session, needs, needs.schema or ""),
    Engine.POSTGRESQL: postgresql.find_lacks,
    Engine.REDSHIFT: partial(postgresql.find_lacks, words=postgresql.REDSHIFT),
}
"""How the servers are asked that tell plainly what a login may do."""
NEEDED = {
    Engine.SNOWFLAKE: "USAGE on database, schema and warehouse, CREATE TABLE and CREATE STAGE on the schema,"
    " and to own its tables"
}
"""For a server that is not asked, what a run needs there."""


def find_lacks(warehouse: Warehouse, flows: Iterable[TableFlow]) -> list[MissingPrivilege] | None:
    """What the login lacks for these flows; None where that cannot be asked. Raises OutputUnreachable."""
    if isinstance(warehouse, FileWarehouse):
        assert warehouse.database.path is not None
        barrier = find_barrier(warehouse.database.path, folder=False)
        return [] if barrier is None else [MissingPrivilege(*barrier)]
    ask = _ASKED.get(warehouse.database.engine)
    if ask is None:
        return None
    with closing(warehouse.connect()) as session:
        return [lack for needs in find_needs(warehouse, flows) for lack in ask(session, needs)]
