"""Histories: each version of a row with the time it held, whatever order the events come in."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.support.warehouses import ORDERS, Yard, counts, layout_of, loader
from tidegauge.errors import OutputDisagrees, OutputError
from tidegauge.model.mode import Mode
from tidegauge.model.spec import DeleteMode
from tidegauge.outputs.warehouse.warehouse import WarehouseColumn

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


GONE = layout_of(("id", "bigint"), ("valid_to", "bigint"))


def test_d13_a_deleted_row_ends_its_current_version_and_no_other(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2, deletes=DeleteMode.SOFT, metadata_columns=True)
    orders.rows(STATES, [(1, "new", 10), (2, "new", 11)], [(1, "paid", 20)])
    assert counts(orders.delete(GONE, [(1, 50), (9, 50)])) == (0, 0, 0, 1)
    ended = [(1, 10, 20, 0, "new"), (1, 20, 50, 0, "paid"), (2, 11, None, 1, "new")]
    assert history(warehouse) == ended
    runs = warehouse.contents("orders", ["id", "valid_from", "_tidegauge_run_id"])
    assert runs == [(1, 10, "run1"), (1, 20, "run2"), (2, 11, "run1")]
    assert counts(orders.delete(GONE, [(1, 60)])) == (0, 0, 0, 0)
    assert history(warehouse) == ended
    output = warehouse.output(orders.flow)
    assert "_tidegauge_deleted_at" not in {field.name for field in output.layout() or ()}
    shown = [row for batch in output.rows(STATES) for row in batch.to_pylist()]
    assert shown == [{"id": 2, "state": "new", "at": 11}]


def test_d13_a_row_that_comes_back_begins_a_version_and_the_gap_stays(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2, deletes=DeleteMode.SOFT)
    orders.rows(STATES, [(1, "new", 10)])
    orders.delete(GONE, [(1, 50)])
    assert counts(orders.rows(STATES, [(1, "new", 70)])) == (1, 1, 0, 0)
    both = [(1, 10, 50, 0, "new"), (1, 70, None, 1, "new")]
    assert history(warehouse) == both
    assert counts(orders.rows(STATES, [(1, "new", 80)])) == (1, 0, 0, 0)
    assert counts(orders.delete(GONE, [(1, 90)])) == (0, 0, 0, 1)
    assert counts(orders.rows(STATES, [(1, "new", 95)])) == (1, 1, 0, 0)
    assert history(warehouse) == [both[0], (1, 70, 90, 0, "new"), (1, 95, None, 1, "new")]


def test_d13_a_lake_that_is_loaded_again_opens_nothing_that_was_closed(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2, deletes=DeleteMode.SOFT)
    first = ([(1, "new", 10)], [(1, "new", 12)], [(1, "paid", 20)])
    orders.rows(STATES, *first)
    orders.delete(GONE, [(1, 50)])
    ended = [(1, 10, 20, 0, "new"), (1, 20, 50, 0, "paid")]
    for _ in range(2):
        orders.again()
        assert counts(orders.rows(STATES, *first)) == (3, 0, 0, 0)
        assert history(warehouse) == ended
    # What lies between is not known yet, and comes from before the end.
    assert counts(orders.rows(STATES, [(1, "sent", 30)])) == (1, 1, 1, 0)
    assert history(warehouse) == [ended[0], (1, 20, 30, 0, "paid"), (1, 30, 50, 0, "sent")]
    orders.rows(STATES, [(1, "new", 70)])
    # In the gap.
    assert counts(orders.rows(STATES, [(1, "lost", 60)])) == (1, 1, 0, 0)
    there = [
        ended[0],
        (1, 20, 30, 0, "paid"),
        (1, 30, 50, 0, "sent"),
        (1, 60, 70, 0, "lost"),
        (1, 70, None, 1, "new"),
    ]
    assert history(warehouse) == there
    assert counts(orders.rows(STATES, *first, [(1, "sent", 30)])) == (4, 0, 0, 0)
    assert history(warehouse) == there


def test_d13_a_version_never_ends_before_it_began(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2, deletes=DeleteMode.SOFT)
    orders.rows(STATES, [(1, "a", 10), (2, "b", 10), (3, "c", 10)])
    orders.delete(GONE, [(1, 9), (2, None), (3, 10)])
    ended = [(one, 10, 10, 0, word) for one, word in ((1, "a"), (2, "b"), (3, "c"))]
    assert history(warehouse) == ended
    orders.again()
    assert counts(orders.rows(STATES, [(1, "a", 10), (2, "b", 10)])) == (2, 0, 0, 0)
    assert history(warehouse) == ended
    orders.rows(STATES, [(1, "a", 11)])
    assert history(warehouse) == [ended[0], (1, 11, None, 1, "a"), *ended[1:]]


def test_d13_a_row_that_is_there_with_a_cursor_from_before_it_was_gone_is_current(warehouse: Yard) -> None:
    """Put back as it was and read by `lookback`, or dated in the past by whoever wrote it."""
    orders = loader(warehouse, mode=Mode.SCD2, deletes=DeleteMode.SOFT)
    orders.rows(STATES, [(1, "new", 10), (2, "new", 10)], [(1, "paid", 20)])
    orders.delete(GONE, [(1, 50), (2, 50)])
    assert counts(orders.rows(STATES, [(1, "paid", 20), (2, "sent", 45)])) == (2, 1, 2, 0)
    there = [
        (1, 10, 20, 0, "new"),
        (1, 20, None, 1, "paid"),
        (2, 10, 45, 0, "new"),
        (2, 45, None, 1, "sent"),
    ]
    assert history(warehouse) == there
    # It has come back by another row: then the gap is as it was seen.
    orders.delete(GONE, [(2, 60)])
    orders.rows(STATES, [(2, "sent", 70)])
    assert counts(orders.rows(STATES, [(2, "sent", 45)])) == (1, 0, 0, 0)
    assert history(warehouse)[2:] == [there[2], (2, 45, 60, 0, "sent"), (2, 70, None, 1, "sent")]


def test_d13_marks_of_an_older_version_are_closed_by_the_next_run(warehouse: Yard) -> None:
    """It marked every version of a deleted row, and left the last one current."""
    orders = loader(warehouse, mode=Mode.SCD2, deletes=DeleteMode.SOFT)
    orders.rows(STATES, [(1, "new", 10), (2, "new", 10)], [(1, "paid", 20)])
    house = warehouse.house()
    warehouse.run(
        house.add_column(
            warehouse.table("orders"), WarehouseColumn("_tidegauge_deleted_at", house.timestamp_type)
        )
    )
    warehouse.run(f"UPDATE {warehouse.at('orders')} SET {house.name('_tidegauge_deleted_at')} = {house.now}")
    keys = layout_of(("id", "bigint"))
    shown = [row["id"] for batch in warehouse.output(orders.flow).rows(keys) for row in batch.to_pylist()]
    assert shown == [1, 2], "what the source has no more is found among them"
    assert counts(orders.delete(GONE, [(1, 50)])) == (0, 0, 0, 1)
    orders.rows(STATES, [(1, "paid", 60)])
    assert history(warehouse) == [
        (1, 10, 20, 0, "new"),
        (1, 20, 50, 0, "paid"),
        (1, 60, None, 1, "paid"),
        (2, 10, None, 1, "new"),
    ]


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
