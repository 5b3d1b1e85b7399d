"""What a target shows, as Arrow, on every warehouse: exactly what was loaded; and that it is no drift."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.support.warehouses import (
    Yard,
    batch_to,
    flow_of,
    keys_to_delete,
    layout_of,
    loader,
    no_spark,
    read_batch,
    tag_of,
)
from tidegauge.compare.deleted_keys import find_deleted_keys
from tidegauge.compare.rows import compare_rows
from tidegauge.flows.table.drift import decide_drift
from tidegauge.model.arrow import schema_of
from tidegauge.model.mode import Mode
from tidegauge.model.spec import DeleteMode, Drift
from tidegauge.model.table import Layout
from tidegauge.plan.drift import ChangeKind, DriftDecision

EVERY = layout_of(
    ("id", "bigint"),
    ("yes", "boolean"),
    ("tiny", "tinyint"),
    ("small", "smallint"),
    ("n", "int"),
    ("f", "float"),
    ("d", "double"),
    ("s", "string", "varchar(40)"),
    ("b", "binary", "varbinary(40)"),
    ("day", "date"),
    ("ts", "timestamp"),
    ("ntz", "timestamp_ntz"),
    ("price", "decimal(12,2)"),
    ("big", "decimal(20,0)"),
    ("fine", "decimal(38,10)"),
    ("at", "bigint"),
)
ROW = (
    2**63 - 1,
    True,
    -128,
    -(2**15),
    -(2**31),
    0.5,
    0.1,
    "é ' \\ % ?",
    b"\x01\x02\xff",
    date(1970, 1, 2),
    datetime(2025, 3, 30, 2, 30, 0, 1, tzinfo=UTC),
    datetime(2025, 3, 30, 2, 30, 0, 999999),
    Decimal("-0.05"),
    Decimal(2**64 - 1),
    Decimal("1234567890123456789012345678.0123456789"),
    7,
)
EMPTY = (1, *[None] * 14, 8)


def shown(yard: Yard, layout: Layout, *, block: int = 100, **options: Any) -> pa.Table:
    output = yard.output(flow_of(yard, **options))
    found = list(output.rows(layout, block=block))
    assert all(0 < batch.num_rows <= block for batch in found)
    return pa.Table.from_batches(found, schema_of(layout))


def test_what_was_loaded_is_shown_to_the_last_bit(warehouse: Yard) -> None:
    loader(warehouse).rows(EVERY, [ROW, EMPTY])
    assert [tuple(row.values()) for row in shown(warehouse, EVERY).to_pylist()] == [EMPTY, ROW]


@pytest.mark.parametrize("policy", Drift)
def test_a_target_that_was_made_from_a_table_has_not_drifted_from_it(warehouse: Yard, policy: Drift) -> None:
    loader(warehouse).rows(EVERY, [ROW, EMPTY])
    flow = flow_of(warehouse, drift=policy)
    output = warehouse.output(flow)
    held = output.layout()
    assert held is not None
    assert decide_drift(flow, output, held, EVERY) == DriftDecision(EVERY)
    more = layout_of(*((one.name, one.type, one.source_type) for one in EVERY.fields), ("more", "string"))
    if policy is Drift.EVOLVE:
        assert [change.kind for change in decide_drift(flow, output, held, more).changes] == [
            ChangeKind.ADDED
        ]


def test_rows_come_in_blocks_along_a_key_of_several_columns(warehouse: Yard) -> None:
    named: list[tuple[str, str] | tuple[str, str, str]]
    named = [("day", "date"), ("s", "string", "varchar(9)"), ("n", "decimal(20,0)"), ("v", "string")]
    layout = layout_of(*named, ("at", "bigint"), key=("s", "day", "n"))
    rows = [
        (date(2025, 1, 1 + number % 2), "aZ"[number % 3 % 2], Decimal(number), f"v{number}", number)
        for number in range(11)
    ]
    loader(warehouse).rows(layout, rows)
    found = shown(warehouse, layout, block=3)
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == sorted(rows)
    wanted = pa.Table.from_batches(read_batch(layout, rows).splits[0].batches())
    equal = compare_rows(wanted.to_batches(), found.to_batches(), schema_of(layout), key=layout.key)
    assert equal.equal
    assert equal.target_rows == 11


def test_a_moment_is_a_key_like_any_other(warehouse: Yard) -> None:
    layout = layout_of(("ts", "timestamp"), ("ntz", "timestamp_ntz"), ("at", "bigint"), key=("ts", "ntz"))
    rows = [
        (datetime(2025, 1, 1, 0, 0, 0, number, tzinfo=UTC), datetime(2025, 1, 1, 0, 0, number // 2), number)
        for number in range(5)
    ]
    loader(warehouse).rows(layout, rows)
    keys = layout_of(("ts", "timestamp"), ("ntz", "timestamp_ntz"), key=("ts", "ntz"))
    found = shown(warehouse, keys, block=2)
    assert [tuple(row.values()) for row in found.to_pylist()] == [row[:2] for row in rows]
    left = read_batch(keys, [row[:2] for row in rows[:4]]).splits[0].batches()
    gone = find_deleted_keys(left, found.to_batches(), schema_of(keys))
    assert [tuple(row.values()) for row in gone.keys.to_pylist()] == [rows[4][:2]]


def test_rows_that_are_marked_as_deleted_and_old_versions_are_not_shown(warehouse: Yard) -> None:
    layout = layout_of(("id", "bigint"), ("v", "string"), ("at", "bigint"))
    soft = loader(warehouse, deletes=DeleteMode.SOFT)
    soft.rows(layout, [(1, "a", 1), (2, "b", 2)])
    keys = layout_of(("id", "bigint"))
    output = warehouse.output(soft.flow)
    staged = output.stage(keys_to_delete(keys, [(1,)]), no_spark)
    batch = replace(batch_to(2), deletes=True)
    output.commit(tag_of(soft.flow, 2), batch, staged, layout=keys, run_id="r")
    assert shown(warehouse, layout, deletes=DeleteMode.SOFT).to_pylist() == [{"id": 2, "v": "b", "at": 2}]
    history = loader(warehouse, table="kept", name="shop.kept", mode=Mode.SCD2)
    history.rows(layout, [(1, "a", 1)])
    history.rows(layout, [(1, "b", 2)])
    found = warehouse.output(history.flow).rows(layout)
    assert pa.Table.from_batches(found).to_pylist() == [{"id": 1, "v": "b", "at": 2}]


def test_a_target_that_is_not_there_shows_nothing(warehouse: Yard) -> None:
    assert list(warehouse.output(flow_of(warehouse)).rows(EVERY)) == []
