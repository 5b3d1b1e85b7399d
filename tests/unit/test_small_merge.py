"""Few rows against a small target, in Arrow alone: as Spark's MERGE and its `<=>` would have it."""

from __future__ import annotations

import math
import struct
import uuid
import zlib
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegauge.delta_log.data_files import NeedsSpark
from tidegauge.delta_log.deletion_vector import path_of_vector, read_deleted
from tidegauge.delta_log.file_stats import find_stats
from tidegauge.outputs.delta.small_merge import find_repeated, match_rows, merge_few
from tidegauge.outputs.delta.small_target import FewRows

TARGET = pa.table(
    {"id": [1, 2, 3], "at": [10, 10, None], "v": ["a", None, "c"], "theirs": ["x", "y", "z"]},
    schema=pa.schema([("id", pa.int64()), ("at", pa.int32()), ("v", pa.string()), ("theirs", pa.string())]),
)


def _merge(rows: list[tuple[int, int | None, str | None, bool]], **more: Any) -> FewRows:
    names = ["id", "at", "v"]
    given = pa.table(
        {
            name: pa.array([row[at] for row in rows], TARGET.schema.field(name).type)
            for at, name in enumerate(names)
        }
    )
    return merge_few(
        given,
        TARGET,
        places=match_rows(given, TARGET, ["id"]),
        goes=np.array([row[3] for row in rows]),
        key=["id"],
        written=names,
        **more,
    )


def test_rows_are_inserted_updated_deleted_or_left_as_they_are() -> None:
    few = _merge(
        [
            (1, 10, "a", False),
            (2, 10, "b", False),
            (3, None, None, True),
            (4, 1, "d", False),
            (9, 1, "", True),
        ]
    )
    assert few.inserted.to_pylist() == [{"id": 4, "at": 1, "v": "d", "theirs": None}]
    assert few.updated is not None
    assert few.updated.to_pylist() == [{"id": 2, "at": 10, "v": "b", "theirs": "y"}]
    assert (few.updated_at, few.deleted_at, few.read, few.is_idle) == ([1], [2], 5, False)
    assert _merge([(1, 10, "a", False)]).is_idle


def test_d8_what_is_older_changes_nothing_and_a_column_that_vanished_becomes_null() -> None:
    few = _merge(
        [(1, 9, "old", False), (2, 11, "new", False), (3, 1, "c", False)], sequence="at", vanished=["theirs"]
    )
    assert few.updated is not None
    assert few.updated.to_pylist() == [
        {"id": 2, "at": 11, "v": "new", "theirs": None},
        {"id": 3, "at": 1, "v": "c", "theirs": None},
    ]
    assert _merge([(1, 9, None, True), (2, None, None, True)], sequence="at").deleted_at == [1]


@pytest.mark.parametrize(
    ("type_of", "one", "other", "same"),
    [
        (pa.float64(), math.nan, math.nan, True),
        (pa.float64(), 0.0, -0.0, False),
        (pa.float64(), None, math.nan, False),
        (pa.string(), None, None, True),
        (pa.string(), "", None, False),
        (pa.list_(pa.string()), ["a", None], ["a", None], True),
        (pa.list_(pa.string()), None, [], False),
        (pa.struct([("a", pa.int32())]), {"a": None}, None, False),
        (pa.decimal128(12, 2), Decimal("1.10"), Decimal("1.1"), True),
    ],
)
def test_two_values_are_the_same_where_spark_says_so(
    type_of: pa.DataType, one: Any, other: Any, *, same: bool
) -> None:
    rows, there = (pa.table({"k": [1], "v": pa.array([value], type_of)}) for value in (one, other))
    few = merge_few(rows, there, places=[0], goes=np.array([False]), key=["k"], written=["k", "v"])
    assert few.is_idle is same


def test_keys_are_matched_by_all_their_columns_and_what_is_not_plain_is_left_to_spark() -> None:
    moments = [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)]
    target = pa.table({"a": ["x", "x", "y"], "b": pa.array([moments[0], moments[1], moments[0]])})
    rows = pa.table({"a": ["y", "y", "x"], "b": pa.array([moments[0], moments[1], moments[1]])})
    assert match_rows(rows, target, ["a", "b"]) == [2, -1, 1]
    assert match_rows(rows, target.slice(0, 0), ["a", "b"]) == [-1, -1, -1]
    assert not find_repeated(rows, ["a", "b"])
    assert find_repeated(rows, ["a"])
    assert find_repeated(pa.table({"a": ["x", None]}), ["a"])
    with pytest.raises(NeedsSpark, match="twice"):
        match_rows(rows, pa.concat_tables([target, target]), ["a", "b"])
    with pytest.raises(NeedsSpark, match="double"):
        find_repeated(pa.table({"a": [1.0]}), ["a"])


