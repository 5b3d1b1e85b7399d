"""A target and what was committed to it: dropped, emptied, of another mode; how a full refresh fills it."""

from __future__ import annotations

import pytest

from tests.support.warehouses import (
    ORDERS,
    Loader,
    Yard,
    batch_to,
    counts,
    flow_of,
    loader,
    no_spark,
    read_batch,
    tag_of,
)
from tidegauge.errors import OutputDisagrees
from tidegauge.model.batch_data import BatchRows, TruncateTarget
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Batch, Receipt
from tidegauge.model.position import Window
from tidegauge.model.spec import TableFlow
from tidegauge.outputs.warehouse.commits import Commits

A, B, C = (1, "a", None, 1), (2, "b", None, 2), (3, "c", None, 3)


# MariaDB commits whatever was open before it makes or drops a table.
pytestmark = pytest.mark.shown_on("sqlite", "postgres", "mariadb")


def begin(
    yard: Yard, flow: TableFlow, epoch: int, continues: tuple[int, int] | None = None, *, empty: bool = False
) -> None:
    yard.output(flow).open_epoch("shop", flow.name, epoch, continues, "why", empty=empty)


def drop(yard: Yard, name: str = "orders") -> None:
    yard.run(f"DROP TABLE {yard.at(name)}")


def empty(yard: Yard, flow: TableFlow, seq: int, epoch: int = 0) -> Receipt:
    """As the engine does it for a source that has no row."""
    output = yard.output(flow)
    staged = output.stage(TruncateTarget(ORDERS), no_spark)
    batch = Batch((Window(None, None),), rows=0, rereads=True, empties_output=True)
    return output.commit(tag_of(flow, seq, epoch), batch, staged, layout=ORDERS, run_id="r")


# --- D9: what is gone


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.APPEND])
def test_d9_a_dropped_table_is_refused_and_never_made_anew(warehouse: Yard, mode: Mode) -> None:
    orders = loader(warehouse, mode=mode)
    output = warehouse.output(orders.flow)
    output.prepare()
    output.is_open(0, kept=True)
    orders.rows(ORDERS, [A, B])
    output.is_open(0, kept=True)
    drop(warehouse)
    with pytest.raises(OutputDisagrees, match="is gone") as caught:
        output.is_open(0, kept=True)
    assert "run --select shop.orders/load --full-refresh" in str(caught.value.hint)
    with pytest.raises(OutputDisagrees, match="is gone"):
        orders.rows(ORDERS, [C])
    assert warehouse.house().columns(warehouse.house().connect(), warehouse.table("orders")) is None


def test_d9_what_a_life_continues_has_to_be_there_too(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [A, B])
    begin(warehouse, orders.flow, 1, (0, 1))
    begin(warehouse, orders.flow, 2, (1, 0))
    output = warehouse.output(orders.flow)
    output.is_open(2, kept=True)
    drop(warehouse)
    with pytest.raises(OutputDisagrees, match="is gone"):
        output.is_open(2, kept=True)


@pytest.mark.parametrize("refresh", [True, False])
def test_d9_a_life_that_begins_at_the_beginning_makes_the_table_anew(warehouse: Yard, refresh: bool) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [A, B])
    drop(warehouse)
    begin(warehouse, orders.flow, 1, empty=refresh)
    warehouse.output(orders.flow).is_open(1, kept=True)
    Loader(warehouse, orders.flow, epoch=1).rows(ORDERS, [A, B, C])
    assert warehouse.contents("orders", ["id"]) == [(1,), (2,), (3,)]
    warehouse.output(orders.flow).is_open(1, kept=True)


def test_d9_rows_that_a_person_asks_for_may_come_into_a_new_table(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [A, B])
    drop(warehouse)
    batch_data = read_batch(ORDERS, [C])
    orders.load(BatchRows(batch_data.layout, splits=batch_data.splits, anew=True))
    assert warehouse.contents("orders", ["id"]) == [(3,)]


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.SCD2, Mode.OVERWRITE])
def test_d9_a_table_that_somebody_emptied_is_refused(warehouse: Yard, mode: Mode) -> None:
    orders = loader(warehouse, mode=mode)
    orders.rows(ORDERS, [A, B])
    warehouse.run(f"DELETE FROM {warehouse.at('orders')}")
    with pytest.raises(OutputDisagrees, match=r"is empty, and 2 rows should be there"):
        warehouse.output(orders.flow).is_open(0, kept=True)


def test_d9_rows_that_were_appended_may_be_taken_away(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.APPEND)
    orders.rows(ORDERS, [A, B])
    warehouse.run(f"DELETE FROM {warehouse.at('orders')}")
    warehouse.output(orders.flow).is_open(0, kept=True)
    orders.rows(ORDERS, [C])
    assert warehouse.contents("orders", ["id"]) == [(3,)]


