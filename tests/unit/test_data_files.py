"""The columns of a table's files, read without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.delta_log.data_files import FileColumns, NeedsSpark

WIDENED = [
    (pa.array([5], pa.int32()), pa.int64()),
    (pa.array([5], pa.int32()), pa.int8()),  # many writers have no narrower whole numbers in their files
    (pa.array([1.5], pa.float32()), pa.float64()),
    (pa.array([1], pa.decimal128(4, 2)), pa.decimal128(6, 3)),
]
OTHERS = [
    (pa.array([300], pa.int32()), pa.int8()),
    (pa.array([0.1], pa.float64()), pa.float32()),
    (pa.array([5], pa.int32()), pa.float64()),
    (pa.array([0], pa.date32()), pa.timestamp("us")),
    (pa.array(["5"]), pa.int64()),
]


def read(folder: Path, values: pa.Array, wanted: pa.DataType) -> pa.Array:
    pq.write_table(pa.table({"v": values}), folder / "a.parquet")
    columns = FileColumns(pa.schema([pa.field("v", wanted)]), {"v": "v"}, {}, (), False)
    return columns.read(folder, {"path": "a.parquet"}).column("v")


@pytest.mark.parametrize(("values", "wanted"), WIDENED)
def test_a_column_of_a_file_gets_the_tables_type(
    tmp_path: Path, values: pa.Array, wanted: pa.DataType
) -> None:
    found = read(tmp_path, values, wanted)
    assert found.type == wanted
    assert found.to_pylist() == values.to_pylist()


@pytest.mark.parametrize(("values", "wanted"), OTHERS)
def test_a_column_whose_values_would_change_is_left_to_spark(
    tmp_path: Path, values: pa.Array, wanted: pa.DataType
) -> None:
    with pytest.raises(NeedsSpark) as caught:
        read(tmp_path, values, wanted)
    assert f"{values.type} is no {wanted}" in str(caught.value)