def test_the_least_and_greatest_values_of_a_file_bound_all_of_them() -> None:
    rows = pa.table(
        {
            "n": pa.array([3, None, -1], pa.int32()),
            "s": ["a", "b" * 33, None],
            "d": pa.array([date(2024, 1, 1), None, date(1, 1, 1)]),
            "t": pa.array([datetime(2024, 1, 1, 0, 0, 0, 1999, UTC)] * 3, pa.timestamp("us", "UTC")),
            "f": [1.0, math.nan, 2.0],
            "none": pa.nulls(3, pa.string()),
        }
    )
    found = find_stats(rows, {})
    assert found["numRecords"] == 3
    assert found["minValues"] == {"n": -1, "d": "0001-01-01", "t": "2024-01-01T00:00:00.001Z"}
    assert found["maxValues"] == {"n": 3, "d": "2024-01-01", "t": "2024-01-01T00:00:00.002Z"}
    assert found["nullCount"] == {"n": 1, "s": 1, "d": 1, "t": 0, "none": 3}
    assert find_stats(rows, {"delta.dataSkippingStatsColumns": "n"}) == {"numRecords": 3}


def test_a_deletion_vector_is_read_in_each_of_its_forms(tmp_path: Path) -> None:
    """One by one, as runs and as bits; beyond 32 bits; and one that is damaged."""
    few, many = [3, 4, 7, 11, 18, 29], list(range(0, 10000, 2))
    plain = struct.pack("<IIHHHHII", 12346, 2, 0, len(few) - 1, 1, len(many) - 1, 24, 36)
    bits = np.zeros(65536, dtype=np.uint8)
    bits[many] = 1
    plain += np.array(few, "<u2").tobytes() + np.packbits(bits, bitorder="little").tobytes()
    runs = struct.pack("<IBHHHHH", 12347, 1, 0, 4, 1, 100, 4)
    body = struct.pack("<iQI", 1681511377, 2, 0) + plain + struct.pack("<I", 1) + runs
    name = uuid.uuid4()
    path = tmp_path / f"deletion_vector_{name}.bin"
    path.write_bytes(b"\1" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body)))
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    text = ""
    for at in range(0, 16, 4):
        number = int.from_bytes(name.bytes[at : at + 4], "big")
        text += "".join(digits[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    wanted = [*few, *(one + 65536 for one in many), *(2**32 + one for one in range(100, 105))]
    vector = {"storageType": "u", "pathOrInlineDv": text, "offset": 1, "sizeInBytes": len(body)}
    assert read_deleted(tmp_path, {**vector, "cardinality": len(wanted)}).tolist() == wanted
    with pytest.raises(ValueError, match="as many rows"):
        read_deleted(tmp_path, {**vector, "cardinality": 1})
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(ValueError, match="damaged"):
        read_deleted(tmp_path, {**vector, "cardinality": len(wanted)})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("HelloWorld" * 2, "864fd26f-b559-f75b-864f-d26fb559f75b"),
        ("JTKVSB%%)wK0E.X)V>+}", "8e0bdd69-7628-b91d-8f24-5587ee95c5b0"),
    ],
)
def test_the_file_of_a_deletion_vector_is_named_in_z85(text: str, name: str) -> None:
    """The texts are those of ZeroMQ's RFC 32, which defines Z85."""
    assert path_of_vector(text) == f"deletion_vector_{name}.bin"
    assert path_of_vector(f"ab{text}") == f"ab/deletion_vector_{name}.bin"


@pytest.mark.parametrize("bad", ["é", " ", '"', ";", "_", "`", "|", "~"])
def test_what_is_no_digit_of_z85_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="is not Z85"):
        path_of_vector(f"HelloWorldHello{bad}orld")


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_a_zero_that_changes_its_sign_is_a_change(kind: pa.DataType) -> None:
    was = [0.0, -0.0, 0.0, math.nan, None, 1.5, None]
    now = [-0.0, 0.0, 0.0, math.nan, None, 1.5, 0.0]
    target = pa.table({"id": list(range(7)), "v": pa.array(was, kind)})
    rows = pa.table({"id": list(range(7)), "v": pa.array(now, kind)})
    few = merge_few(
        rows, target, places=list(range(7)), goes=np.zeros(7, dtype=bool), key=["id"], written=["id", "v"]
    )
    assert few.updated_at == [0, 1, 6]
    inside = pa.table({"id": [1], "v": pa.array([[0.0]], pa.list_(kind))})
    with pytest.raises(NeedsSpark):
        merge_few(inside, inside, places=[0], goes=np.zeros(1, dtype=bool), key=["id"], written=["id", "v"])
