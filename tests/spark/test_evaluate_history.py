"""What a batch tells of the past, and what a pinned snapshot leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.moving import Row, Table, collected, delta_flow, moment, pinned, quick, raw
from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DeltaFlow, Evaluate
from tidegauge.model.mode import Mode
from tidegauge.transform.evaluate import evaluate_change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS = {"id": pa.int64(), "day": pa.string(), "state": pa.string(), "amount": pa.int64()}
OPEN = "SELECT id, day, amount * 2 AS amount FROM orders WHERE state = 'open'"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return quick(spark)


@pytest.fixture
def orders(session: SparkSession) -> Table:
    table = Table(session, ORDERS)
    table.commit(insert=[(1, "mon", "open", 10), (2, "mon", "open", 20), (3, "tue", "done", 30)])
    return table


def changes(frame: DataFrame, *columns: str) -> dict[Any, Any]:
    """By key: None for a delete, else the values of the columns. A key comes once."""
    rows = collected(frame)
    assert len({row["id"] for row in rows}) == len(rows)
    assert {row[CHANGE_TYPE] for row in rows} <= {"delete", "insert", "upsert"}
    return {
        row["id"]: None if row[CHANGE_TYPE] == "delete" else tuple(row[name] for name in columns)
        for row in rows
    }


def held(table: Table, rows: list[Row], **columns: pa.DataType) -> Callable[[], DataFrame]:
    """A target."""
    return lambda: Table(table.session, columns).frame(rows)


def merged(flow: DeltaFlow, table: Table, choice: Evaluate, after: int, **given: Any) -> DataFrame:
    moved = {flow.inputs[0].name: table.window(after, table.latest, afresh=given.pop("afresh", False))}
    return evaluate_change(flow, moved, table.session, given.pop("target", None), choice).rows


def events(frame: DataFrame) -> list[tuple[Any, ...]]:
    assert dict(frame.dtypes)[COMMIT_VERSION] == "bigint"
    assert dict(frame.dtypes)[COMMIT_TIMESTAMP] == "timestamp"
    rows = collected(frame)
    for row in rows:
        at: datetime = row[COMMIT_TIMESTAMP]
        assert at == moment(row[COMMIT_VERSION])
    return sorted((row[COMMIT_VERSION], row["id"], row[CHANGE_TYPE], row["amount"]) for row in rows)


def only_open(orders: DataFrame) -> DataFrame:
    return orders.where("state = 'open'").select("id", "amount", "day")


@pytest.mark.parametrize(
    "transform",
    [
        only_open,
        "SELECT id, amount, day FROM orders WHERE state = 'open'",
        "WITH w AS (SELECT * FROM orders) SELECT * FROM w WHERE state = 'open'",
    ],
    ids=["function", "sql", "star"],
)
def test_scd2_tells_every_change_of_the_window(orders: Table, transform: Any) -> None:
    orders.commit(update=[((1, "mon", "open", 10), (1, "mon", "open", 11))], insert=[(4, "x", "done", 1)])
    orders.commit(update=[((1, "mon", "open", 11), (1, "mon", "done", 11))], delete=[(4, "x", "done", 1)])
    orders.commit(insert=[(5, "wed", "open", 50)], delete=[(2, "mon", "open", 20)])
    orders.commit()
    orders.commit(delete=[(5, "wed", "open", 50)], insert=[(5, "wed", "open", 51)])
    flow = delta_flow(transform, "orders", mode=Mode.SCD2, sequence_by="day")
    found = evaluate_change(flow, {"orders": orders.window(1, 6)}, orders.session, None, Evaluate.ROWS).rows
    assert events(found) == [
        (2, 1, "upsert", 11),
        (3, 1, "delete", None),
        (4, 2, "delete", None),
        (4, 5, "upsert", 50),
        (6, 5, "upsert", 51),
    ]
    assert {row["day"] for row in collected(found) if row[CHANGE_TYPE] == "delete"} == {None}


def test_scd2_without_a_transform_and_with_nothing_left_of_a_window(orders: Table) -> None:
    orders.commit(delete=[(2, "mon", "open", 20)])
    for transform in (None, only_open):
        flow = delta_flow(transform, "orders", mode=Mode.SCD2, sequence_by="day")
        moved = {"orders": orders.window(1, 2)}
        found = evaluate_change(flow, moved, orders.session, None, Evaluate.ROWS).rows
        assert events(found) == [(2, 2, "delete", None)]
        empty = {"orders": orders.window(2, 2)}
        assert events(evaluate_change(flow, empty, orders.session, None, Evaluate.ROWS).rows) == []


def test_scd2_as_a_whole_is_one_step_from_the_current_rows(orders: Table) -> None:
    orders.commit()
    flow = delta_flow(
        "SELECT id, amount FROM orders WHERE id > 1",
        "orders",
        mode=Mode.SCD2,
        sequence_by="amount",
        surrogate_key="sk",
    )
    columns = {
        "sk": pa.string(),
        "id": pa.int64(),
        "amount": pa.int64(),
        "valid_from": pa.int64(),
        "valid_to": pa.int64(),
        "is_current": pa.bool_(),
    }
    rows = [
        ("a", 1, 10, 0, None, True),
        ("b", 2, 20, 1, None, True),
        ("c", 3, 29, 0, None, True),
        ("d", 3, 30, 0, 1, False),
        ("e", 9, 90, 0, 1, False),
    ]
    moved = {"orders": orders.window(1, 2, afresh=True)}
    found = evaluate_change(flow, moved, orders.session, held(orders, rows, **columns), Evaluate.ROWS).rows
    assert found.columns == ["id", "amount", CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP]
    assert events(found) == [(2, 1, "delete", None), (2, 3, "upsert", 30)]


def test_scd2_of_a_raw_feed_keeps_the_versions_that_the_transform_keeps(orders: Table) -> None:
    orders.commit(update=[((1, "mon", "open", 10), (1, "mon", "open", 11))], delete=[(2, "mon", "open", 20)])
    orders.commit()
    moved = {"orders": orders.window(1, 3, raw=True)}
    flow = delta_flow("SELECT * FROM orders", raw("orders"), mode=Mode.SCD2, sequence_by="amount")
    found = evaluate_change(flow, moved, orders.session, None, Evaluate.ROWS).rows
    assert events(found) == [(2, 1, "upsert", 11), (2, 2, "delete", 20)]
    flow = delta_flow(
        "SELECT id, amount FROM orders WHERE id = 2", raw("orders"), mode=Mode.SCD2, sequence_by="amount"
    )
    found = evaluate_change(flow, moved, orders.session, None, Evaluate.ROWS).rows
    assert events(found) == [(3, 2, "upsert", 20)]


def joined_days(orders: DataFrame, days: DataFrame) -> DataFrame:
    return orders.join(days, "day").select("id", "name")


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.SCD2])
@pytest.mark.parametrize(
    "transform",
    [joined_days, "SELECT o.id, d.name FROM orders o JOIN days d ON d.day = o.day WHERE o.amount > 0"],
    ids=["function", "sql"],
)
def test_a_row_whose_match_has_left_the_snapshot_since_goes_when_it_changes(
    orders: Table, transform: Any, mode: Mode
) -> None:
    days = Table(orders.session, {"day": pa.string(), "name": pa.string()})
    days.commit(insert=[("mon", "Monday"), ("tue", "Tuesday")])
    days.commit(delete=[("mon", "Monday")])
    orders.commit(
        update=[
            ((1, "mon", "open", 10), (1, "mon", "done", 10)),
            ((3, "tue", "done", 30), (3, "tue", "x", 30)),
        ],
        insert=[(2, "tue", "open", 21)],
        delete=[(2, "mon", "open", 20)],
    )
    flow = delta_flow(transform, "orders", pinned("days"), mode=mode)
    moved = {"orders": orders.window(1, 2), "days": days.pinned()}
    target = held(orders, [(1, "Monday", True)], id=pa.int64(), name=pa.string(), is_current=pa.bool_())
    found = evaluate_change(flow, moved, orders.session, target, Evaluate.ROWS).rows
    assert changes(found, "name") == {1: None, 2: ("Tuesday",), 3: ("Tuesday",)}
