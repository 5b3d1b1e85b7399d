"""Keys that are gone at the source: marked, or removed, once, and back again when they come back."""

from __future__ import annotations

import pytest

from tests.support.warehouses import ORDERS, Loader, Yard, counts, layout_of, loader
from tidegauge.errors import OutputDisagrees
from tidegauge.model.plan import Receipt
from tidegauge.model.spec import DeleteMode

KEYS = layout_of(("id", "bigint"))
ROWS = [(one, f"n{one}", None, one) for one in (1, 2, 3)]


def delete(orders: Loader, *keys: int) -> Receipt:
    return orders.delete(KEYS, [(key,) for key in keys])


def test_hard_removes_the_rows_and_counts_only_those_that_were_there(warehouse: Yard) -> None:
    orders = loader(warehouse, deletes=DeleteMode.HARD)
    orders.rows(ORDERS, ROWS)
    assert counts(delete(orders, 2, 3, 9)) == (0, 0, 0, 2)
    assert warehouse.contents("orders", ["id"]) == [(1,)]
    assert counts(delete(orders, 2)) == (0, 0, 0, 0)
    assert warehouse.staging_tables() == []


def test_soft_marks_a_row_once_and_takes_the_mark_back_when_it_comes_again(warehouse: Yard) -> None:
    orders = loader(warehouse, deletes=DeleteMode.SOFT)
    orders.rows(ORDERS, ROWS)
    assert counts(delete(orders, 2, 9)) == (0, 0, 0, 1)
    (marked,) = (row for row in warehouse.contents("orders", ["id", "_tidegauge_deleted_at"]) if row[1])
    assert marked[0] == 2
    assert counts(delete(orders, 2)) == (0, 0, 0, 0)
    assert marked in warehouse.contents("orders", ["id", "_tidegauge_deleted_at"])
    # As it was before, and yet a change: it is there again.
    assert counts(orders.rows(ORDERS, ROWS)) == (3, 0, 1, 0)
    assert all(row[1] is None for row in warehouse.contents("orders", ["id", "_tidegauge_deleted_at"]))


def test_a_tag_of_deletes_is_no_tag_of_rows(warehouse: Yard) -> None:
    orders = loader(warehouse, deletes=DeleteMode.HARD)
    orders.rows(ORDERS, ROWS)
    first = delete(orders, 1)
    orders.seq -= 1
    assert delete(orders, 2) == first
    orders.seq -= 1
    with pytest.raises(OutputDisagrees, match="another window"):
        orders.rows(ORDERS, ROWS)
    assert warehouse.contents("orders", ["id"]) == [(2,), (3,)]