def test_d12_a_table_that_was_emptied_after_its_source_is_right(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.OVERWRITE)
    orders.rows(ORDERS, [A, B])
    assert counts(empty(warehouse, orders.flow, 2)) == (0, 0, 0, 2)
    assert warehouse.contents("orders", ["id"]) == []
    warehouse.output(orders.flow).is_open(0, kept=True)
    assert counts(empty(warehouse, orders.flow, 2)) == (0, 0, 0, 2), "the same batch, and not a second one"
    orders.seq = 2
    orders.rows(ORDERS, [])
    orders.rows(ORDERS, [A])
    assert warehouse.contents("orders", ["id"]) == [(1,)]


def test_d9_tags_of_an_older_version_are_kept_up(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [A])
    name = warehouse.house().name("shape")
    warehouse.run(f"ALTER TABLE {warehouse.at('tidegauge_commits')} DROP COLUMN {name}")
    warehouse.output(orders.flow).is_open(0, kept=True)
    orders.rows(ORDERS, [B])
    warehouse.output(orders.flow).is_open(0, kept=True)
    assert [row[0] for row in warehouse.contents("tidegauge_commits", ["shape"], ["seq"])] == [
        None,
        None,
        'merge ["id"]',
    ]
    drop(warehouse)
    with pytest.raises(OutputDisagrees, match="is gone"):
        warehouse.output(orders.flow).is_open(0, kept=True)


# --- D9: another mode


CHANGES = [
    (Mode.MERGE, Mode.SCD2),
    (Mode.SCD2, Mode.MERGE),
    (Mode.APPEND, Mode.MERGE),
    (Mode.MERGE, Mode.APPEND),
    (Mode.SCD2, Mode.OVERWRITE),
]
UPDATED = (1, "z", None, 4)


@pytest.mark.parametrize(("before", "now"), CHANGES)
def test_d9_another_mode_is_refused_and_a_full_refresh_makes_the_table_anew(
    warehouse: Yard, before: Mode, now: Mode
) -> None:
    loader(warehouse, mode=before).rows(ORDERS, [A, B])
    flow = flow_of(warehouse, mode=now)
    output = warehouse.output(flow)
    with pytest.raises(OutputDisagrees, match=f"filled in mode {before}, and .* mode {now}") as caught:
        output.is_open(0, kept=True)
    assert "--full-refresh" in str(caught.value.hint)
    begin(warehouse, flow, 1, empty=True)
    output.is_open(1, kept=True)
    assert warehouse.contents("orders", ["id"]) == [(1,), (2,)], "until the first batch is there"
    after = Loader(warehouse, flow, epoch=1)
    if warehouse.name == "snowflake":
        with pytest.raises(OutputDisagrees, match="cannot be made anew together") as caught:
            after.rows(ORDERS, [A, C])
        assert "drop the table, then run again" in str(caught.value.hint)
        assert warehouse.contents("orders", ["id"]) == [(1,), (2,)]
        drop(warehouse)
        after.seq = 0
    after.rows(ORDERS, [A, C])
    assert warehouse.contents("orders", ["id"]) == [(1,), (3,)]
    after.rows(ORDERS, [UPDATED])
    shown = {
        Mode.SCD2: [(1, "a"), (1, "z"), (3, "c")],
        Mode.APPEND: [(1, "a"), (1, "z"), (3, "c")],
        Mode.MERGE: [(1, "z"), (3, "c")],
        Mode.OVERWRITE: [(1, "z")],
    }
    assert warehouse.contents("orders", ["id", "name"]) == shown[now]
    there = {field.name for field in output.layout() or ()}
    assert there == {"id", "name", "amount", "at"}
    output.is_open(1, kept=True)


def test_merge_and_overwrite_go_on_with_each_other(warehouse: Yard) -> None:
    loader(warehouse, mode=Mode.MERGE).rows(ORDERS, [A, B])
    flow = flow_of(warehouse, mode=Mode.OVERWRITE)
    warehouse.output(flow).is_open(0, kept=True)
    Loader(warehouse, flow, seq=1).rows(ORDERS, [B, C])
    assert warehouse.contents("orders", ["id"]) == [(2,), (3,)]


# --- D11: a full refresh


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.APPEND, Mode.SCD2])
def test_d11_the_old_rows_go_with_the_first_batch_and_not_before(warehouse: Yard, mode: Mode) -> None:
    orders = loader(warehouse, mode=mode)
    orders.rows(ORDERS, [A, B])
    begin(warehouse, orders.flow, 1, empty=True)
    output = warehouse.output(orders.flow)
    assert output.shows_earlier_rows(1)
    assert warehouse.contents("orders", ["id"]) == [(1,), (2,)]
    after = Loader(warehouse, orders.flow, epoch=1)
    assert counts(after.rows(ORDERS, [(2, "B", None, 2), C])) == (2, 2, 0, 0)
    assert not output.shows_earlier_rows(1)
    assert warehouse.contents("orders", ["id", "name"]) == [(2, "B"), (3, "c")]
    after.rows(ORDERS, [A])
    begin(warehouse, orders.flow, 1, empty=True)
    assert warehouse.contents("orders", ["id", "name"]) == [(1, "a"), (2, "B"), (3, "c")]
    output.is_open(1, kept=True)


