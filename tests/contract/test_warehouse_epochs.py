"""The epochs of a table in a warehouse, and writers that meet: one comes first, and the other sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

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
from tidegauge.errors import OutputDisagrees, OutputUnreachable, TidegaugeError
from tidegauge.model.engines import Engine
from tidegauge.model.plan import Receipt
from tidegauge.model.spec import TableFlow
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.outputs.warehouse.output import WarehouseOutput

# The stand-ins of Redshift and Snowflake lock in a way of their own.
pytestmark = pytest.mark.shown_on("duckdb", "sqlite", "postgres", "mariadb")

ROW = (1, "a", None, 1)


def reopen(
    yard: Yard, flow: TableFlow, epoch: int, continues: tuple[int, int] | None = None, why: str = "w"
) -> None:
    yard.output(flow).open_epoch(flow.pipeline, flow.name, epoch, continues, why)


def test_epoch_0_is_open_from_the_start(warehouse: Yard) -> None:
    output = warehouse.output(flow_of(warehouse))
    assert output.is_open(0)
    assert not output.is_open(1)
    output.prepare()
    assert output.is_open(0)


def test_a_new_epoch_closes_the_ones_before(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [ROW])
    reopen(warehouse, orders.flow, 1, (0, 1))
    reopen(warehouse, orders.flow, 1, (0, 1))
    output = warehouse.output(orders.flow)
    assert (output.is_open(0), output.is_open(1), output.is_open(2)) == (False, True, False)
    for seq in (1, 2):
        with pytest.raises(OutputDisagrees, match="a later epoch"):
            output.receipt(tag_of(orders.flow, seq))
    with pytest.raises(OutputDisagrees, match="a later epoch"):
        orders.rows(ORDERS, [(2, "b", None, 1)])
    fresh = Loader(warehouse, orders.flow, epoch=1)
    assert counts(fresh.rows(ORDERS, [(1, "z", None, 2)])) == (1, 0, 1, 0)
    assert warehouse.contents("orders", ["id", "name"]) == [(1, "z")]


def test_an_epoch_has_one_meaning(warehouse: Yard) -> None:
    flow = flow_of(warehouse)
    reopen(warehouse, flow, 2)
    with pytest.raises(OutputDisagrees, match="and the ledger wants"):
        reopen(warehouse, flow, 2, why="another")
    with pytest.raises(OutputDisagrees, match="later than"):
        reopen(warehouse, flow, 1)
    with pytest.raises(OutputDisagrees, match="a later epoch"):
        loader(warehouse).rows(ORDERS, [ROW])


def test_what_is_continued_has_to_be_there(warehouse: Yard) -> None:
    orders = loader(warehouse)
    output = warehouse.output(orders.flow)
    assert output.lacks((0, 0)) is None
    assert output.lacks((0, 1)) is not None
    orders.rows(ORDERS, [ROW])
    assert output.lacks((0, 1)) is None
    assert output.lacks((0, 2)) == "batch 2 of epoch 0"
    assert output.lacks((3, 1)) == "epoch 3"
    with pytest.raises(OutputDisagrees, match="batch 2 of epoch 0 is not in"):
        reopen(warehouse, orders.flow, 1, (0, 2))
    assert output.is_open(0)


class Paused(WarehouseOutput):
    """Waits with the batch in hand, before the transaction that publishes it."""

    def __init__(self, yard: Yard, flow: TableFlow) -> None:
        super().__init__(flow, warehouse=yard.house())
        self.here, self.go_on = threading.Event(), threading.Event()
        commits = self.target.commits

        class Waiting(Commits):
            def advance(inner, *asked: object) -> bool:  # noqa: N805
                self.here.set()
                assert self.go_on.wait(60)
                return commits.advance(*asked)  # type: ignore[arg-type]

        self.target.commits = Waiting(self.target.warehouse, self.target.table, flow.pipeline, flow.name)


def test_a_writer_that_was_paused_while_an_epoch_was_opened_changes_nothing(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [ROW])
    output = Paused(warehouse, orders.flow)
    staged = warehouse.output(orders.flow).stage(read_batch(ORDERS, [(1, "late", None, 5)]), no_spark)
    found: list[BaseException] = []

    def publish() -> None:
        try:
            output.commit(tag_of(orders.flow, 2), batch_to(2), staged, layout=ORDERS, run_id="late")
        except TidegaugeError as error:
            found.append(error)

    late = threading.Thread(target=publish)
    late.start()
    assert output.here.wait(60)
    reopen(warehouse, orders.flow, 1, (0, 1))
    output.go_on.set()
    late.join(60)
    assert [type(error) for error in found] == [OutputDisagrees]
    assert warehouse.contents("orders", ["id", "name"]) == [(1, "a")]


def together(*works: Callable[[], Receipt]) -> list[Receipt | TidegaugeError]:
    answers: list[Receipt | TidegaugeError] = []
    barrier = threading.Barrier(len(works))

    def do(work: Callable[[], Receipt]) -> None:
        barrier.wait(60)
        try:
            answers.append(work())
        except TidegaugeError as error:
            answers.append(error)

    threads = [threading.Thread(target=do, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return answers


def test_of_two_writers_with_one_tag_one_is_counted_and_both_get_its_receipt(warehouse: Yard) -> None:
    orders = loader(warehouse)
    orders.rows(ORDERS, [ROW])

    def writer(name: str) -> Callable[[], Receipt]:
        output = warehouse.output(orders.flow)
        staged = output.stage(read_batch(ORDERS, [(2, name, None, 5)]), no_spark)
        tag = tag_of(orders.flow, 2)
        return lambda: output.commit(tag, batch_to(2), staged, layout=ORDERS, run_id=name)

    answers = together(writer("x"), writer("y"), writer("z"))
    receipts = [answer for answer in answers if isinstance(answer, Receipt)]
    # An engine may let the other fail instead of wait; then asking again gives the receipt.
    assert all(isinstance(answer, OutputUnreachable) for answer in answers if not isinstance(answer, Receipt))
    assert len({receipt.run_id for receipt in receipts}) == 1
    assert warehouse.contents("orders", ["id", "name"]) == [(1, "a"), (2, receipts[0].run_id)]
    assert warehouse.output(orders.flow).receipt(tag_of(orders.flow, 2)) == receipts[0]


def test_flows_that_make_the_table_of_tags_at_once_all_get_ready(warehouse: Yard) -> None:
    barrier = threading.Barrier(6)
    faults: list[Exception] = []
    one_by_one = threading.Lock()

    def get_ready(number: int) -> None:
        house = warehouse.house()
        commits = Commits(house, warehouse.table(f"orders_{number}"), "shop", f"flow {number}")
        try:
            with one_by_one:
                session = house.connect()
            with closing(session):
                barrier.wait(60)
                commits.make(session)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=get_ready, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert faults == []
    assert warehouse.rows(f"SELECT COUNT(*) FROM {warehouse.at('tidegauge_commits')}") == [(6,)]


def test_outputs_that_are_made_at_once_get_one_head(warehouse: Yard) -> None:
    orders = loader(warehouse)

    def first() -> Receipt:
        return Loader(warehouse, orders.flow).rows(ORDERS, [ROW])

    answers = together(first, first, first)
    receipts = [answer for answer in answers if isinstance(answer, Receipt)]
    refused = [answer for answer in answers if not isinstance(answer, Receipt)]
    assert all(isinstance(answer, OutputUnreachable) for answer in refused), refused
    assert len(set(receipts)) == 1
    assert warehouse.contents("orders", ["id"]) == [(1,)]
    seq, commits = warehouse.house().name("seq"), warehouse.at("tidegauge_commits")
    assert warehouse.rows(f"SELECT {seq} FROM {commits} WHERE {seq} >= 0 ORDER BY {seq}") == [(0,), (1,)]
    if warehouse.database.engine is not Engine.SNOWFLAKE:  # its lock is a row of its own, and may stay
        assert warehouse.rows(f"SELECT COUNT(*) FROM {commits}") == [(2,)]
