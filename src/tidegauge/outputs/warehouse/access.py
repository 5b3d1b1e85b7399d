"""May a login do what the flows into a warehouse do? Asked of its catalogue: nothing is tried or changed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from tidegauge.model.privileges import MissingPrivilege
from tidegauge.model.spec import Engine, TableFlow
from tidegauge.outputs.warehouse.file_warehouse import FileWarehouse
from tidegauge.outputs.warehouse.mysql import privileges as mysql
from tidegauge.outputs.warehouse.postgresql import privileges as postgresql
from tidegauge.outputs.warehouse.privileges import find_needs
from tidegauge.outputs.warehouse.warehouse import Warehouse
from tidegauge.storage.access import find_barrier


def find_lacks(warehouse: Warehouse, flows: Iterable[TableFlow]) -> list[MissingPrivilege] | None:
    """What the login lacks for these flows; None where that cannot be asked. Raises OutputUnreachable."""
    if isinstance(warehouse, FileWarehouse):
        assert warehouse.database.path is not None
        barrier = find_barrier(warehouse.database.path, folder=False)
        return [] if barrier is None else [MissingPrivilege(*barrier)]
    engine = warehouse.database.engine
    if engine is Engine.SNOWFLAKE:
        return None
    lacks: list[MissingPrivilege] = []
    with closing(warehouse.connect()) as session:
        for needs in find_needs(warehouse, flows):
            if engine is Engine.MYSQL:
                lacks += mysql.find_lacks(session, needs, needs.schema or "")
            else:
                words = postgresql.REDSHIFT if engine is Engine.REDSHIFT else postgresql.POSTGRESQL
                lacks += postgresql.find_lacks(session, needs, words)
    return lacks
