"""What a batch does to its target, for every mode and every way to evaluate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.moving import Row, Table, Window, collected, delta_flow, pinned, quick, raw
from tidegauge.errors import OutputError, TransformFailed
from tidegauge.model.delta_flow import CHANGE_TYPE, DeltaFlow, Evaluate, OnDelete
from tidegauge.model.mode import Mode
from tidegauge.transform.difference import HERE, diff_by_sides
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


def test_c5_rows_bring_what_is_left_of_many_changes(orders: Table) -> None:
    orders.commit(update=[((1, "mon", "open", 10), (1, "mon", "open", 11))], insert=[(4, "tue", "open", 40)])
    orders.commit(update=[((1, "mon", "open", 11), (1, "mon", "open", 12))], delete=[(4, "tue", "open", 40)])
    orders.commit(delete=[(2, "mon", "open", 20)])
    orders.commit(insert=[(2, "mon", "open", 22)], update=[((3, "tue", "done", 30), (3, "tue", "open", 30))])
    found = merged(delta_flow(OPEN, "orders"), orders, Evaluate.ROWS, 1)
    assert found.columns == ["id", "day", "amount", CHANGE_TYPE]
    assert changes(found, "amount") == {1: (24,), 2: (44,), 3: (60,)}


def test_a_row_that_moves_out_of_where_is_deleted_with_nothing_but_its_key(orders: Table) -> None:
    orders.commit(update=[((1, "mon", "open", 10), (1, "mon", "done", 10))])
    found = collected(merged(delta_flow(OPEN, "orders"), orders, Evaluate.ROWS, 1))
    assert found == [{"id": 1, "day": None, "amount": None, CHANGE_TYPE: "delete"}]


def test_without_a_transform_the_rows_are_those_of_the_input(orders: Table) -> None:
    orders.commit(delete=[(3, "tue", "done", 30)], insert=[(9, "wed", "open", 90)])
    assert changes(merged(delta_flow(None, "orders"), orders, Evaluate.ROWS, 1), "amount") == {
        3: None,
        9: (90,),
    }


def test_the_first_load_is_the_whole_without_any_difference(orders: Table) -> None:
    found = merged(delta_flow(OPEN, "orders"), orders, Evaluate.ROWS, 1, afresh=True)
    assert changes(found, "amount") == {1: (20,), 2: (40,)}


@pytest.mark.parametrize("choice", [Evaluate.ROWS, Evaluate.KEYS, Evaluate.WHOLE])
def test_what_is_read_afresh_is_written_as_a_difference(orders: Table, choice: Evaluate) -> None:
    target = held(
        orders,
        [(1, "mon", 20), (2, "mon", 41), (7, "sun", 1)],
        id=pa.int64(),
        day=pa.string(),
        amount=pa.int64(),
    )
    found = merged(delta_flow(OPEN, "orders"), orders, choice, 1, afresh=True, target=target)
    assert changes(found, "day", "amount") == {2: ("mon", 40), 7: None}


def test_a_whole_is_compared_through_maps_structs_nan_and_null(session: SparkSession) -> None:
    odd = {
        "id": pa.int64(),
        "tags": pa.map_(pa.string(), pa.map_(pa.string(), pa.int64())),
        "more": pa.list_(pa.struct([("m", pa.map_(pa.int64(), pa.string())), ("n", pa.float64())])),
        "note": pa.string(),
    }
    nan = float("nan")
    same = [
        (1, [("a", [("x", 1), ("y", 2)]), ("b", [])], [{"m": [(1, "i"), (2, "j")], "n": nan}], None),
        (2, None, None, "é"),
        (3, [], [None, {"m": None, "n": 0.5}], ""),
    ]
    other = [
        (1, [("b", []), ("a", [("y", 2), ("x", 1)])], [{"m": [(2, "j"), (1, "i")], "n": nan}], None),
        *same[1:],
    ]
    table = Table(session, odd)
    table.commit(insert=[*same, (4, [("a", [])], [], None), (5, None, None, None), (6, [], [], "n")])
    target = held(
        table, [*other, (4, [("a", [("x", 1)])], [], None), (5, None, None, "x"), (6, [], None, "n")], **odd
    )
    found = merged(delta_flow(None, "t"), table, Evaluate.WHOLE, 1, target=target)
    assert set(changes(found)) == {4, 5, 6}


def test_a_whole_with_new_columns_and_wider_types_writes_only_what_differs(orders: Table) -> None:
    target = held(orders, [(1, 10), (2, 21)], id=pa.int32(), amount=pa.int32())
    flow = delta_flow(
        "SELECT id, amount, CASE WHEN id = 3 THEN 'new' END AS note FROM orders WHERE id < 4", "orders"
    )
    found = merged(flow, orders, Evaluate.WHOLE, 1, target=target)
    assert changes(found, "amount", "note") == {2: (20, None), 3: (30, "new")}


def test_d1_a_key_that_comes_twice_stays_twice_for_the_output_to_refuse(orders: Table) -> None:
    orders.commit(insert=[(1, "mon", "open", 11)])
    target = held(orders, [(1, 10)], id=pa.int64(), amount=pa.int64())
    flow = delta_flow("SELECT id, amount FROM orders WHERE id = 1", "orders")
    found = collected(merged(flow, orders, Evaluate.WHOLE, 2, target=target))
    assert sorted(row["amount"] for row in found) == [10, 11]


def test_d2_a_null_key_is_left_in_for_the_output_to_refuse(orders: Table) -> None:
    orders.commit(insert=[(None, "mon", "open", 1)])
    target = held(orders, [(1, 10)], id=pa.int64(), amount=pa.int64())
    flow = delta_flow("SELECT id, amount FROM orders", "orders")
    for choice in (Evaluate.ROWS, Evaluate.WHOLE):
        assert None in changes(merged(flow, orders, choice, 1, target=target))


def test_a_target_without_its_key_is_told(orders: Table) -> None:
    target = held(orders, [(10,)], amount=pa.int64())
    with pytest.raises(OutputError, match="the target has no column id"):
        merged(delta_flow(OPEN, "orders"), orders, Evaluate.WHOLE, 1, target=target)


def test_a_delete_in_the_result_is_obeyed_and_other_feed_columns_are_not_kept(orders: Table) -> None:
    text = """SELECT id, amount, 7 AS _commit_version,
                     CASE WHEN state = 'done' THEN 'delete' ELSE 'insert' END AS _change_type FROM orders"""
    orders.commit(insert=[(4, "tue", "done", 40), (5, "tue", "open", 50)])
    target = held(orders, [(1, 10), (3, 30)], id=pa.int64(), amount=pa.int64())
    by_rows = merged(delta_flow(text, "orders"), orders, Evaluate.ROWS, 1)
    assert by_rows.columns == ["id", "amount", CHANGE_TYPE]
    assert changes(by_rows, "amount") == {4: None, 5: (50,)}
    whole = merged(delta_flow(text, "orders"), orders, Evaluate.WHOLE, 1, target=target)
    assert changes(whole, "amount") == {2: (20,), 3: None, 5: (50,)}


def test_c5_a_raw_feed_gives_the_last_change_of_a_key(orders: Table) -> None:
    orders.commit(update=[((1, "mon", "open", 10), (1, "mon", "open", 11))], delete=[(2, "mon", "open", 20)])
    # As RESTORE does it: a delete and an insert in one version.
    orders.commit(delete=[(3, "tue", "done", 30)], insert=[(3, "tue", "done", 31), (2, "mon", "open", 21)])
    orders.commit(delete=[(1, "mon", "open", 11)])
    flow = delta_flow("SELECT * FROM orders", raw("orders"))
    moved = {"orders": orders.window(1, 4, raw=True)}
    found = evaluate_change(flow, moved, orders.session, None, Evaluate.ROWS).rows
    assert found.columns == [*ORDERS, CHANGE_TYPE]
    assert changes(found, "amount") == {1: None, 2: (21,), 3: (31,)}
    plain = delta_flow("SELECT id, amount FROM orders WHERE _change_type = 'insert'", raw("orders"))
    found = evaluate_change(plain, moved, orders.session, None, Evaluate.ROWS).rows
    assert changes(found, "amount") == {2: (21,), 3: (31,)}


def test_append_takes_every_version_and_refuses_a_delete(orders: Table) -> None:
    orders.commit(update=[((1, "mon", "open", 10), (1, "mon", "open", 11))])
    orders.commit(update=[((1, "mon", "open", 11), (1, "mon", "open", 10))], insert=[(8, "mon", "done", 80)])
    orders.commit(delete=[(2, "mon", "open", 20), (3, "tue", "done", 30)])
    moved = {"orders": orders.window(1, 4)}
    flow = delta_flow(OPEN, "orders", mode=Mode.APPEND, key=())
    change = evaluate_change(flow, moved, orders.session, None, Evaluate.ROWS)
    assert sorted(row["amount"] for row in collected(change.rows)) == [20, 22]
    assert change.refused is not None
    assert [row["id"] for row in collected(change.refused)] == [2]
    easy = delta_flow(OPEN, "orders", mode=Mode.APPEND, key=(), on_delete=OnDelete.IGNORE)
    assert evaluate_change(easy, moved, orders.session, None, Evaluate.ROWS).refused is None
    with pytest.raises(TransformFailed, match="`append` cannot take back"):
        evaluate_change(flow, moved, orders.session, None, Evaluate.WHOLE)


def test_append_refuses_what_the_transform_calls_deleted(orders: Table) -> None:
    text = "SELECT id, CASE WHEN state = 'done' THEN 'delete' END AS _change_type FROM orders"
    flow = delta_flow(text, "orders", mode=Mode.APPEND, key=())
    change = evaluate_change(flow, {"orders": orders.window(0, 1)}, orders.session, None, Evaluate.ROWS)
    assert change.rows.columns == ["id"]
    assert sorted(row["id"] for row in collected(change.rows)) == [1, 2]
    assert change.refused is not None
    assert collected(change.refused) == [{"id": 3}]


def test_overwrite_is_the_whole(orders: Table) -> None:
    flow = delta_flow(OPEN, "orders", mode=Mode.OVERWRITE, key=())
    change = evaluate_change(flow, {"orders": orders.window(0, 1)}, orders.session, None, Evaluate.WHOLE)
    assert sorted(row["amount"] for row in collected(change.rows)) == [20, 40]
    assert change.rows.columns == ["id", "day", "amount"]


@pytest.mark.parametrize("choice", [Evaluate.ROWS, Evaluate.WHOLE])
def test_every_partition_that_a_change_touches_is_computed_anew(orders: Table, choice: Evaluate) -> None:
    orders.commit(insert=[(5, "wed", "open", 50)])
    # One row leaves monday for sunday, and tuesday is emptied.
    orders.commit(update=[((1, "mon", "open", 10), (1, "sun", "open", 10))], delete=[(3, "tue", "done", 30)])
    text = "SELECT upper(day) AS part, id, amount FROM orders"
    flow = delta_flow(text, "orders", mode=Mode.REPLACE_PARTITIONS, key=(), partition_by=("part",))
    before = [("MON", 1, 10), ("MON", 2, 20), ("TUE", 3, 30), ("WED", 5, 50)]
    target = held(orders, before, part=pa.string(), id=pa.int64(), amount=pa.int64())
    change = evaluate_change(flow, {"orders": orders.window(2, 3)}, orders.session, target, choice)
    assert change.touched is not None
    assert change.rows.columns == ["part", "id", "amount"]
    assert sorted(row["part"] for row in collected(change.touched)) == ["MON", "SUN", "TUE"]
    assert sorted((row["part"], row["id"]) for row in collected(change.rows)) == [("MON", 2), ("SUN", 1)]


def test_partitions_are_all_written_where_there_is_no_target_or_another_schema(orders: Table) -> None:
    flow = delta_flow(None, "orders", mode=Mode.REPLACE_PARTITIONS, key=(), partition_by=("day",))
    moved = {"orders": orders.window(0, 1, afresh=True)}
    for target in (None, held(orders, [("sun", 1)], day=pa.string(), id=pa.int64())):
        change = evaluate_change(flow, moved, orders.session, target, Evaluate.ROWS)
        assert change.touched is not None
        days = {row["day"] for row in collected(change.touched)}
        assert days == {"mon", "tue"} | ({"sun"} if target else set())
        assert len(collected(change.rows)) == 3


def test_what_is_used_twice_is_kept_for_the_caller_to_let_go(orders: Table) -> None:
    orders.commit(insert=[(4, "tue", "open", 40)], delete=[(2, "mon", "open", 20)])
    reads: list[str] = []

    class Counted(Window):
        def came(self) -> DataFrame:
            reads.append("came")
            return super().came()

    keep: list[DataFrame] = []
    moved = {"orders": Counted(orders, 1, 2, False, False)}
    change = evaluate_change(
        delta_flow(OPEN, "orders"), moved, orders.session, None, Evaluate.ROWS, cached=keep
    )
    assert changes(change.rows, "amount") == {2: None, 4: (80,)}
    assert reads == ["came"]
    (both,) = keep
    assert sorted(row["id"] for row in collected(both)) == [2, 4]


def test_rows_join_a_pinned_snapshot_as_it_is(orders: Table) -> None:
    days = Table(orders.session, {"day": pa.string(), "name": pa.string()})
    days.commit(insert=[("mon", "Monday")])
    orders.commit(insert=[(4, "tue", "open", 40), (5, "mon", "open", 50)])
    text = "SELECT o.id, d.name FROM orders o LEFT JOIN days d ON d.day = o.day; -- the end"
    flow = delta_flow(text, "orders", pinned("days"))
    moved = {"orders": orders.window(1, 2), "days": days.pinned()}
    found = evaluate_change(flow, moved, orders.session, None, Evaluate.ROWS).rows
    assert changes(found, "name") == {4: (None,), 5: ("Monday",)}


def test_a_copy_brings_what_is_another_than_before_and_each_key_that_went_once(orders: Table) -> None:
    both = orders.session.sql(
        "SELECT * FROM VALUES (1, 'a', map('x', 0.0D), true), (1, 'b', map('x', 0.0D), false),"
        " (2, NULL, NULL, true), (2, NULL, NULL, false), (3, 'c', NULL, false), (3, 'd', NULL, false),"
        " (4, 'e', NULL, true), (5, 'f', NULL, true), (5, 'g', NULL, true), (NULL, 'h', NULL, true),"
        " (6, 'i', map('x', 1.0D), true), (6, 'i', map('x', 2.0D), false), (7, 'j', NULL, true),"
        f" (7, 'k', NULL, true), (7, 'j', NULL, false), (7, 'k', NULL, false) AS v(id, word, m, {HERE})"
    )
    found = diff_by_sides(both, ["id"]).select("id", "word", "_change_type").collect()
    rows = [
        (1, "a", "upsert"),
        (3, None, "delete"),
        (4, "e", "insert"),
        (5, "f", "insert"),
        (5, "g", "insert"),
        (None, "h", "insert"),
        (6, "i", "upsert"),
        (7, "j", "upsert"),
        (7, "k", "upsert"),
    ]
    assert sorted(map(tuple, found), key=str) == sorted(rows, key=str)
    every = diff_by_sides(both, ["id"], same=True).select("id", "word", "_change_type").collect()
    assert sorted(map(tuple, every), key=str) == sorted([*rows, (2, None, "upsert")], key=str)


def test_c10_a_null_that_goes_and_never_came_out_is_nothing(orders: Table) -> None:
    orders.commit(insert=[(None, "mon", "open", 1), (8, None, "open", 1)])
    orders.commit(delete=[(None, "mon", "open", 1), (8, None, "open", 1)])
    flows = [
        delta_flow("SELECT id, sum(amount) AS n FROM orders GROUP BY id HAVING id IS NOT NULL", "orders"),
        delta_flow("SELECT id, day, amount FROM orders", "orders", key=("id", "day")),
        delta_flow(None, "orders", key=("id", "day")),
    ]
    for flow, choice in zip(flows, (Evaluate.KEYS, Evaluate.ROWS, Evaluate.ROWS), strict=True):
        found = collected(merged(flow, orders, choice, 2))
        assert {row["id"] for row in found} <= {8}, flow
        assert all(None not in [row[name] for name in flow.output.key] for row in found), flow


@pytest.mark.parametrize(
    "transform",
    [None, "SELECT id, amount FROM orders", "SELECT id, amount FROM orders WHERE state <> 'gone'"],
    ids=["copy", "projection", "filter"],
)
@pytest.mark.parametrize("pins", [False, True])
def test_d10_a_key_that_is_new_by_its_rows_is_asked_for_in_the_whole(
    orders: Table, transform: str | None, pins: bool
) -> None:
    days = Table(orders.session, {"day": pa.string()})
    days.commit(insert=[("mon",)])
    if pins and transform is not None:
        transform = transform.replace("orders", "orders LEFT SEMI JOIN days ON orders.day = days.day")
    pins = pins and transform is not None
    flow = delta_flow(transform, "orders", *([pinned("days")] if pins else []))
    orders.commit(insert=[(1, "mon", "open", 11), (9, "mon", "open", 90)])
    pin = {"days": days.pinned()} if pins else {}
    change = evaluate_change(
        flow, {"orders": orders.window(1, 2), **pin}, orders.session, None, Evaluate.ROWS
    )
    assert {(row["id"], row[CHANGE_TYPE]) for row in collected(change.rows)} == {(1, "insert"), (9, "insert")}
    assert change.recompute_all_keys is pins
    asked = orders.session.sql("SELECT * FROM VALUES (1L), (9L), (7L) AS v(id)")
    assert change.recompute_keys is not None
    found = sorted(
        (row["id"], row["amount"], row[CHANGE_TYPE]) for row in collected(change.recompute_keys(asked))
    )
    assert found == [(1, 10, "upsert"), (1, 11, "upsert"), (7, None, "delete"), (9, 90, "upsert")]


def test_d10_a_key_that_is_proven_is_not_asked_for(orders: Table) -> None:
    orders.commit(insert=[(9, "mon", "open", 90)])

    def doubled(orders: DataFrame) -> DataFrame:
        return orders.selectExpr("id", "amount * 2 AS amount")

    def another(orders: DataFrame) -> DataFrame:
        return orders.selectExpr("id + 1 AS id", "amount")

    for transform, unique, sure in (
        (None, ("ID",), True),
        (None, ("id", "day"), False),
        (OPEN, ("id",), True),
        ("WITH w AS (SELECT o.id AS x, o.* FROM orders o) SELECT x AS id FROM w", ("id",), True),
        ("SELECT id + 0 AS id FROM orders", ("id",), False),
        ("SELECT amount AS id FROM orders", ("id",), False),
        (doubled, ("id",), True),
        (another, ("id",), False),
    ):
        flow = delta_flow(transform, "orders")
        moved = {"orders": Window(orders, 1, 2, False, False, unique)}
        change = evaluate_change(flow, moved, orders.session, None, Evaluate.ROWS)
        assert (change.recompute_keys is None) is sure, transform
