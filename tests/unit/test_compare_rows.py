"""Two streams of rows, compared key by key."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.compare.frames import Difference
from tidegauge.compare.rows import compare_rows
from tidegauge.errors import OutputDisagrees

SCHEMA = pa.schema([("v", pa.string()), ("id", pa.int64()), ("f", pa.float64())])
SIDE = st.dictionaries(
    st.integers(0, 9),
    st.tuples(st.sampled_from([None, "", "a"]), st.sampled_from([None, 0.0, 1.5])),
    max_size=9,
)


def stream(
    rows: list[tuple[Any, ...]], schema: pa.Schema = SCHEMA, size: int = 4
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        columns = zip(*rows[start : start + size], strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(side: dict[int, tuple[Any, Any]]) -> list[tuple[Any, ...]]:
    return [(v, number, f) for number, (v, f) in side.items()]


def keys_of(*numbers: int) -> Iterator[pa.RecordBatch]:
    return stream([(number,) for number in numbers], pa.schema([("id", pa.int64())]))


@given(source=SIDE, target=SIDE, waiting=st.sets(st.integers(0, 9), max_size=4))
@settings(max_examples=30, deadline=None)
def test_every_difference_is_counted_once(
    source: dict[int, Any], target: dict[int, Any], waiting: set[int]
) -> None:
    found = compare_rows(
        stream(rows_of(source)), stream(rows_of(target)), SCHEMA, key=["id"], leave_out=keys_of(*waiting)
    )
    here, there = set(source) - waiting, set(target) - waiting
    assert (found.source_rows, found.target_rows) == (len(here), len(there))
    wrong = [("missing", str(key)) for key in here - there]
    wrong += [("extra", str(key)) for key in there - here]
    wrong += [("different", str(key)) for key in here & there if source[key] != target[key]]
    assert sorted(found.examples) == sorted(wrong)
    assert found.missing + found.extra + found.different == len(wrong)
    assert found.equal == (not wrong)


def test_numbers_that_are_equal_are_equal() -> None:
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64())])
    nan = float("nan")
    one = [(1, 0.0), (2, nan), (3, float("inf"))]
    other = [(1, -0.0), (2, -nan), (3, float("-inf"))]
    found = compare_rows(stream(one, schema), stream(other, schema), schema, key=["id"])
    assert found.examples == (("different", "3"),)


def test_a_wider_type_and_columns_of_its_own_make_no_difference() -> None:
    schema = pa.schema(
        [("id", pa.int8()), ("d", pa.decimal128(5, 2)), ("f", pa.float32()), ("new", pa.string())]
    )
    wide = pa.schema(
        [("_own", pa.string()), ("id", pa.int64()), ("f", pa.float64()), ("d", pa.decimal128(9, 2))]
    )
    tenth = pa.scalar(0.1, pa.float32()).as_py()
    source = [(1, Decimal("1.50"), 0.1, "x"), (2, None, None, None)]
    target = [("?", 1, tenth, Decimal("1.50")), ("?", 2, None, None)]
    assert compare_rows(stream(source, schema), stream(target, wide), schema, key=["id"]) == Difference(
        2, 2, 0, 0, 0, ()
    )
    worse = [("?", 1, tenth, Decimal("1.51")), ("?", 200, None, None)]
    found = compare_rows(stream(source, schema), stream(worse, wide), schema, key=["id"])
    assert found.examples == (("different", "1"), ("extra", "200"), ("missing", "2"))


def test_types_with_nothing_in_common_are_refused() -> None:
    one, other = pa.schema([("id", pa.int64())]), pa.schema([("id", pa.binary())])
    with pytest.raises(OutputDisagrees, match="column id is int64 at the source and binary in the target"):
        compare_rows(stream([(1,)], one), stream([(b"1",)], other), one, key=["id"])


def test_f2_a_text_and_a_number_are_compared_as_texts() -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    wide = pa.schema([("id", pa.int64()), ("v", pa.int32())])
    source = [(1, "5"), (2, None), (3, "07"), (4, "many")]
    target = [(1, 5), (2, None), (3, 7), (4, 4)]
    found = compare_rows(stream(source, schema), stream(target, wide), schema, key=["id"])
    assert found.examples == (("different", "3"), ("different", "4"))
    assert found.notes == ("column v is string at the source and int32 in the target: compared as texts",)


def test_f2_rows_that_may_be_there_are_read_only_where_the_target_has_more() -> None:
    def never() -> Iterator[pa.RecordBatch]:
        raise AssertionError

    rows = [("a", 1, None)]
    assert compare_rows(stream(rows), stream(rows), SCHEMA, key=["id"], allowed=never).equal
    target = [("a", 1, None), ("b", 2, None), ("c", 3, None), ("d", 4, None)]
    below = [("b", 2, None), ("x", 3, None), ("e", 5, None)]
    found = compare_rows(
        stream(rows),
        stream(target),
        SCHEMA,
        key=["id"],
        allowed=lambda: stream(below),
        leave_out=keys_of(7, 8),
    )
    assert found == Difference(3, 4, 0, 1, 1, (("different", "3"), ("extra", "4")), newer=2)


def test_a_key_that_the_target_has_twice_is_different() -> None:
    found = compare_rows(
        stream([("a", 1, None)]), stream([("a", 1, None), ("a", 1, None)]), SCHEMA, key=["id"]
    )
    assert found == Difference(1, 2, 0, 0, 1, (("different", "1"),))


def test_a_key_that_the_source_has_twice_is_different_and_counted_once() -> None:
    """As `compare.frames` judges it."""
    source = [("a", 1, None), ("a", 1, None), ("a", 2, None), ("b", 2, None), ("c", 3, None), ("c", 3, None)]
    target = [("a", 1, None), ("a", 2, None)]
    found = compare_rows(stream(source), stream(target), SCHEMA, key=["id"], name_all=True)
    wrong = (("different", "1"), ("different", "2"), ("missing", "3"))
    assert found == Difference(6, 2, 1, 0, 2, wrong)
    assert found.repeated == 0
    assert found.unlike is not None
    assert {word: keys.num_rows for word, keys in found.unlike.items()} == {
        "missing": 1,
        "extra": 0,
        "different": 2,
    }


def test_a_target_of_versions_is_compared_by_its_keys() -> None:
    source = stream([("b", 1, None), ("c", 2, None)])
    target = stream([("a", 1, None), ("b", 1, 1.5), ("x", 3, None)])
    found = compare_rows(source, target, SCHEMA, key=["id"], versions=True)
    assert found == Difference(2, 3, 1, 1, 0, (("extra", "3"), ("missing", "2")))


def test_a_key_of_several_columns_and_kinds() -> None:
    schema = pa.schema([("b", pa.binary()), ("at", pa.timestamp("us", tz="UTC")), ("s", pa.string())])
    moment = datetime.fromisoformat("2025-01-01T00:00:00.000001+00:00")
    source = [(b"\x00\xff", moment, "a'b")]
    found = compare_rows(stream(source, schema), [], schema, key=["s", "at", "b"])
    assert found.examples == (("missing", f"a'b, {moment}, 00ff"),)
    assert compare_rows(stream(source, schema), stream(source, schema), schema, key=["s", "at", "b"]).equal


def test_no_more_than_twenty_examples_are_shown() -> None:
    found = compare_rows(stream([("a", number, None) for number in range(50)]), [], SCHEMA, key=["id"])
    assert found.missing == 50
    assert len(found.examples) == 20
    assert compare_rows([], [], SCHEMA, key=["id"]).equal
