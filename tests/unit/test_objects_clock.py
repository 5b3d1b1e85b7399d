from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tidegauge.storage import clock
from tidegauge.storage.clock import Clock
from tidegauge.storage.store import Store

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Far:
    """A store over the network whose clock, and the time since this machine started, the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, remote: bool = True) -> None:
        self.remote = remote
        self.time = NOON
        self.ran = 1000.0
        self.delay = 0.0
        self.asked = 0
        monkeypatch.setattr(clock, "steady", lambda: self.ran)

    def now(self) -> datetime:
        self.asked += 1
        told = self.time.replace(microsecond=0)  # as S3 does
        self.passes(self.delay)
        return told

    def passes(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self.ran += seconds


def clock_of(store: Far) -> Clock:
    return Clock(cast(Store, store))


def test_b9_the_wall_clock_has_no_part_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Far(monkeypatch)
    found = clock_of(store)
    assert found.now() == NOON

    def wrong(*_: Any) -> float:
        raise AssertionError("the wall clock was asked")

    monkeypatch.setattr(time, "time", wrong)
    store.passes(90)
    assert found.now() == NOON + timedelta(seconds=90)
    assert store.asked == 1


def test_the_store_is_asked_again_every_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Far(monkeypatch)
    found = clock_of(store)
    for _ in range(61):
        found.now()
        store.passes(30)
    assert store.asked == 4  # 0, 10, 20 and 30 minutes


def test_it_is_never_ahead_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Far(monkeypatch)
    store.passes(0.9)
    store.delay = 0.4
    found = clock_of(store)
    for seconds in (0, 1, 500, 200, 0.1, 700):
        store.passes(seconds)
        told = found.now()
        assert timedelta(0) <= store.time - told < timedelta(seconds=2)


def test_it_does_not_go_back_when_an_answer_is_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Far(monkeypatch)
    found = clock_of(store)
    told = [found.now()]
    for _ in range(40):
        store.passes(123.456)
        told.append(found.now())
    assert told == sorted(told)


def test_a_store_whose_clock_was_set_back_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Far(monkeypatch)
    found = clock_of(store)
    found.now()
    store.time -= timedelta(hours=1)
    store.passes(600)
    assert found.now() == store.time


def test_a_local_store_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Far(monkeypatch, remote=False)
    found = clock_of(store)
    found.now()
    found.now()
    assert store.asked == 2
