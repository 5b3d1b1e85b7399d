"""Connections to warehouses that stay open for a moment after their last use, while a command goes on.

Why: a run asks a warehouse many things of each table. To open and close a DuckDB file costs as much as a
small batch, and so does it to log in to a server.
Gain: the `verify` of 150 tables in DuckDB took 24.7 s of processor time without, 13.5 s of them for opening
and closing the file.
Switch: `TIDEGAUGE_KEEP_FILES_OPEN=off` in the environment closes each at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tidegauge.errors import OutputUnreachable
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseSession
from tidegauge.storage.kept_open import LINGER, may_stay_open


@dataclass(frozen=True, eq=False)
class _IdleSession:
    warehouse: Warehouse
    session: WarehouseSession
    since: float

    def is_of(self, warehouse: Warehouse) -> bool:
        return type(self.warehouse) is type(warehouse) and self.warehouse.database == warehouse.database


_guard = threading.Condition()
_commands = 0
_watching = False
_idle: list[_IdleSession] = []
_noted: set[tuple[Hashable, ...]] = set()


@contextmanager
def kept_open() -> Iterator[None]:
    """Keep sessions open after use while the block lasts; close them all when the last such block ends."""
    global _commands, _watching
    with _guard:
        _commands += 1
        if not _watching:
            _watching = True
            threading.Thread(target=_watch, name="tidegauge-idle-sessions", daemon=True).start()
    try:
        yield
    finally:
        with _guard:
            _commands -= 1
            over = [] if _commands else _take_out()
            if not _commands:
                _noted.clear()
            _guard.notify_all()
        _close(over)


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
    session = _take(warehouse) or warehouse.connect()
    try:
        yield session
    except OutputUnreachable:
        with _guard:
            lost = _take_out(warehouse)
        _close([session, *lost])  # what broke this connection has broken those too
        raise
    except BaseException:
        session.close()
        raise
    _give_back(warehouse, session)


def _take(warehouse: Warehouse) -> WarehouseSession | None:
    while True:
        with _guard:
            found = next((one for one in reversed(_idle) if one.is_of(warehouse)), None)
            if found is None:
                return None
            _idle.remove(found)
        if not warehouse.has_ended(found.session):
            return found.session
        found.session.close()


def _give_back(warehouse: Warehouse, session: WarehouseSession) -> None:
    if not (warehouse.keeps_sessions and may_stay_open()):
        session.close()
        return
    session.rollback()
    if warehouse.is_worn(session):
        with _guard:
            worn = _take_out(warehouse)
        _close([session, *worn])
        return
    with _guard:
        keeps = _commands > 0
        if keeps:
            _idle.append(_IdleSession(warehouse, session, time.monotonic()))
    if not keeps:
        session.close()


def _watch() -> None:
    """Close sessions that nobody has used for `LINGER` seconds, until the last command ends."""
    global _watching
    while True:
        with _guard:
            _guard.wait(LINGER)
            if not _commands:
                _watching = False
                return
            over = _take_out(before=time.monotonic() - LINGER)
        _close(over)


def _take_out(warehouse: Warehouse | None = None, before: float | None = None) -> list[WarehouseSession]:
    """Take idle sessions off the list, for the caller to close: all, or those of one warehouse, or those
    unused since `before`. Call it with `_guard` held."""
    meant = [
        one
        for one in _idle
        if (warehouse is None or one.is_of(warehouse)) and (before is None or one.since <= before)
    ]
    _idle[:] = [one for one in _idle if one not in meant]
    return [one.session for one in meant]


def _close(sessions: Sequence[WarehouseSession]) -> None:
    for session in sessions:
        session.close()
