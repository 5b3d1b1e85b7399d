"""Rows that Spark alone can read, on their way into a warehouse that loads files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.warehouses import Yard, batch_to, counts, flow_of, layout_of, make, tag_of
from tidegauge.model.batch_data import BatchRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAYOUT = layout_of(("id", "bigint"), ("name", "string"), ("ts", "timestamp_ntz"), ("at", "bigint"))


def frame(spark: SparkSession) -> DataFrame:
    return spark.range(1, 1001, numPartitions=3).selectExpr(
        "id", "concat('n', id) AS name", "timestamp_ntz'2025-03-30 02:30:00.000001' AS ts", "id * 2 AS at"
    )


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_a_frame_is_loaded_by_files_that_are_gone_afterwards(
    spark: SparkSession,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    engine: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scratch = tmp_path / "scratch é"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    yard: Yard = make(engine, request, tmp_path)
    flow = flow_of(yard)
    output = yard.output(flow)
    for seq, expected in ((1, (1000, 1000, 0, 0)), (2, (1000, 0, 0, 0))):
        staged = output.stage(BatchRows(LAYOUT, frame=frame), lambda: spark)
        assert list(scratch.iterdir()) == []
        receipt = output.commit(tag_of(flow, seq), batch_to(seq), staged, layout=LAYOUT, run_id="r")
        assert counts(receipt) == expected
    assert yard.rows(f"SELECT COUNT(*), SUM({yard.house().name('at')}) FROM {yard.at('orders')}") == [
        (1000, 1001000)
    ]
    assert yard.contents("orders", ["ts"])[0] == ("2025-03-30 02:30:00.000001",)
