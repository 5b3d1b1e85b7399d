"""What every warehouse promises of a batch: all of it or nothing, once, with exact counts."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.warehouses import (
    ORDERS,
    Yard,
    batch_to,
    counts,
    files_of,
    flow_of,
    layout_of,
    loader,
    no_spark,
    read_batch,
    tag_of,
)
from tidegauge.errors import OutputDisagrees
from tidegauge.model.mode import MODES, Mode, OutputKind

D = Decimal
NAMES = [field.name for field in ORDERS.fields]


def seen(yard: Yard) -> list[tuple[object, ...]]:
    return [
        (one, name, amount if amount is None else D(str(amount)), at)
        for one, name, amount, at in yard.contents("orders", NAMES)
    ]


def test_d1_merge_keeps_the_last_row_of_each_key_and_counts_what_it_did(warehouse: Yard) -> None:
    orders = loader(warehouse)
    first = orders.rows(ORDERS, [(1, "a", D("1.50"), 10), (2, "b", None, 11), (3, None, D("3.00"), 12)])
    assert counts(first) == (3, 3, 0, 0)
    second = orders.rows(
        ORDERS,
        [(1, "a", D("1.50"), 10), (2, "b", D("2.00"), 13), (4, "d", D("4.00"), 14)],
        [(4, "dd", D("4.00"), 15), (3, None, D("3.00"), 12)],
    )
    # 1 and 3 are as they were; 4 came twice.
    assert counts(second) == (5, 1, 1, 0)
    assert seen(warehouse) == [
        (1, "a", D("1.50"), 10),
        (2, "b", D("2.00"), 13),
        (3, None, D("3.00"), 12),
        (4, "dd", D("4.00"), 15),
    ]
    assert warehouse.staging_tables() == []


def test_merge_tells_null_from_a_value_both_ways(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [(1, None, None, 1), (2, "b", D("2.00"), 1)])
    assert counts(orders.rows(ORDERS, [(1, "", D("0.00"), 1), (2, None, None, 1)])) == (2, 0, 2, 0)
    assert seen_raw(warehouse) == [(1, "", 1), (2, None, 1)]
    assert counts(orders.rows(ORDERS, [(1, "", D("0.00"), 1), (2, None, None, 1)])) == (2, 0, 0, 0)


def seen_raw(yard: Yard) -> list[tuple[object, ...]]:
    return yard.contents("orders", ["id", "name", "at"])


def test_text_that_differs_only_in_case_or_blanks_is_another_text(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [(1, "a", None, 1), (2, "b", None, 1), (3, "é", None, 1)])
    changed = orders.rows(ORDERS, [(1, "A", None, 1), (2, "b ", None, 1), (3, "e\u0301", None, 1)])
    assert counts(changed) == (3, 0, 3, 0)
    assert seen_raw(warehouse) == [(1, "A", 1), (2, "b ", 1), (3, "e\u0301", 1)]


def test_append_takes_every_row_as_it_comes(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.APPEND)
    row = (1, "a", D("1.00"), 1)
    assert counts(orders.rows(ORDERS, [row, (2, "b", None, 1)], [row])) == (3, 3, 0, 0)
    assert counts(orders.rows(ORDERS, [row])) == (1, 1, 0, 0)
    assert len(seen(warehouse)) == 4


def test_b14_overwrite_makes_the_target_exactly_what_came(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.OVERWRITE)
    orders.rows(ORDERS, [(1, "a", None, 1), (2, "b", None, 1), (3, "c", None, 1)])
    receipt = orders.rows(
        ORDERS, [(2, "b", None, 1), (3, "c", None, 1)], [(3, "cc", None, 2), (4, "d", None, 2)]
    )
    assert counts(receipt) == (4, 1, 1, 1)
    assert seen_raw(warehouse) == [(2, "b", 1), (3, "cc", 2), (4, "d", 2)]
    assert counts(orders.rows(ORDERS, [])) == (0, 0, 0, 3)
    assert seen_raw(warehouse) == []


def test_overwrite_of_a_target_with_repeated_keys_is_exact_too(warehouse: Yard) -> None:
    warehouse.create("orders", ORDERS)
    names = warehouse.names("id", "name")
    warehouse.run(f"INSERT INTO {warehouse.at('orders')} {names} VALUES (1, 'x'), (1, 'y'), (7, 'z')")
    receipt = loader(warehouse, mode=Mode.OVERWRITE).rows(ORDERS, [(1, "a", None, 1), (2, "b", None, 1)])
    assert counts(receipt) == (2, 2, 0, 3)
    assert seen_raw(warehouse) == [(1, "a", 1), (2, "b", 1)]


@pytest.mark.shown_on("merge")
@pytest.mark.parametrize("mode", MODES[OutputKind.WAREHOUSE])
def test_a_batch_without_rows_is_committed_too(warehouse: Yard, mode: Mode) -> None:
    orders = loader(warehouse, mode=mode)
    assert counts(orders.rows(ORDERS)) == (0, 0, 0, 0)
    assert counts(orders.rows(ORDERS, [])) == (0, 0, 0, 0)
    assert counts(orders.rows(ORDERS, [(1, "a", None, 1)])) == (1, 1, 0, 0)


@pytest.mark.shown_on("merge")
@pytest.mark.parametrize("mode", MODES[OutputKind.WAREHOUSE])
def test_a_second_publish_of_a_tag_changes_nothing(warehouse: Yard, mode: Mode) -> None:
    orders = loader(warehouse, mode=mode)
    first = orders.rows(ORDERS, [(1, "a", None, 1)])
    orders.seq = 0
    assert orders.rows(ORDERS, [(1, "z", None, 9), (2, "b", None, 1)]) == first
    assert seen_raw(warehouse) == [(1, "a", 1)]
    assert warehouse.staging_tables() == []


def test_a_tag_with_another_window_disagrees(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [(1, "a", None, 1)])
    output = warehouse.output(orders.flow)
    staged = output.stage(read_batch(ORDERS, [(1, "b", None, 2)]), no_spark)
    for batch in (batch_to(5), batch_to(1, nulls=True)):
        with pytest.raises(OutputDisagrees, match="another window"):
            output.commit(tag_of(orders.flow, 1), batch, staged, layout=ORDERS, run_id="r")
    assert seen_raw(warehouse) == [(1, "a", 1)]


def test_a_batch_that_leaves_a_gap_disagrees(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [(1, "a", None, 1)])
    orders.seq = 2
    with pytest.raises(OutputDisagrees, match="its last batch there is 1"):
        orders.rows(ORDERS, [(2, "b", None, 1)])
    assert seen_raw(warehouse) == [(1, "a", 1)]


def test_the_receipt_is_what_publish_said(warehouse: Yard) -> None:
    orders = loader(warehouse)
    output = warehouse.output(orders.flow)
    assert output.receipt(tag_of(orders.flow, 1)) is None
    first = orders.rows(ORDERS, [(1, "a", None, 1)])
    second = orders.rows(ORDERS, [(1, "b", None, 1)])
    assert warehouse.output(orders.flow).receipt(tag_of(orders.flow, 1)) == first
    assert output.receipt(tag_of(orders.flow, 2)) == second
    assert output.receipt(tag_of(orders.flow, 3)) is None


def test_nothing_is_seen_before_publish_nor_after_discard(warehouse: Yard) -> None:
    flow = flow_of(warehouse)
    output = warehouse.output(flow)
    staged = output.stage(read_batch(ORDERS, [(1, "a", None, 1)]), no_spark)
    assert staged.rows == 1
    assert seen_raw(warehouse) == []
    assert output.is_empty()
    assert warehouse.staging_tables() == [staged.table]
    output.discard(staged)
    output.discard(staged)
    assert warehouse.staging_tables() == []


def test_files_of_a_lake_are_loaded_like_any_rows(warehouse: Yard, tmp_path: Path) -> None:
    orders = loader(warehouse)
    batch_data = files_of(
        tmp_path / "lake [1] 'é*?",
        ORDERS,
        [(1, "a", D("1.00"), 1), (2, "b", None, 1)],
        [(2, "bb", D("2.00"), 2)],
        [(2, "bbb", D("2.00"), 3), (3, "c", None, 3)],
    )
    assert counts(orders.load(batch_data)) == (5, 3, 0, 0)
    assert seen(warehouse) == [(1, "a", D("1.00"), 1), (2, "bbb", D("2.00"), 3), (3, "c", None, 3)]


def test_two_flows_cannot_write_one_table(warehouse: Yard) -> None:
    loader(warehouse).rows(ORDERS, [(1, "a", None, 1)])
    with pytest.raises(OutputDisagrees, match=r"belongs to the flow shop\.orders/load of the pipeline shop"):
        warehouse.output(flow_of(warehouse, name="other")).prepare()


def test_flows_of_one_schema_do_not_meet(warehouse: Yard) -> None:
    loader(warehouse).rows(ORDERS, [(1, "a", None, 1)])
    other = loader(warehouse, table="others", name="others/load")
    assert warehouse.output(other.flow).is_empty()
    assert counts(other.rows(ORDERS, [(1, "a", None, 1)])) == (1, 1, 0, 0)


def test_a_table_with_rows_of_somebody_else_is_not_empty(warehouse: Yard) -> None:
    output = warehouse.output(flow_of(warehouse))
    assert output.is_empty()
    assert output.layout() is None
    warehouse.create("orders", layout_of(("id", "bigint")))
    assert output.is_empty()
    warehouse.run(f"INSERT INTO {warehouse.at('orders')} VALUES (1)")
    assert not output.is_empty()


def test_metadata_columns_tell_the_run_and_the_moment(warehouse: Yard) -> None:
    orders = loader(warehouse, metadata_columns=True)
    orders.rows(ORDERS, [(1, "a", None, 1), (2, "b", None, 1)])
    orders.rows(ORDERS, [(1, "a", None, 1), (2, "c", None, 1)])
    told = warehouse.contents("orders", ["id", "_tidegauge_run_id"])
    assert told == [(1, "run1"), (2, "run2")]
    (first,), (second,) = warehouse.contents("orders", ["_tidegauge_loaded_at"])
    assert str(first) <= str(second)
    held = warehouse.output(orders.flow).layout()
    assert held is not None
    assert [one.name for one in held] == NAMES
