"""Checks that a run may write to lakes, warehouses and the ledger; tries to write only if asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from tidegauge.ledger.address import Address
from tidegauge.ledger.empty import EmptyLedger
from tidegauge.ledger.open import Ledger
from tidegauge.ledger.sql_connect import connect
from tidegauge.ledger.sql_reader import SqlReader
from tidegauge.ledger.sql_tables import metadata
from tidegauge.model.engines import FACTS
from tidegauge.model.privileges import (
    ALTER,
    CREATE,
    CREATE_VIEW,
    DELETE,
    DROP,
    INDEX,
    INSERT,
    SELECT,
    UPDATE,
    MissingPrivilege,
)
from tidegauge.model.spec import Database, Engine, Lake, TableFlow, TableName
from tidegauge.outputs.warehouse.access import NEEDED, find_lacks
from tidegauge.outputs.warehouse.file_warehouse import FileWarehouse
from tidegauge.outputs.warehouse.mysql import privileges as mysql
from tidegauge.outputs.warehouse.open import open_warehouse
from tidegauge.outputs.warehouse.postgresql import privileges as postgresql
from tidegauge.outputs.warehouse.privileges import SchemaNeeds, TableNeed
from tidegauge.outputs.warehouse.staging import read_clock
from tidegauge.storage.access import find_barrier
from tidegauge.storage.probe import check_store
from tidegauge.storage.s3_clock import ask_time
from tidegauge.storage.s3_settings import settings_of
from tidegauge.storage.store import open_store

_SKEW = 5.0
"""Seconds by which a clock may differ from this machine's before it is reported."""
_ROWS = frozenset({SELECT, INSERT, UPDATE, DELETE})
_NOT_TRIED = (
    "that it can be written, and honours a put-if-absent, was not tried: `tidegauge doctor --write-probe`"
    " tries it, and takes away what it wrote"
)


def check_lake(lake: Lake, *, probe: bool) -> Iterator[str | MissingPrivilege]:
    yield from _check_store(lake, probe=probe, replacing=False)


def check_warehouse(database: Database, flows: Sequence[TableFlow]) -> Iterator[str | MissingPrivilege]:
    """Check a warehouse; `flows` are those that write to it."""
    warehouse = open_warehouse(database)
    title = FACTS[database.engine].title
    if not warehouse.is_there():
        yield f"{database.path} is not there yet: the first run makes it"
    elif not isinstance(warehouse, FileWarehouse):
        with closing(warehouse.connect()) as session:
            clock = read_clock(warehouse, session)
        yield f"{title} answers"
        yield tell_clock(clock)
    lacks = find_lacks(warehouse, flows)
    if lacks is None:
        needed = NEEDED.get(database.engine)
        yield f"what the login may do was not asked of {title}{f': a run needs {needed}' if needed else ''}"
        return
    yield from lacks
    if any(not one.later for one in lacks):
        return
    if isinstance(warehouse, FileWarehouse):
        if warehouse.is_there():
            warehouse.look()
        yield "this user may write it, and no other process has it"
        return
    many = len({flow.target for flow in flows})
    targets = f"{many} target{'' if many == 1 else 's'}"
    yield f"the login may make tables, and write {targets} and tidegauge_commits"
    if database.engine is Engine.REDSHIFT:
        yield "whether its role or keys may read the lake was not asked: COPY alone shows it"


def check_ledger(
    ledger: Ledger | EmptyLedger, address: Address, *, probe: bool
) -> Iterator[str | MissingPrivilege]:
    if address.lake is not None:
        yield from _check_store(address.lake, probe=probe, replacing=address.scheme == "json")
        return
    assert isinstance(ledger, SqlReader)
    if address.path is not None:
        barrier = find_barrier(address.path, folder=False)
        if barrier is not None:
            yield MissingPrivilege(*barrier)
            return
        yield "this user may write it"
        return
    lacks = [one for one in _find_ledger_lacks(ledger, address) if not one.later]
    yield from lacks
    yield tell_clock(ledger.now())
    if not lacks:
        yield "the login may write it" if not isinstance(ledger, EmptyLedger) else "the login may make it"


def find_barred(address: Address) -> list[MissingPrivilege]:
    """Find what a login lacks for a server's ledger that it cannot open. Raises LedgerUnreachable."""
    if address.url is None:
        return []
    with EmptyLedger(connect(address), address.shown) as ledger:
        return [one for one in _find_ledger_lacks(ledger, address) if not one.later]


def _find_ledger_lacks(ledger: SqlReader, address: Address) -> Iterator[MissingPrivilege]:
    new = isinstance(ledger, EmptyLedger)
    tables = () if new else tuple(TableNeed(TableName(None, name), _ROWS) for name in metadata.tables)
    if address.scheme == "mysql":
        assert address.url is not None
        made = _ROWS | {CREATE, CREATE_VIEW, DROP, ALTER, INDEX} if new else frozenset[str]()
        yield from mysql.find_lacks(ledger, SchemaNeeds(None, made, tables), address.url.database or "")
        return
    ((schema,),) = ledger.rows("SELECT current_schema()")
    yield from postgresql.find_lacks(ledger, SchemaNeeds(schema, frozenset({CREATE} if new else ()), tables))


def _check_store(lake: Lake, *, probe: bool, replacing: bool) -> Iterator[str | MissingPrivilege]:
    store = open_store(lake)
    if lake.on_s3:
        any(True for _ in store.list(".tidegauge-probe"))
        clock = store.now() if probe else ask_time(settings_of(lake))
        yield f"{lake.path} can be listed"
        yield "its clock was not told" if clock is None else tell_clock(clock)
    else:
        barrier = find_barrier(Path(lake.path), folder=True)
        if barrier is not None:
            yield MissingPrivilege(*barrier)
            return
    if not probe:
        yield f"{lake.path}: {_NOT_TRIED}"
        return
    missing = (
        [] if lake.on_s3 else [one for one in (Path(lake.path), *Path(lake.path).parents) if not one.exists()]
    )
    try:
        check_store(store, (lake, "doctor"), replacing=replacing)
    finally:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
    yield f"{lake.path} can be written, and a put-if-absent is honoured"


def tell_clock(theirs: datetime) -> str:
    """Compare a clock with this machine's; `theirs` is in UTC, with or without a zone."""
    apart = (theirs.replace(tzinfo=None) - datetime.now(UTC).replace(tzinfo=None)).total_seconds()
    if abs(apart) <= _SKEW:
        return "its clock agrees with this machine's"
    where = "ahead of" if apart > 0 else "behind"
    return f"its clock is {abs(apart):.0f} s {where} this machine's; windows go by its own"
