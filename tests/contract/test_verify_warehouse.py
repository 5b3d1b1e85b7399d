"""A source and a warehouse, proven equal or told apart, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.source_parts import Place, sqlite_place
from tests.support.warehouses import Yard, flow_of, loader, no_spark
from tidegauge.compare.frames import Difference
from tidegauge.flows.flow import open_reader
from tidegauge.flows.verify.warehouse import verify_warehouse
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.model.spec import NullCursor, TableFlow
from tidegauge.sources.open import open_source

MARK = RowPosition(Value(ValueKind.INT, "50"))


@pytest.fixture
def source(tmp_path: Path) -> Place:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id integer PRIMARY KEY, name text, f real, at integer)")
    for number in range(60):
        place.run(f"INSERT INTO t VALUES ({number}, 'name {number}', {number} / 7.0, {number})")
    return place


def flow_between(place: Place, yard: Yard, **options: Any) -> TableFlow:
    return replace(flow_of(yard, **options), source=place.database, table=place.table("t"))


def load(flow: TableFlow, yard: Yard, upto: RowPosition = MARK, after: RowPosition | None = None) -> None:
    control = open_source(flow.source)
    source_table = control.describe(flow.table, flow.options)
    control.close()
    batch_data = open_reader(flow).batch_data(source_table, Batch((Window(after, upto),)))
    loading = loader(yard)
    loading.flow = flow
    loading.load(replace(batch_data, frame=None, rows=None))


def verify(flow: TableFlow, yard: Yard) -> Difference:
    control = open_source(flow.source)
    try:
        return verify_warehouse(flow, control, yard.output(flow), MARK, no_spark)
    finally:
        control.close()


def test_what_was_loaded_is_equal_up_to_the_watermark(source: Place, warehouse: Yard) -> None:
    flow = flow_between(source, warehouse)
    load(flow, warehouse)
    assert verify(flow, warehouse) == Difference(51, 51, 0, 0, 0, (), newer=9)
    # Changed since, so it is the next run's.
    source.run("UPDATE t SET name = 'later', at = 99 WHERE id = 3")
    assert verify(flow, warehouse) == Difference(50, 50, 0, 0, 0, (), newer=10)


def test_every_difference_is_found_and_named(source: Place, warehouse: Yard) -> None:
    flow = flow_between(source, warehouse)
    load(flow, warehouse)
    source.run("UPDATE t SET name = 'changed without its cursor' WHERE id = 7")
    source.run("DELETE FROM t WHERE id = 8")
    source.run("INSERT INTO t VALUES (100, 'late', 0.5, 9)")
    found = verify(flow, warehouse)
    assert found.examples == (("different", "7"), ("extra", "8"), ("missing", "100"))


def test_a_target_without_a_single_row_lacks_them_all(source: Place, warehouse: Yard) -> None:
    assert verify(flow_between(source, warehouse), warehouse).missing == 51


def test_a_frozen_target_is_judged_by_the_columns_it_has(source: Place, warehouse: Yard) -> None:
    flow = flow_between(source, warehouse)
    load(flow, warehouse)
    source.run("ALTER TABLE t ADD COLUMN more text")
    source.run("UPDATE t SET more = 'x'")
    assert verify(flow, warehouse).equal


def test_rows_before_the_beginning_were_never_promised(source: Place, warehouse: Yard) -> None:
    flow = flow_between(source, warehouse, initial="20")
    load(flow, warehouse, after=RowPosition(Value(ValueKind.INT, "19")))
    assert verify(flow, warehouse) == Difference(31, 31, 0, 0, 0, (), newer=9)


def test_f2_rows_that_a_backfill_brought_from_below_the_beginning_have_to_be_right(
    source: Place, warehouse: Yard
) -> None:
    flow = flow_between(source, warehouse, initial="20")
    load(flow, warehouse, after=RowPosition(Value(ValueKind.INT, "14")))
    assert verify(flow, warehouse) == Difference(36, 36, 0, 0, 0, (), newer=9)
    source.run("UPDATE t SET name = 'changed' WHERE id = 16")
    source.run("DELETE FROM t WHERE id = 17")
    assert verify(flow, warehouse).examples == (("different", "16"), ("extra", "17"))


def test_rows_without_a_cursor_count_where_they_are_included(source: Place, warehouse: Yard) -> None:
    source.run("INSERT INTO t VALUES (200, 'none', 0.5, NULL)")
    flow = flow_between(source, warehouse, null_cursor=NullCursor.INCLUDE)
    load(flow, warehouse)
    assert verify(flow, warehouse).examples == (("missing", "200"),)


def test_a_log_of_versions_is_judged_by_its_keys(source: Place, warehouse: Yard) -> None:
    flow = flow_between(source, warehouse, mode=Mode.APPEND)
    load(flow, warehouse)
    source.run("UPDATE t SET name = 'changed' WHERE id = 7")
    assert verify(flow, warehouse).equal
