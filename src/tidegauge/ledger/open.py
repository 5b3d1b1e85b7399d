"""Open a ledger by its address."""

from __future__ import annotations

from typing import Literal, overload

from tidegauge.ledger.address import Address, parse
from tidegauge.ledger.database_errors import translate_database_error
from tidegauge.ledger.document_ledger import DocumentLedger
from tidegauge.ledger.document_store import DocumentStore
from tidegauge.ledger.empty import EmptyLedger
from tidegauge.ledger.migrate import check_version, prepare_place, upgrade, version
from tidegauge.ledger.sql_connect import clock_only, connect
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake

Ledger = SqlLedger | DocumentLedger


@overload
def open_ledger(address: str | Secret, *, create: Literal[True]) -> Ledger: ...
@overload
def open_ledger(address: str | Secret, *, create: bool) -> Ledger | EmptyLedger: ...
def open_ledger(address: str | Secret, *, create: bool) -> Ledger | EmptyLedger:
    """The ledger at an address, to be closed by `close` or `with`.

    With `create`, an empty store becomes a ledger. Without it nothing is made, not even the file, and the
    result is an EmptyLedger. Raises ConfigError for an address that cannot be read, LedgerVersion for a
    ledger older or newer than this code, LedgerUnreachable when the store does not answer, and LedgerError
    for a store that lets more than one of many writers win.
    """
    parsed = parse(address)
    if parsed.lake is not None:
        documents = _open_document_store(parsed.scheme, parsed.lake, parsed.shown, create=create)
        return EmptyLedger(clock_only(), parsed.shown) if documents is None else DocumentLedger(documents)
    if parsed.path is not None and not create and not parsed.path.exists():
        return EmptyLedger(clock_only(), parsed.shown)
    return _open(parsed, create=create)


def _open_document_store(scheme: str, lake: Lake, shown: str, *, create: bool) -> DocumentStore | None:
    if scheme == "delta":
        from tidegauge.ledger.delta_store import DeltaDocumentStore

        return DeltaDocumentStore.open(lake, shown=shown, create=create)
    from tidegauge.ledger.json_store import JsonDocumentStore

    return JsonDocumentStore.open(lake, shown=shown, create=create)


def _open(address: Address, *, create: bool) -> SqlLedger | EmptyLedger:
    if create:
        prepare_place(address)
    engine = connect(address, create=create)
    try:
        with translate_database_error(address.shown), engine.connect() as connection:
            found = version(connection)
        if found is None and not create:
            return EmptyLedger(engine, address.shown)
        if found is None:
            upgrade(engine, address)
        else:
            check_version(found, address.shown)
        return SqlLedger(engine, address.shown)
    except BaseException:
        engine.dispose()
        raise
