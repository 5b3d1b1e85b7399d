"""Windows of a Delta table in a bucket."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.support.servers import S3
from tests.support.versioned import FEED, counted, told
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.plan import ReadWay
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.protocols.source import ChangedInput
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake
from tidegauge.sources.delta.changes import open_changed_input
from tidegauge.spark.hadoop import options_of
from tidegauge.spark.session import sibling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_table_in_a_bucket_is_read_by_every_way(spark: SparkSession, s3: S3) -> None:
    bucket = s3.create_bucket()
    path = f"s3a://{bucket}/raw/a table"
    keys = Secret(s3.access_key), Secret(s3.secret_key)
    lake = Lake("lake", f"s3a://{bucket}", s3.endpoint, s3.region, *keys)
    session = sibling(spark)
    for name, value in options_of(lake).items():
        session.conf.set(name.replace("fs.s3a.", f"fs.s3a.bucket.{bucket}.", 1), value)
    place = f"delta.`{path}`"
    session.sql(
        f"CREATE TABLE {place} (id INT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({FEED})"
    )
    session.sql(f"INSERT INTO {place} VALUES (1, 'a b%'), (2, NULL)")
    session.sql(f"UPDATE {place} SET p = 'c' WHERE id = 2")
    table = TableRef(path=path, storage=lake)

    def window(after: int | None, upto: int, way: ReadWay) -> ChangedInput:
        ends = (None if after is None else VersionPosition(after), VersionPosition(upto))
        return open_changed_input(session, table, path, Window(*ends), way)

    files = window(0, 1, ReadWay.FILES)
    assert told(counted(files.came())) == ["1 'a b%'", "2 None"]
    feed = window(1, 2, ReadWay.FEED)
    assert (told(counted(feed.came())), told(counted(feed.gone()))) == (["2 'c'"], ["2 None"])
    fresh = window(None, 2, ReadWay.SNAPSHOT)
    assert counted(fresh.now()) == Counter({("1", "'a b%'"): 1, ("2", "'c'"): 1})
    assert fresh.moment >= window(None, 1, ReadWay.PINNED).moment
