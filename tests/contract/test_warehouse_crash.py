"""A writer that dies at the worst moments: the batch is there with its tag, or neither is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.processes import KILLED, start
from tests.support.warehouses import ORDERS, Yard, batch_to, counts, loader, no_spark, read_batch, tag_of
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.outputs.warehouse.warehouse import WarehouseSession, WriteConflict

FIRST, SECOND = [(1, "a", None, 1)], [(1, "b", None, 2), (2, "c", None, 2)]


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


class DiesAtCommit:
    """A session that is killed before, or right after, the commit of what it wrote."""

    def __init__(self, session: WarehouseSession, *, sent: bool) -> None:
        self._session, self._sent, self._marked = session, sent, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, sql: str, values: Any = ()) -> int:
        self._marked |= "committed_at" in sql
        return self._session.run(sql, values)

    def commit(self) -> None:
        if self._marked:
            if self._sent:
                self._session.commit()
            die()
        self._session.commit()


def doomed(yard: Yard, when: str) -> Callable[[], None]:
    def work() -> None:
        orders = loader(yard)
        house = yard.house()
        output = yard.output(orders.flow)
        staged = output.stage(read_batch(ORDERS, SECOND), no_spark)
        if when == "staged":
            die()
        if when == "rows written":
            Commits.record = die  # type: ignore[method-assign]
        else:
            connect = house.connect
            output.target.warehouse.connect = lambda: DiesAtCommit(connect(), sent=when == "committed")  # type: ignore
        output.commit(tag_of(orders.flow, 2), batch_to(2), staged, layout=ORDERS, run_id="dead")

    return work


class IsOvertaken:
    """A session whose first change is refused, because another one was faster."""

    def __init__(self, session: WarehouseSession) -> None:
        self._session, self._late = session, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, sql: str, values: Any = ()) -> int:
        if self._late:
            self._late = False
            raise WriteConflict("another session was faster")
        return self._session.run(sql, values)


def test_b13_a_first_load_that_is_overtaken_and_killed_before_its_head_is_begun_again(
    warehouse: Yard,
) -> None:
    if warehouse.name in ("snowflake", "redshift"):
        pytest.skip("the one's stand-in lives in this process, the other's client of S3 survives no fork")
    orders = loader(warehouse)

    def work() -> None:
        Commits._insert_head = die  # type: ignore[method-assign]
        house = warehouse.house()
        Commits(house, warehouse.table("orders"), "shop", orders.flow.name).make(IsOvertaken(house.connect()))

    assert start(work).answer() is KILLED
    assert warehouse.rows(f"SELECT COUNT(*) FROM {warehouse.at('tidegauge_commits')}") == [(0,)]
    assert counts(orders.rows(ORDERS, FIRST)) == (1, 1, 0, 0)
    assert warehouse.contents("orders", ["id", "name"]) == [(1, "a")]
    assert warehouse.rows(f"SELECT COUNT(*) FROM {warehouse.at('tidegauge_commits')}") == [(2,)]


@pytest.mark.parametrize("when", ["staged", "rows written", "commit", "committed"])
def test_b13_d7_a_killed_writer_leaves_all_or_nothing(warehouse: Yard, when: str) -> None:
    if warehouse.name in ("snowflake", "redshift"):
        pytest.skip("the one's stand-in lives in this process, the other's client of S3 survives no fork")
    orders = loader(warehouse)
    orders.rows(ORDERS, FIRST)
    assert start(doomed(warehouse, when)).answer() is KILLED
    output = warehouse.output(orders.flow)
    receipt = output.receipt(tag_of(orders.flow, 2))
    if when == "committed":
        assert receipt is not None
        assert counts(receipt) == (2, 1, 1, 0)
    else:
        assert receipt is None
        assert warehouse.contents("orders", ["id", "name"]) == [(1, "a")]
    # Whoever comes next ends it, once.
    again = orders.rows(ORDERS, SECOND)
    assert counts(again) == (2, 1, 1, 0)
    assert warehouse.contents("orders", ["id", "name"]) == [(1, "b"), (2, "c")]
