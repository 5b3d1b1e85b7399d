"""Connections to warehouses that stay open for a moment after their last use, while a command goes on.

Why: a run asks a warehouse many things of each table. To open and close a DuckDB file costs as much as a
small batch, and so does it to log in to a server.
Gain: the `verify` of 150 tables in DuckDB took 24.7 s of processor time without, 13.5 s of them for opening
and closing the file.
Switch: `TIDEGAUGE_KEEP_FILES_OPEN=off` in the environment closes each at once.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from tidegauge.errors import OutputUnreachable
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseSession
from tidegauge.storage.kept_open import IdlePool, may_stay_open

_idle = IdlePool[WarehouseSession](lambda session: session.close())
_guard = threading.Lock()
_commands = 0
_noted: set[tuple[Hashable, ...]] = set()


@contextmanager
def kept_open() -> Iterator[None]:
    """Keep sessions open after use while the block lasts; close them all when the last such block ends."""
    global _commands
    with _guard:
        _commands += 1
    try:
        yield
    finally:
        with _guard:
            _commands -= 1
            ended = not _commands
            if ended:
                _noted.clear()
        if ended:
            _idle.close()


def is_first(*work: str) -> bool:
    """Whether this work is begun for the first time in this command; outside a command always True."""
    with _guard:
        if work in _noted:
            return False
        if _commands:
            _noted.add(work)
        return True


def note(*fact: Hashable) -> None:
    """Remember a fact until the command ends; outside a command do nothing."""
    with _guard:
        if _commands:
            _noted.add(fact)


def is_noted(*fact: Hashable) -> bool:
    with _guard:
        return fact in _noted


@contextmanager
def session_of(warehouse: Warehouse) -> Iterator[WarehouseSession]:
    """A session that nobody else uses during the block; after an error it is closed and not kept."""
    key = type(warehouse), warehouse.database
    session = _take(warehouse, key) or warehouse.connect()
    try:
        yield session
    except OutputUnreachable:
        session.close()
        _idle.close(key)  # what broke this connection has broken those too
        raise
    except BaseException:
        session.close()
        raise
    _give_back(warehouse, key, session)


def _take(warehouse: Warehouse, key: object) -> WarehouseSession | None:
    while (found := _idle.take(key)) is not None and warehouse.has_ended(found):
        found.close()
    return found


def _give_back(warehouse: Warehouse, key: object, session: WarehouseSession) -> None:
    if not (warehouse.keeps_sessions and may_stay_open()):
        session.close()
        return
    session.rollback()
    if warehouse.is_worn(session):
        session.close()
        _idle.close(key)
        return
    with _guard:
        if _commands:
            _idle.keep(key, session)
            return
    session.close()
