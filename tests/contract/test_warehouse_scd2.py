"""Histories: each version of a row with the time it held, whatever order the events come in."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.warehouses import ORDERS, Yard, counts, layout_of, loader
from tidegauge.errors import OutputDisagrees, OutputError
from tidegauge.model.spec import Mode

pytestmark = pytest.mark.contract

STATES = layout_of(("id", "bigint"), ("state", "string", "varchar(20)"), ("at", "bigint"))


def history(yard: Yard) -> list[tuple[object, ...]]:
    columns = ["id", "valid_from", "valid_to", "is_current", "state"]
    return yard.contents("orders", columns, ["id", "valid_from"])


def test_each_change_closes_the_version_before(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2)
    assert counts(orders.rows(STATES, [(1, "new", 10), (2, "new", 11)])) == (2, 2, 0, 0)
    assert counts(orders.rows(STATES, [(1, "paid", 20)], [(1, "sent", 30)])) == (2, 2, 1, 0)
    assert history(warehouse) == [
        (1, 10, 20, 0, "new"),
        (1, 20, 30, 0, "paid"),
        (1, 30, None, 1, "sent"),
        (2, 11, None, 1, "new"),
    ]


def test_an_event_that_changes_nothing_makes_no_version(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2)
    orders.rows(STATES, [(1, "new", 10)])
    assert counts(orders.rows(STATES, [(1, "new", 20)], [(1, "new", 30)])) == (2, 0, 0, 0)
    assert history(warehouse) == [(1, 10, None, 1, "new")]


def test_d6_a_late_event_lands_between_its_neighbours(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2)
    orders.rows(STATES, [(1, "new", 10)], [(1, "sent", 30)])
    assert counts(orders.rows(STATES, [(1, "paid", 20)])) == (1, 1, 1, 0)
    assert counts(orders.rows(STATES, [(1, None, 5)])) == (1, 1, 0, 0)
    assert history(warehouse) == [
        (1, 5, 10, 0, None),
        (1, 10, 20, 0, "new"),
        (1, 20, 30, 0, "paid"),
        (1, 30, None, 1, "sent"),
    ]


def test_of_two_events_at_one_moment_the_later_one_counts(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2)
    orders.rows(STATES, [(1, "new", 10)], [(1, "paid", 20)])
    assert counts(orders.rows(STATES, [(1, "lost", 20)], [(1, "sent", 20)])) == (2, 0, 1, 0)
    assert history(warehouse) == [(1, 10, 20, 0, "new"), (1, 20, None, 1, "sent")]
    # What it becomes is what it was before: the version goes, and the one before is current again.
    assert counts(orders.rows(STATES, [(1, "new", 20)])) == (1, 0, 1, 1)
    assert history(warehouse) == [(1, 10, None, 1, "new")]


def test_d5_a_replay_under_another_tag_changes_nothing(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2)
    first = ([(1, "new", 10), (2, None, 10)], [(1, "paid", 20)], [(2, "x", 20)])
    orders.rows(STATES, *first)
    before = history(warehouse)
    assert counts(orders.rows(STATES, *first)) == (4, 0, 0, 0)
    assert history(warehouse) == before


def test_moments_keep_their_microseconds(warehouse: Yard) -> None:
    layout = layout_of(("id", "bigint"), ("state", "string", "varchar(20)"), ("at", "timestamp_ntz"))
    orders = loader(warehouse, mode=Mode.SCD2)
    first, second = datetime(2025, 3, 30, 2, 30, 0, 1), datetime(2025, 3, 30, 2, 30, 0, 2)
    orders.rows(layout, [(1, "a", first)], [(1, "b", second)])
    orders.rows(layout, [(1, "a", first)])
    stamps = warehouse.contents("orders", ["valid_from", "valid_to"], ["valid_from"])
    assert stamps == [
        ("2025-03-30 02:30:00.000001", "2025-03-30 02:30:00.000002"),
        ("2025-03-30 02:30:00.000002", None),
    ]


def test_a_history_needs_a_moment_in_every_row(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2)
    with pytest.raises(OutputError, match="id = 2 has no at"):
        orders.rows(STATES, [(1, "a", 1), (2, "b", None)])
    with pytest.raises(OutputError, match="no cursor column"):
        loader(warehouse, table="t", name="t", mode=Mode.SCD2).rows(
            layout_of(("id", "bigint"), cursor=None), [(1,)]
        )
    assert warehouse.staging_tables() == []


def test_a_table_without_history_does_not_become_one(warehouse: Yard) -> None:
    loader(warehouse).rows(ORDERS, [(1, "a", None, 1)])
    with pytest.raises(OutputDisagrees, match="no column valid_from"):
        loader(warehouse, mode=Mode.SCD2).rows(ORDERS, [(1, "b", None, 2)])