def test_d11_a_refresh_of_a_source_without_rows_empties_the_target(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [A, B])
    begin(warehouse, orders.flow, 1, empty=True)
    empty(warehouse, orders.flow, 1, epoch=1)
    assert warehouse.contents("orders", ["id"]) == []
    warehouse.output(orders.flow).is_open(1, kept=True)
    assert not warehouse.output(orders.flow).shows_earlier_rows(1)


@pytest.mark.parametrize("continues", [None, (1, 0)])
def test_d11_a_life_after_a_refresh_that_had_no_batch_still_empties(
    warehouse: Yard, continues: tuple[int, int] | None
) -> None:
    orders = loader(warehouse, mode=Mode.APPEND)
    orders.rows(ORDERS, [A, B])
    begin(warehouse, orders.flow, 1, empty=True)
    begin(warehouse, orders.flow, 2, continues)
    assert warehouse.output(orders.flow).shows_earlier_rows(2)
    Loader(warehouse, orders.flow, epoch=2).rows(ORDERS, [A, C])
    assert warehouse.contents("orders", ["id"]) == [(1,), (3,)]


def test_b17_a_late_batch_of_the_old_life_neither_empties_nor_fills(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [A, B])
    output = warehouse.output(orders.flow)
    late = output.stage(read_batch(ORDERS, [(1, "late", None, 9)]), no_spark)
    begin(warehouse, orders.flow, 1, empty=True)
    with pytest.raises(OutputDisagrees, match="a later epoch"):
        output.commit(tag_of(orders.flow, 2), batch_to(2), late, layout=ORDERS, run_id="late")
    assert warehouse.contents("orders", ["id", "name"]) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("now", [Mode.MERGE, Mode.SCD2])
def test_b8_two_runners_with_the_first_batch_of_a_refresh_empty_it_once(warehouse: Yard, now: Mode) -> None:
    """Also where the table is made anew: the second must not take away what the first has brought."""
    loader(warehouse).rows(ORDERS, [A, B])
    flow = flow_of(warehouse, mode=now)
    begin(warehouse, flow, 1, empty=True)
    if warehouse.name == "snowflake" and now is not Mode.MERGE:
        drop(warehouse)
    first, second = warehouse.output(flow), warehouse.output(flow)
    staged = [one.stage(read_batch(ORDERS, [A, C]), no_spark) for one in (first, second)]
    first.commit(tag_of(flow, 1, 1), batch_to(1), staged[0], layout=ORDERS, run_id="first")
    Loader(warehouse, flow, seq=1, epoch=1).rows(ORDERS, [(9, "n", None, 9)])
    receipt = second.commit(tag_of(flow, 1, 1), batch_to(1), staged[1], layout=ORDERS, run_id="second")
    assert receipt.run_id == "first"
    assert warehouse.contents("orders", ["id"]) == [(1,), (3,), (9,)]


def test_b17_a_late_refresher_in_another_mode_does_not_take_the_table_of_a_later_life_away(
    warehouse: Yard,
) -> None:
    loader(warehouse).rows(ORDERS, [A, B])
    late, flow = flow_of(warehouse, mode=Mode.SCD2), flow_of(warehouse)
    begin(warehouse, late, 1, empty=True)
    output = warehouse.output(late)
    staged = output.stage(read_batch(ORDERS, [A, C]), no_spark)
    begin(warehouse, flow, 2, empty=True)
    with pytest.raises(OutputDisagrees, match="a later epoch"):
        output.commit(tag_of(late, 1, 1), batch_to(1), staged, layout=ORDERS, run_id="late")
    assert warehouse.contents("orders", ["id"]) == [(1,), (2,)]
    Loader(warehouse, flow, epoch=2).rows(ORDERS, [B, C])
    with pytest.raises(OutputDisagrees, match="a later epoch"):
        output.commit(tag_of(late, 1, 1), batch_to(1), staged, layout=ORDERS, run_id="late")
    assert warehouse.contents("orders", ["id"]) == [(2,), (3,)]


def test_d11_a_transaction_that_fails_leaves_the_old_rows(
    warehouse: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [A, B])
    begin(warehouse, orders.flow, 1, empty=True)

    def refuse(*_: object) -> None:
        raise OutputDisagrees("feigned")

    with monkeypatch.context() as patch:
        patch.setattr(Commits, "record", refuse)
        with pytest.raises(OutputDisagrees, match="feigned"):
            Loader(warehouse, orders.flow, epoch=1).rows(ORDERS, [C])
    assert warehouse.contents("orders", ["id"]) == [(1,), (2,)]
    assert warehouse.output(orders.flow).shows_earlier_rows(1)
