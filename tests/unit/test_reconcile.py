"""Keys that the source has no more."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.compare.deleted_keys import check_limit, find_deleted_keys
from tidegauge.errors import MassDelete, OutputDisagrees

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
KEYS = st.lists(st.tuples(st.integers(-3, 3), st.text("aA é'", max_size=2)), max_size=12)


def batches(rows: list[tuple[Any, ...]], schema: pa.Schema, size: int = 3) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        columns = zip(*rows[start : start + size], strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def gone(source: list[Any], target: list[Any], schema: pa.Schema = SCHEMA, **how: Any) -> set[Any]:
    found = find_deleted_keys(batches(source, schema), batches(target, schema), schema, **how)
    assert found.keys.schema == schema
    assert (found.source_rows, found.target_rows) == (len(source), len(target))
    rows = [tuple(row.values()) for row in found.keys.to_pylist()]
    assert len(rows) == len(set(rows)) == found.count
    return set(rows)


@given(source=KEYS, target=KEYS)
@settings(max_examples=25, deadline=None)
def test_a12_what_vanished_is_what_only_the_target_has(source: list[Any], target: list[Any]) -> None:
    assert gone(source, target) == set(target) - set(source)


def test_a19_keys_of_text_are_compared_as_they_are_whatever_their_order() -> None:
    source = [(1, "abc"), (1, "ß"), (2, "Z")]
    target = [(2, "Z"), (1, "ABC"), (1, "abc "), (1, "ss"), (1, "abc")]
    assert gone(source, target) == {(1, "ABC"), (1, "abc "), (1, "ss")}


def test_a19_a_target_that_folds_its_keys_loses_none_that_the_source_has_in_another_form() -> None:
    source = [(1, "ABC"), (2, "élan")]
    target = [(1, "abc "), (2, "Elan"), (3, "abc")]
    assert gone(source, target, loose=True) == {(3, "abc")}


@pytest.mark.parametrize(
    ("kind", "both", "only"),
    [
        (pa.decimal128(20, 0), Decimal(2**64 - 1), Decimal(2**64 - 2)),
        (pa.timestamp("us"), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1)),
        (pa.timestamp("us", tz="UTC"), datetime(2025, 1, 1), datetime(2025, 1, 1, 0, 0, 0, 1)),
        (pa.date32(), date(1, 1, 1), date(9999, 12, 31)),
        (pa.binary(), b"\x00\xff", b"\x00"),
        (pa.bool_(), True, False),
        (pa.int8(), -128, 127),
        (pa.string(), "a\0b", "a"),
    ],
)
def test_every_kind_of_key_is_compared_exactly(kind: pa.DataType, both: Any, only: Any) -> None:
    schema = pa.schema([("k", kind)])
    found = find_deleted_keys(
        batches([(both,)], schema), batches([(both,), (only,)], schema, size=1), schema
    ).keys.column("k")
    assert found.equals(pa.chunked_array([pa.array([only], kind)]))


def test_a_target_may_hold_its_keys_in_a_wider_type_and_beside_other_columns() -> None:
    schema = pa.schema([("id", pa.int8())])
    wide = pa.schema([("x", pa.string()), ("id", pa.int16())])
    found = find_deleted_keys(batches([(1,)], schema), batches([("a", 1), ("b", 2)], wide), schema)
    assert found.keys.to_pydict() == {"id": [2]}
    with pytest.raises(OutputDisagrees, match="id"):
        find_deleted_keys(batches([(1,)], schema), batches([("a", 1000)], wide), schema)
    with pytest.raises(OutputDisagrees, match="id"):
        find_deleted_keys([], batches([("a",)], pa.schema([("x", pa.string())])), schema)


def test_an_empty_source_means_that_all_are_gone() -> None:
    assert gone([], [(1, "a"), (1, "a")]) == {(1, "a")}
    assert gone([(1, "a")], []) == set()


def test_what_vanished_travels_to_a_task() -> None:
    found = find_deleted_keys([], batches([(1, "a"), (2, "b")], SCHEMA), SCHEMA)
    again = pickle.loads(pickle.dumps(found))
    assert pa.Table.from_batches(again.batches(), SCHEMA).sort_by("a").to_pydict() == {
        "a": [1, 2],
        "s": ["a", "b"],
    }


def test_a_mass_delete_stops_unless_it_is_confirmed() -> None:
    check_limit("shop.orders", 30, 100, limit=0.3, confirmed=False)
    check_limit("shop.orders", 0, 0, limit=0.0, confirmed=False)
    check_limit("shop.orders", 100, 100, limit=0.3, confirmed=True)
    with pytest.raises(MassDelete) as caught:
        check_limit("shop.orders", 3_100, 10_000, limit=0.3, confirmed=False)
    assert "shop.orders: 3,100 of 10,000 rows (31%)" in caught.value.message
    assert "--confirm-deletes" in str(caught.value.hint)
    assert not caught.value.retryable
