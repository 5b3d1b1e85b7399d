"""Kill a flow between Delta tables in a bucket around its commit, where a row could come twice or be lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.attached import address_of
from tests.integration.test_layers_s3 import FEED, Bucket
from tests.support.nursery import Kill, Nursery
from tests.support.servers import S3
from tidegauge.run.steps import Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_b1_b2_a_runner_killed_around_the_commit_to_s3_loses_and_doubles_nothing(
    spark: SparkSession, nursery: Nursery, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TG_S3_KEY", s3.access_key)
    monkeypatch.setenv("TG_S3_SECRET", s3.secret_key)
    bucket = Bucket(spark, s3, tmp_path)
    bucket.sql(f"CREATE TABLE @t (id INT) {FEED}")
    bucket.write("  log: {inputs: {t: {path: @t}}, output: {path: @log, mode: append}}\n")
    shared = address_of(spark)
    places = [("before", Step.PUBLISH), ("after", Step.PUBLISH), ("before", Step.ADVANCE)]
    for turn, (side, step) in enumerate(places):
        bucket.sql(f"INSERT INTO @t VALUES ({turn})")
        killed = nursery.run(bucket.file, Kill("log", side, step), shared)
        assert killed.code == -9, (side, step, killed)
    last = nursery.run(bucket.file, None, shared)
    assert last.code == 0, last
    assert bucket.sql("SELECT * FROM @log") == [(turn,) for turn in range(len(places))]
    tags = bucket.tags("log")
    assert tags == [("0", seq) for seq in range(1, len(tags) + 1)]
