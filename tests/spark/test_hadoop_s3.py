"""Sessions that reach buckets each by the settings of their own connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.servers import S3, start_s3
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake
from tidegauge.spark.hadoop import configure_bucket
from tidegauge.spark.session import sibling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_bucket_that_was_reached_before_is_reached_anew_by_other_settings(
    spark: SparkSession, s3: S3
) -> None:
    bucket = s3.create_bucket()

    def read(server: S3) -> str:
        session = sibling(spark)
        keys = Secret(server.access_key), Secret(server.secret_key)
        configure_bucket(session, Lake("lake", f"s3a://{bucket}", server.endpoint, server.region, *keys))
        return str(session.read.text(f"s3a://{bucket}/file").first())

    with start_s3() as other:
        # Two servers stand for one whose keys were changed: the test server takes any key.
        other.client().create_bucket(
            Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": other.region}
        )
        for server, text in ((s3, b"one"), (other, b"another")):
            server.client().put_object(Bucket=bucket, Key="file", Body=text)
        assert [read(s3), read(other), read(s3)] == [
            "Row(value='one')",
            "Row(value='another')",
            "Row(value='one')",
        ]
