"""Rows that expectations set aside on their way into a warehouse, against a target that is computed here."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_warehouse_crash import DiesAtCommit
from tests.support.processes import KILLED, start
from tests.support.warehouses import (
    ORDERS,
    Loader,
    Yard,
    batch_to,
    counts,
    layout_of,
    loader,
    make,
    no_spark,
    read_batch,
    tag_of,
)
from tidegauge.errors import ExpectationFailed, KeyUnsuitable, OutputDisagrees
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.expectation import (
    Action,
    Checks,
    Expectation,
    ForeignKey,
    Fresh,
    NotNull,
    Predicate,
    RowCount,
    Rule,
    Unique,
)
from tidegauge.model.mode import Mode
from tidegauge.model.spec import DeleteMode
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.transform.mark import mark_rows

Row = tuple[Any, ...]
FAIL, QUARANTINE, DROP, WARN = Action
NAMED = ["id", "name"]


def expect(name: str, rule: Rule, action: Action, most: float | None = None) -> Expectation:
    return Expectation(name, rule, action, most)


POSITIVE = expect("amount > 0", Predicate("amount > 0"), QUARANTINE)
NAMELESS = expect("name: not_null", NotNull("name"), DROP)
SHORT = expect("short", Predicate("length(name) < 4"), WARN)
CHECKS = (POSITIVE, SHORT, NAMELESS)


def quarantined(yard: Yard, table: str = "orders") -> list[tuple[int, int, list[str]]]:
    """Ids, batches and reasons of what is set aside."""
    found = yard.rows(
        f"SELECT {yard.names('row', '_seq', '_reasons')[1:-1]} FROM {yard.at(f'{table}_quarantine')}"
    )
    return sorted((json.loads(row)["id"], int(seq), json.loads(why)) for row, seq, why in found)


def is_good(row: Row) -> bool:
    """By hand what CHECKS say."""
    _, name, amount, _ = row
    return name is not None and (amount is None or amount > 0)


class Mirror:
    """The target as the rows that pass would make it, and those that are set aside: computed here."""

    def __init__(self) -> None:
        self.kept: dict[int, Row] = {}
        self.aside: list[tuple[int, int, list[str]]] = []

    def load(self, seq: int, rows: Sequence[Row]) -> None:
        for row in rows:
            self.kept.pop(row[0], None)
            if is_good(row):
                self.kept[row[0]] = row
            elif row[2] is not None and row[2] <= 0:
                why = [SHORT.name] * (row[1] is not None and len(row[1]) > 3)
                why += [NAMELESS.name] * (row[1] is None)
                self.aside.append((row[0], seq, [*why, POSITIVE.name]))

    def target(self) -> list[tuple[int, str]]:
        return sorted((key, row[1]) for key, row in self.kept.items())


def amount(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(str(value)).quantize(Decimal("0.01"))


BATCHES: list[list[Row]] = [
    [(1, "a", amount(1), 1), (2, "b", amount(-2), 1), (3, None, amount(3), 1), (4, "long one", None, 1)],
    [(1, "a", amount(-1), 2), (2, "b", amount(2), 2), (5, "longer", amount(0), 2), (6, None, amount(-6), 2)],
    [(1, "x", amount(9), 3), (4, None, amount(1), 3), (2, "b", amount(2), 3)],
]


def test_the_target_is_the_rows_that_pass_and_the_others_are_set_aside_with_their_reasons(
    warehouse: Yard,
) -> None:
    orders, mirror = loader(warehouse, expect=CHECKS), Mirror()
    for seq, rows in enumerate(BATCHES, start=1):
        receipt = orders.rows(ORDERS, rows)
        mirror.load(seq, rows)
        assert warehouse.contents("orders", NAMED) == mirror.target()
        assert quarantined(warehouse) == sorted(mirror.aside)
        assert receipt.checks is not None
        assert receipt.checks.checked == receipt.read == len(rows)
        assert receipt.rows == sum(map(is_good, rows))
        assert warehouse.output(orders.flow).receipt(receipt.tag) == receipt
    assert [one.failed for one in orders.rows(ORDERS, BATCHES[0]).checks.counts] == [1, 1, 1]  # type: ignore[union-attr]
    assert warehouse.staging_tables() == []


def test_a_key_that_turns_bad_leaves_the_target_and_comes_back_also_where_rows_are_only_marked(
    warehouse: Yard,
) -> None:
    orders = loader(warehouse, expect=(POSITIVE,), deletes=DeleteMode.SOFT)
    orders.rows(ORDERS, [(1, "a", amount(1), 1), (2, "b", amount(1), 1)])
    assert counts(orders.rows(ORDERS, [(1, "a", amount(-1), 2)])) == (0, 0, 0, 1)
    gone = warehouse.house().name("_tidegauge_deleted_at")
    marked = f"SELECT id FROM {warehouse.at('orders')} WHERE {gone} IS NOT NULL"
    if warehouse.name != "snowflake":
        assert warehouse.rows(marked) == [(1,)]
    assert counts(orders.rows(ORDERS, [(1, "c", amount(2), 3)])) == (1, 0, 1, 0)
    assert warehouse.contents("orders", NAMED) == [(1, "c"), (2, "b")]
    assert quarantined(warehouse) == [(1, 2, [POSITIVE.name])]


def test_of_a_row_that_came_twice_the_last_one_counts_also_where_that_is_bad(warehouse: Yard) -> None:
    orders = loader(warehouse, expect=(POSITIVE, NAMELESS))
    receipt = orders.rows(
        ORDERS,
        [(1, "a", amount(1), 1), (2, "b", amount(-1), 1), (3, "c", amount(-1), 1)],
        [(1, "a", amount(-1), 2), (2, "b", amount(1), 2), (3, "c", amount(-3), 2)],
    )
    assert warehouse.contents("orders", NAMED) == [(2, "b")]
    assert quarantined(warehouse) == [(1, 1, [POSITIVE.name]), (3, 1, [POSITIVE.name])]
    assert receipt.checks == Checks(3, receipt.checks.counts if receipt.checks else (), 2, 0)
    with pytest.raises(KeyUnsuitable):
        orders.rows(ORDERS, [(4, "a", amount(1), 3), (4, "b", amount(-1), 3)])


def test_a_row_without_a_key_may_be_set_aside_for_it(warehouse: Yard) -> None:
    keyed = expect("id: not_null", NotNull("id"), QUARANTINE)
    orders = loader(warehouse, expect=(keyed,))
    orders.rows(ORDERS, [(None, "a", None, 1), (None, "b", None, 1), (1, "c", None, 1)], [(1, "d", None, 2)])
    assert warehouse.contents("orders", NAMED) == [(1, "d")]
    held = warehouse.rows(f"SELECT {warehouse.names('row')[1:-1]} FROM {warehouse.at('orders_quarantine')}")
    assert sorted(json.loads(row)["name"] for (row,) in held) == ["a", "b"]
    plain = loader(warehouse, table="plain", name="plain/load", expect=(POSITIVE,))
    with pytest.raises(KeyUnsuitable, match="1 rows have no id"):
        plain.rows(ORDERS, [(None, "a", amount(1), 1)])


@pytest.mark.parametrize("action", [FAIL, QUARANTINE], ids=str)
def test_a_batch_that_must_not_be_written_leaves_nothing(warehouse: Yard, action: Action) -> None:
    most = None if action is FAIL else 0.4
    orders = loader(warehouse, expect=(replace(POSITIVE, action=action, max_fraction=most), NAMELESS))
    orders.rows(ORDERS, [(1, "a", amount(1), 1)])
    bad = [(1, "b", amount(-1.5), 2), (2, None, amount(2), 2)]
    with pytest.raises(ExpectationFailed, match=r"1 of 2 rows is not as expected, `amount > 0`.*-1\.50"):
        orders.rows(ORDERS, bad)
    assert warehouse.contents("orders", NAMED) == [(1, "a")]
    assert warehouse.staging_tables() == []
    orders.seq -= 1
    orders.rows(ORDERS, [(1, "b", amount(1), 2)])
    assert warehouse.contents("orders", NAMED) == [(1, "b")]


def test_append_adds_what_passes_and_overwrite_replaces_what_was_set_aside(warehouse: Yard) -> None:
    added = loader(warehouse, mode=Mode.APPEND, expect=CHECKS)
    for rows in BATCHES:
        added.rows(ORDERS, rows)
    every = [(row[0], row[1]) for rows in BATCHES for row in rows if is_good(row)]
    assert sorted(warehouse.contents("orders", NAMED)) == sorted(every)
    assert [key for key, _, _ in quarantined(warehouse)] == [1, 2, 5, 6]

    whole = loader(warehouse, table="whole", name="whole/load", mode=Mode.OVERWRITE, expect=CHECKS)
    for seq, rows in enumerate(BATCHES, start=1):
        whole.rows(ORDERS, rows)
        mirror = Mirror()
        mirror.load(seq, rows)
        assert warehouse.contents("whole", NAMED) == mirror.target()
        assert quarantined(warehouse, "whole") == sorted(mirror.aside)


def test_in_a_history_a_bad_row_ends_the_version_before_it_and_makes_none(warehouse: Yard) -> None:
    orders = loader(warehouse, mode=Mode.SCD2, expect=(POSITIVE,))
    shown = ["id", "name", "valid_from", "valid_to"]
    orders.rows(ORDERS, [(1, "a", amount(1), 10), (2, "b", amount(-1), 10)])
    orders.rows(ORDERS, [(1, "a", amount(-1), 20), (2, "b", amount(2), 20)])
    assert warehouse.contents("orders", shown) == [(1, "a", 10, 20), (2, "b", 20, None)]
    orders.rows(ORDERS, [(1, "a", amount(-2), 30)])
    orders.rows(ORDERS, [(1, "c", amount(4), 40)])
    assert warehouse.contents("orders", shown) == [(1, "a", 10, 20), (1, "c", 40, None), (2, "b", 20, None)]
    assert quarantined(warehouse) == [
        (1, 2, [POSITIVE.name]),
        (1, 3, [POSITIVE.name]),
        (2, 1, [POSITIVE.name]),
    ]
    # The lake is loaded again under other expectations: what was set aside is a version now.
    orders.flow = replace(
        orders.flow, options=replace(orders.flow.options, expect=(replace(POSITIVE, action=WARN),))
    )
    orders.again()
    orders.rows(ORDERS, [(1, "a", amount(1), 10), (2, "b", amount(-1), 10)])
    orders.rows(ORDERS, [(1, "a", amount(-1), 20), (2, "b", amount(2), 20)])
    orders.rows(ORDERS, [(1, "a", amount(-2), 30)])
    orders.rows(ORDERS, [(1, "c", amount(4), 40)])
    assert warehouse.contents("orders", shown) == [
        (1, "a", 10, 20),
        (1, "a", 20, 30),
        (1, "a", 30, 40),
        (1, "c", 40, None),
        (2, "b", 10, 20),
        (2, "b", 20, None),
    ]


def test_unique_looks_at_the_batch_and_at_the_rows_that_stay(warehouse: Yard) -> None:
    once = expect("name: unique", Unique(("name",)), FAIL)
    orders = loader(warehouse, expect=(once, POSITIVE))
    orders.rows(ORDERS, [(1, "a", None, 1), (2, "b", None, 1), (3, None, None, 1), (4, None, None, 1)])
    # Two rows change their names with each other; a third has one of them, and is set aside.
    orders.rows(ORDERS, [(1, "b", None, 2), (2, "a", None, 2), (5, "a", amount(-1), 2)])
    for rows in ([(6, "c", None, 3), (7, "c", None, 3)], [(8, "b", None, 3)]):
        with pytest.raises(ExpectationFailed, match=r"`name: unique`, such as name = '[bc]'"):
            orders.rows(ORDERS, rows)
        orders.seq -= 1
    assert [key for key, _ in warehouse.contents("orders", NAMED)] == [1, 2, 3, 4]
    orders.flow = replace(
        orders.flow, options=replace(orders.flow.options, expect=(replace(once, action=WARN),))
    )
    receipt = orders.rows(ORDERS, [(6, "c", None, 3), (7, "c", None, 3), (8, "b", None, 3)])
    assert receipt.checks is not None
    assert [(one.name, one.failed) for one in receipt.checks.counts] == [(once.name, 3)]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_row_count_and_fresh_look_at_the_rows_that_are_written(warehouse: Yard, kind: str) -> None:
    timed = layout_of(("id", "bigint"), ("n", "int"), ("at", kind))
    now = datetime.now(UTC).replace(tzinfo=UTC if kind == "timestamp" else None)
    some = expect("row_count", RowCount(least=1, greatest=2), FAIL)
    late = expect("fresh", Fresh("AT", timedelta(hours=1)), FAIL)
    good = expect("n: not_null", NotNull("n"), DROP)
    orders = loader(warehouse, expect=(some, late, good))
    orders.rows(timed, [(1, 1, now), (2, 2, now - timedelta(days=9)), (3, None, now)])
    with pytest.raises(ExpectationFailed, match="the batch has 0 rows, and at least 1 are expected"):
        orders.rows(timed, [(4, None, now)])
    orders.seq -= 1
    with pytest.raises(ExpectationFailed, match="the newest AT of the batch is older than 1:00:00"):
        orders.rows(timed, [(4, 4, now - timedelta(hours=2)), (5, None, now)])
    orders.seq -= 1
    orders.rows(timed, [(4, 4, now - timedelta(minutes=30))])
    assert warehouse.contents("orders", ["id"]) == [(1,), (2,), (4,)]


def test_a_foreign_key_is_looked_up_in_the_warehouse(warehouse: Yard) -> None:
    people = layout_of(("id", "bigint"), ("code", "string"))
    warehouse.create("people", people)
    warehouse.run(
        f"INSERT INTO {warehouse.at('people')} {warehouse.names('id', 'code')} VALUES (1, 'a'), (2, 'b')"
    )
    known = expect(
        "foreign_key: name", ForeignKey(("NAME",), TableRef(name="people"), ("code",), "x"), QUARANTINE
    )
    orders = loader(warehouse, expect=(known, POSITIVE))
    receipt = orders.rows(
        ORDERS,
        [(1, "a", amount(1), 1), (2, "z", amount(1), 1), (3, None, amount(1), 1), (4, "y", amount(-1), 1)],
    )
    assert warehouse.contents("orders", NAMED) == [(1, "a"), (3, None)]
    assert quarantined(warehouse) == [(2, 1, [known.name]), (4, 1, [known.name, POSITIVE.name])]
    assert receipt.checks is not None
    assert [one.failed for one in receipt.checks.counts] == [2, 1]
    orders.flow = replace(
        orders.flow,
        options=replace(
            orders.flow.options,
            expect=(replace(known, rule=ForeignKey(("name",), TableRef(name="none"), ("code",), "x")),),
        ),
    )
    with pytest.raises(ExpectationFailed, match="none is not there"):
        orders.rows(ORDERS, [(5, "a", None, 2)])


def test_a_foreign_key_names_a_sqlite_table_with_a_dot(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    warehouse = make("sqlite", request, tmp_path)
    for name, code in (("old.people", "a"), ("people", "b")):
        warehouse.create(name, layout_of(("code", "string")))
        warehouse.run(f"INSERT INTO {warehouse.at(name)} VALUES ('{code}')")
    known = ForeignKey(("name",), TableRef(name="old.people"), ("code",), "x")
    orders = loader(warehouse, expect=(expect("known", known, QUARANTINE),))
    orders.rows(ORDERS, [(1, "a", amount(1), 1), (2, "b", amount(1), 1)])
    assert warehouse.contents("orders", NAMED) == [(1, "a")]


def test_somebody_altered_or_dropped_the_quarantine(warehouse: Yard) -> None:
    orders = loader(warehouse, expect=(POSITIVE,))
    orders.rows(ORDERS, [(1, "a", amount(1), 1), (2, "b", amount(-1), 1)])
    beside, house = warehouse.at("orders_quarantine"), warehouse.house()
    warehouse.run(f"ALTER TABLE {beside} RENAME COLUMN {house.name('_reasons')} TO {house.name('why')}")
    with pytest.raises(OutputDisagrees, match="has no column _reasons, so no row of shop"):
        orders.rows(ORDERS, [(1, "b", amount(2), 2), (3, "c", amount(-3), 2)])
    orders.seq -= 1
    assert warehouse.contents("orders", NAMED) == [(1, "a")]
    assert warehouse.staging_tables() == []
    warehouse.run(f"DROP TABLE {beside}")
    orders.rows(ORDERS, [(1, "b", amount(2), 2), (3, "c", amount(-3), 2)])
    assert warehouse.contents("orders", NAMED) == [(1, "b")]
    assert quarantined(warehouse) == [(3, 2, [POSITIVE.name])]


def test_a_row_that_is_read_again_is_set_aside_once_and_a_full_refresh_begins_anew(warehouse: Yard) -> None:
    orders = loader(warehouse, expect=(POSITIVE,))
    rows = [(1, "É", amount(-1), 1), (2, "b", amount(-2), 1), (3, "c", amount(3), 1)]
    orders.rows(ORDERS, rows)
    orders.again()
    orders.rows(ORDERS, [*rows[:2], (4, "é", amount(-1), 2)])
    assert [(key, seq) for key, seq, _ in quarantined(warehouse)] == [(1, 1), (2, 1), (4, 1)]
    orders.epoch, orders.seq = orders.epoch + 1, 0
    warehouse.output(orders.flow).open_epoch(
        orders.flow.pipeline, orders.flow.name, orders.epoch, None, "anew", empty=True
    )
    orders.rows(ORDERS, [(1, "a", amount(1), 3), (5, "e", amount(-5), 3)])
    assert warehouse.contents("orders", NAMED) == [(1, "a")]
    assert [key for key, _, _ in quarantined(warehouse)] == [5]


def doomed(yard: Yard, orders: Loader, rows: list[Row], when: str) -> Any:
    def die(*_: Any, **__: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        output = yard.output(orders.flow)
        staged = output.stage(mark_rows(read_batch(ORDERS, rows), orders.flow.options.expect), no_spark)
        house = output.target.warehouse
        if when == "aside":
            output.target.quarantine.put(house.connect(), *_put_args(output, staged, orders))
            die()
        if when == "rows written":
            Commits.record = die  # type: ignore[method-assign]
        else:
            connect = house.connect
            house.connect = lambda: DiesAtCommit(connect(), sent=when == "committed")  # type: ignore
        output.commit(tag_of(orders.flow, 2), batch_to(2), staged, layout=ORDERS, run_id="dead")

    return work


def _put_args(output: Any, staged: Any, orders: Loader) -> Any:
    from tidegauge.model.marks import FailedCheckBits
    from tidegauge.model.spec import TableName
    from tidegauge.outputs.warehouse.quarantine import QuarantineBatch

    batched = QuarantineBatch(tag_of(orders.flow, 2), batch_to(2), "t", "dead", whole=False, again=False)
    table = TableName(output.target.table.schema, staged.table)
    return table, FailedCheckBits.of(orders.flow.options.expect), batched


@pytest.mark.parametrize("when", ["aside", "rows written", "commit", "committed"])
def test_b13_a_killed_writer_leaves_rows_and_what_it_set_aside_or_neither(warehouse: Yard, when: str) -> None:
    if warehouse.name in ("snowflake", "redshift"):
        pytest.skip("the one's stand-in lives in this process, the other's client of S3 survives no fork")
    orders = loader(warehouse, expect=CHECKS)
    orders.rows(ORDERS, BATCHES[0])
    before = warehouse.contents("orders", NAMED), quarantined(warehouse)
    assert start(doomed(warehouse, orders, BATCHES[1], when)).answer() is KILLED
    mirror = Mirror()
    for seq, rows in enumerate(BATCHES[:2], start=1):
        mirror.load(seq, rows)
    after = mirror.target(), sorted(mirror.aside)
    found = warehouse.contents("orders", NAMED), quarantined(warehouse)
    assert found == (after if when == "committed" else before)
    receipt = orders.rows(ORDERS, BATCHES[1])
    assert (warehouse.contents("orders", NAMED), quarantined(warehouse)) == after
    assert receipt.checks is not None
    assert (receipt.checks.checked, receipt.checks.quarantined, receipt.checks.dropped) == (4, 3, 0)
