"""Connections to warehouses that a run keeps open for a moment."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support import processes
from tidegauge.errors import OutputError, OutputUnreachable
from tidegauge.model.spec import Database, Engine
from tidegauge.outputs.warehouse import kept_sessions as kept
from tidegauge.outputs.warehouse.warehouse import Warehouse
from tidegauge.storage import kept_open
from tidegauge.storage.kept_open import SWITCH


class Session:
    """Counts, and is closed once."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.rolled_back = 0
        self.worn = False
        self.ended = False

    def rollback(self) -> None:
        self.rolled_back += 1

    def close(self) -> None:
        assert not self.closed.is_set()
        self.closed.set()


class House:
    """As much of a Warehouse as sessions are kept by."""

    keeps_sessions = True

    def __init__(self, path: str = "/w.duckdb") -> None:
        self.database = Database("w", Engine.DUCKDB, path=Path(path))
        self.made: list[Session] = []

    def connect(self) -> Session:
        self.made.append(Session())
        return self.made[-1]

    def is_worn(self, session: Session) -> bool:
        return session.worn

    def has_ended(self, session: Session) -> bool:
        return session.ended


def use(house: House, *faults: Exception) -> Session:
    with kept.session_of(cast("Warehouse", house)) as session:
        for fault in faults:
            raise fault
    return cast("Session", session)


def test_outside_a_run_a_session_is_closed_at_once() -> None:
    assert use(House()).closed.is_set()


def test_inside_a_run_it_is_used_again_until_the_outermost_ends() -> None:
    house, other = House(), House("/other.duckdb")
    with kept.kept_open():
        with kept.kept_open():
            first = use(house)
            assert first.rolled_back == 1
            assert use(house) is first
            assert use(other) is not first
        assert not first.closed.is_set()
    assert first.closed.is_set()
    assert other.made[0].closed.is_set()
    assert len(house.made) == 1


def test_two_never_have_one_session_at_a_time() -> None:
    house = cast("Warehouse", House())
    with kept.kept_open(), kept.session_of(house) as one, kept.session_of(house) as other:
        assert one is not other


def test_whoever_fails_leaves_no_session_behind() -> None:
    house = House()
    with kept.kept_open():
        with pytest.raises(OutputError):
            use(house, OutputError("no"))
        assert house.made[0].closed.is_set()
        assert use(house) is house.made[1]


def test_a_lost_connection_takes_those_beside_it_along() -> None:
    house = House()
    with kept.kept_open():
        with kept.session_of(cast("Warehouse", house)), kept.session_of(cast("Warehouse", house)):
            pass
        with pytest.raises(OutputUnreachable):
            use(house, OutputUnreachable("the server went away"))
        assert all(one.closed.is_set() for one in house.made)


def test_a_worn_session_is_closed_with_those_beside_it() -> None:
    house = House()
    with kept.kept_open():
        with kept.session_of(cast("Warehouse", house)) as session, kept.session_of(cast("Warehouse", house)):
            cast("Any", session).worn = True
        assert all(one.closed.is_set() for one in house.made)


def test_one_that_nobody_uses_is_let_go_while_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_open, "LINGER", 0.01)
    with kept.kept_open():
        assert use(House()).closed.wait(10)


def test_the_switch_closes_each_at_once_inside_a_run_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "off")
    with kept.kept_open():
        assert use(House()).closed.is_set()


def test_work_for_all_is_done_once_in_a_run_and_again_in_the_next() -> None:
    for _ in range(2):
        with kept.kept_open():
            assert kept.is_first("clear", "w", "main")
            assert not kept.is_first("clear", "w", "main")
            assert kept.is_first("clear", "w", "other")
    assert kept.is_first("clear", "w", "main")
    assert kept.is_first("clear", "w", "main")


def test_one_that_its_server_has_ended_is_not_used_again() -> None:
    house = House()
    with kept.kept_open():
        first = use(house)
        first.ended = True
        assert use(house) is not first
        assert first.closed.is_set()


def test_a_forked_process_neither_uses_nor_closes_what_its_parent_keeps_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_open, "LINGER", 600.0)
    closed: list[str] = []
    pool = kept_open.IdlePool[str](closed.append)
    pool.keep("here", "the parent's")

    def forked() -> tuple[str | None, list[str]]:
        taken = pool.take("here")
        pool.close()
        return taken, closed

    assert processes.run(forked) == (None, [])
    assert pool.take("here") == "the parent's"
    assert pool.take("here") is None
