"""Columns that the source drops, renames or brings back: NULL where rows are written, kept where none are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.contract.test_warehouse_crash import DiesAtCommit, die
from tests.support.processes import KILLED, start
from tests.support.warehouses import (
    Yard,
    batch_to,
    counts,
    flow_of,
    layout_of,
    loader,
    no_spark,
    read_batch,
    tag_of,
)
from tidegauge.flows.table.drift import decide_drift
from tidegauge.model.mode import Mode
from tidegauge.model.spec import Drift
from tidegauge.model.table import Layout
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.outputs.warehouse.warehouse import WarehouseColumn

WORD = ("word", "string", "varchar(20)")
BOTH = layout_of(("id", "bigint"), WORD, ("size", "int"), ("at", "bigint"))
LESS = layout_of(("id", "bigint"), ("size", "int"), ("at", "bigint"))


def contents(yard: Yard, *columns: str, order: Sequence[str] = ("id",)) -> list[tuple[object, ...]]:
    return yard.contents("orders", columns or ("id", "word", "size"), order)


def test_d14_a_row_written_after_a_column_vanished_has_null_there(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(BOTH, [(1, "a", 1, 1), (2, "b", 2, 2), (3, "c", 3, 3)])
    # One is updated, one comes again as it was, one is new, one is not among them.
    assert counts(orders.rows(LESS, [(1, 10, 4), (2, 2, 2), (4, 4, 4)])) == (3, 1, 1, 0)
    assert contents(warehouse) == [(1, None, 10), (2, "b", 2), (3, "c", 3), (4, None, 4)]
    # The same batch again, under another tag.
    assert counts(orders.rows(LESS, [(1, 10, 4), (2, 2, 2), (4, 4, 4)])) == (3, 0, 0, 0)
    assert contents(warehouse) == [(1, None, 10), (2, "b", 2), (3, "c", 3), (4, None, 4)]
    # It is back: rows that come have it again.
    assert counts(orders.rows(BOTH, [(1, "x", 10, 5), (2, None, 2, 5)])) == (2, 0, 2, 0)
    assert counts(orders.rows(LESS, [(3, 30, 6)])) == (1, 0, 1, 0)
    assert contents(warehouse) == [(1, "x", 10), (2, None, 2), (3, None, 30), (4, None, 4)]


def test_d14_a_renamed_column_is_one_that_vanished_and_one_that_came(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(BOTH, [(1, "a", 1, 1), (2, "b", 2, 2)])
    renamed = layout_of(
        ("id", "bigint"), ("text", "string", "varchar(20)"), ("size", "int"), ("at", "bigint")
    )
    orders.rows(renamed, [(1, "new", 1, 3)])
    assert contents(warehouse, "id", "word", "text") == [(1, None, "new"), (2, "b", None)]


def test_d14_other_letters_are_another_column_only_where_the_target_says_so(warehouse: Yard) -> None:
    if warehouse.name == "snowflake":
        pytest.skip("its stand-in has no columns that differ only in case")
    orders = loader(warehouse)
    orders.rows(BOTH, [(1, "a", 1, 1), (2, "b", 2, 2)])
    louder = layout_of(("id", "bigint"), ("WORD", "string", "varchar(20)"), ("size", "int"), ("at", "bigint"))
    orders.rows(louder, [(1, "new", 1, 3)])
    if warehouse.house().folds_case:
        assert contents(warehouse, "id", "word") == [(1, "new"), (2, "b")]
    else:
        assert contents(warehouse, "id", "word", "WORD") == [(1, None, "new"), (2, "b", None)]


def test_d14_what_is_appended_has_null_and_what_is_overwritten_has_it_everywhere(warehouse: Yard) -> None:
    added = loader(warehouse, table="added", name="added", mode=Mode.APPEND)
    added.rows(BOTH, [(1, "a", 1, 1)])
    added.rows(LESS, [(1, 1, 1)])
    assert warehouse.contents("added", ["id", "word"], ["id", "word"]) in (
        [(1, None), (1, "a")],
        [(1, "a"), (1, None)],
    )
    whole = loader(warehouse, table="whole", name="whole", mode=Mode.OVERWRITE)
    whole.rows(BOTH, [(1, "a", 1, 1), (2, "b", 2, 2)])
    assert counts(whole.rows(LESS, [(1, 1, 1), (2, 2, 2)])) == (2, 0, 2, 0)
    assert counts(whole.rows(LESS, [(1, 1, 1), (2, 2, 2)])) == (2, 0, 0, 0)
    assert warehouse.contents("whole", ["id", "word"]) == [(1, None), (2, None)]


def test_d14_a_history_gets_a_version_for_rows_that_are_touched_and_for_no_other(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2)
    first = [(1, "a", 1, 1), (2, "b", 2, 1), (3, "c", 3, 1)]
    orders.rows(BOTH, first)
    columns = ["id", "valid_from", "valid_to", "word", "size"]
    # The first is touched and is as it was but for the column; the second is changed; the third comes again.
    for expected in ((3, 2, 2, 0), (3, 0, 0, 0)):
        assert counts(orders.rows(LESS, [(1, 1, 5), (2, 20, 5), (3, 3, 1)])) == expected
        assert contents(warehouse, *columns, order=["id", "valid_from"]) == [
            (1, 1, 5, "a", 1),
            (1, 5, None, None, 1),
            (2, 1, 5, "b", 2),
            (2, 5, None, None, 20),
            (3, 1, None, "c", 3),
        ]
    # What was read before the column vanished, once more: the past stays as it was.
    assert counts(orders.rows(BOTH, first)) == (3, 0, 0, 0)
    orders.rows(BOTH, [(1, "back", 1, 7)])
    assert contents(warehouse, *columns, order=["id", "valid_from"])[:3] == [
        (1, 1, 5, "a", 1),
        (1, 5, 7, None, 1),
        (1, 7, None, "back", 1),
    ]


def test_d14_of_two_events_at_one_moment_the_last_counts_though_the_target_knows_it(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2)
    orders.rows(BOTH, [(1, "a", 1, 1)])
    assert counts(orders.rows(LESS, [(1, 9, 1)], [(1, 1, 1)])) == (2, 0, 0, 0)
    assert contents(warehouse) == [(1, "a", 1)]
    assert counts(orders.rows(LESS, [(1, 1, 1)], [(1, 9, 1)])) == (2, 0, 1, 0)
    assert contents(warehouse) == [(1, None, 9)]


def test_d14_a_column_that_somebody_added_by_hand_is_never_touched(warehouse: Yard) -> None:
    house = warehouse.house()
    for mode in (Mode.MERGE, Mode.SCD2, Mode.OVERWRITE):
        orders = loader(warehouse, table=mode, name=mode, mode=mode)
        orders.rows(BOTH, [(1, "a", 1, 1)])
        warehouse.run(
            house.add_column(warehouse.table(mode), WarehouseColumn("remark", house.text_type)),
            f"UPDATE {warehouse.at(mode)} SET {house.name('remark')} = 'mine'",
        )
        orders.rows(LESS, [(1, 2, 2)])
        orders.rows(LESS, [(1, 3, 2)])
        assert (1, "mine") in warehouse.contents(mode, ["id", "remark"]), mode
        held = warehouse.output(orders.flow).layout()
        assert held is not None
        notes = decide_drift(orders.flow, warehouse.output(orders.flow), held, LESS).notes
        assert [note.split(")")[1] for note in notes] == [
            " is gone from the source: the output keeps it, NULL in the rows written from now on and as it"
            " was in the others",
            " is in the output only: it stays as it is, for no batch of this flow is known to have"
            " written it",
        ]
        flow = flow_of(warehouse, mode, name=mode, mode=mode, drift=Drift.FREEZE)
        assert len(decide_drift(flow, warehouse.output(flow), held, LESS).notes) == 2


def test_d14_what_a_flow_wrote_is_known_in_its_next_life_too(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(BOTH, [(1, "a", 1, 1)])
    orders.epoch, orders.seq = 1, 0
    warehouse.output(orders.flow).open_epoch("shop", orders.flow.name, 1, None, "by hand")
    orders.rows(LESS, [(1, 2, 2)])
    assert contents(warehouse) == [(1, None, 2)]


def test_d14_tags_that_an_older_version_made_are_given_room(warehouse: Yard) -> None:
    """Which columns were written before then is not known: they are left as they are."""
    orders = loader(warehouse)
    orders.rows(BOTH, [(1, "a", 1, 1), (2, "b", 2, 2)])
    house = warehouse.house()
    commits = house.table(Commits(house, warehouse.table("orders"), "shop", orders.flow.name).table)
    warehouse.run(f"ALTER TABLE {commits} DROP COLUMN {house.name('written')}")
    output = warehouse.output(orders.flow)
    assert output.written() == frozenset()
    assert output.receipt(tag_of(orders.flow, 1)) is not None
    orders.rows(LESS, [(1, 10, 3)])
    assert contents(warehouse) == [(1, "a", 10), (2, "b", 2)]
    orders.rows(BOTH, [(1, "c", 10, 4)])
    orders.rows(LESS, [(1, 11, 5)])
    assert contents(warehouse) == [(1, None, 11), (2, "b", 2)]


def doomed(yard: Yard, mode: Mode, layout: Layout, when: str) -> Callable[[], None]:
    def work() -> None:
        orders = loader(yard, mode=mode)
        output = yard.output(orders.flow)
        staged = output.stage(read_batch(layout, [(1, 10, 4)]), no_spark)
        if when == "staged":
            die()
        connect = yard.house().connect
        output.target.warehouse.connect = lambda: DiesAtCommit(connect(), sent=when == "committed")  # type: ignore
        output.commit(tag_of(orders.flow, 2), batch_to(2), staged, layout=layout, run_id="dead")

    return work


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.SCD2])
@pytest.mark.parametrize("when", ["staged", "commit", "committed"])
def test_d14_a_killed_writer_leaves_the_old_value_or_null(warehouse: Yard, mode: Mode, when: str) -> None:
    if warehouse.name in ("snowflake", "redshift"):
        pytest.skip("the one's stand-in lives in this process, the other's client of S3 survives no fork")
    orders = loader(warehouse, mode=mode)
    orders.rows(BOTH, [(1, "a", 1, 1)])
    assert start(doomed(warehouse, mode, LESS, when)).answer() is KILLED
    kept = [(1, "a", 1)]
    after = [(1, None, 10)] if mode is Mode.MERGE else [*kept, (1, None, 10)]
    order = ["size"]
    assert contents(warehouse, order=order) == (after if when == "committed" else kept)
    orders.rows(LESS, [(1, 10, 4)])
    assert contents(warehouse, order=order) == after
    assert warehouse.output(orders.flow).written() == {"id", "word", "size", "at"}
