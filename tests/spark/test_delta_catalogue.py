"""Where Spark's catalogue keeps its Delta tables, asked without a Spark job."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import processes
from tests.support.connect import start_connect
from tests.support.spark_jobs import count_jobs
from tidegauge.delta_log.table import NewestVersion, read_newest, read_newest_of_many
from tidegauge.errors import ConfigError, SourceError, TableMissing
from tidegauge.sources.delta.catalogue import locate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def bronze(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A schema with two Delta tables, one Parquet table and a view."""
    spark.sql(f"CREATE SCHEMA bronze LOCATION '{tmp_path}/bronze'")
    spark.sql("CREATE TABLE bronze.orders (Location STRING NOT NULL, Provider INT) USING delta")
    spark.sql(f"CREATE TABLE bronze.lines (id BIGINT) USING delta LOCATION '{tmp_path}/odd ünï % x'")
    spark.sql("CREATE TABLE bronze.plain (id BIGINT) USING parquet")
    spark.sql("CREATE VIEW bronze.seen AS SELECT 1 AS one")
    yield "bronze"
    spark.sql("DROP SCHEMA bronze CASCADE")


def test_a_schema_gives_its_delta_tables_and_no_others(
    spark: SparkSession, bronze: str, tmp_path: Path
) -> None:
    before = count_jobs(spark)
    found = locate(spark, ["bronze"])
    assert found == {
        "bronze.lines": f"file:{tmp_path}/odd ünï % x",
        "bronze.orders": f"file:{tmp_path}/bronze/orders",
    }
    looks = read_newest_of_many(found)
    assert [one.version for one in looks.values() if isinstance(one, NewestVersion)] == [0, 0]
    assert count_jobs(spark) == before


def test_named_tables_are_found_by_any_way_of_writing(
    spark: SparkSession, bronze: str, tmp_path: Path
) -> None:
    orders = f"file:{tmp_path}/bronze/orders"
    before = count_jobs(spark)
    assert locate(spark, tables=["bronze.orders"]) == {"bronze.orders": orders}
    assert locate(spark, tables=["bronze.`orders`"]) == {"bronze.orders": orders}
    assert locate(spark, tables=["spark_catalog.bronze.orders"]) == {"spark_catalog.bronze.orders": orders}
    assert locate(spark, tables=["bronze.ORDERS"]) == {"bronze.ORDERS": orders}
    assert set(locate(spark, ["bronze"], ["bronze.orders"])) == {"bronze.orders", "bronze.lines"}
    assert count_jobs(spark) == before


def test_a_named_table_that_has_no_versions_is_an_error(spark: SparkSession, bronze: str) -> None:
    with pytest.raises(SourceError, match=r"bronze\.plain is a table of the format parquet"):
        locate(spark, tables=["bronze.orders", "bronze.plain"])
    with pytest.raises(SourceError, match=r"bronze\.seen is a view"):
        locate(spark, tables=["bronze.seen"])


def test_what_is_not_there_is_named(spark: SparkSession, bronze: str) -> None:
    with pytest.raises(TableMissing, match=r"the table bronze\.nope"):
        locate(spark, tables=["bronze.nope"])
    with pytest.raises(TableMissing, match="the schema nope"):
        locate(spark, ["nope"])
    with pytest.raises(TableMissing, match="the schema nope"):
        locate(spark, tables=["nope.orders"])
    for name in ("", "a..b", "a.`b", "x` OR"):
        with pytest.raises(ConfigError, match="is not the name of a table"):
            locate(spark, tables=[name])


def test_spark_and_we_agree_on_version_id_and_schema(spark: SparkSession, bronze: str) -> None:
    first = read_newest(locate(spark, tables=["bronze.lines"])["bronze.lines"])
    spark.sql("INSERT INTO bronze.lines VALUES (1)")
    second = read_newest(first.location)
    spark.sql("ALTER TABLE bronze.lines ADD COLUMN name STRING")
    third = read_newest(first.location)
    assert [one.version for one in (first, second, third)] == [0, 1, 2]
    assert first.table_id == third.table_id == spark.sql("DESCRIBE DETAIL bronze.lines").collect()[0].id
    assert first.schema_version == second.schema_version != third.schema_version
    newest = spark.sql("DESCRIBE HISTORY bronze.lines LIMIT 1").collect()[0]
    assert abs(newest.timestamp.timestamp() - third.commit_timestamp.timestamp()) < 5


@pytest.mark.shown_on("delta.enableInCommitTimestamps")
@pytest.mark.parametrize(
    "feature",
    [
        "delta.enableDeletionVectors",
        "delta.enableRowTracking",
        "delta.enableInCommitTimestamps",
        "delta.enableTypeWidening",
    ],
)
def test_tables_with_newer_features_tell_their_version(
    spark: SparkSession, bronze: str, feature: str
) -> None:
    spark.sql(f"CREATE TABLE bronze.newer (id INT) USING delta TBLPROPERTIES ('{feature}' = 'true')")
    spark.sql("INSERT INTO bronze.newer VALUES (1), (2), (3)")
    spark.sql("DELETE FROM bronze.newer WHERE id = 2")
    if "Widening" in feature:
        spark.sql("ALTER TABLE bronze.newer ALTER COLUMN id TYPE BIGINT")
    newest = spark.sql("DESCRIBE HISTORY bronze.newer LIMIT 1").collect()[0]
    found = read_newest(locate(spark, tables=["bronze.newer"])["bronze.newer"])
    assert found.version == newest.version
    assert abs(newest.timestamp.timestamp() - found.commit_timestamp.timestamp()) < 5


def test_clustered_tables_tell_their_version(spark: SparkSession, bronze: str) -> None:
    spark.sql("CREATE TABLE bronze.clustered (id INT, name STRING) USING delta CLUSTER BY (id)")
    spark.sql("INSERT INTO bronze.clustered VALUES (1, 'a')")
    assert read_newest(locate(spark, tables=["bronze.clustered"])["bronze.clustered"]).version == 1


def test_many_tables_are_listed_and_looked_at_at_once(
    spark: SparkSession, bronze: str, tmp_path: Path
) -> None:
    for number in range(20):
        shutil.copytree(tmp_path / "bronze" / "orders", tmp_path / "bronze" / f"t{number}")
        spark.sql(f"CREATE TABLE bronze.t{number} USING delta LOCATION '{tmp_path}/bronze/t{number}'")
    before, started = count_jobs(spark), time.process_time()
    found = read_newest_of_many(locate(spark, ["bronze"]))
    taken = time.process_time() - started
    print(f"22 tables in {taken:.2f} s")
    assert len(found) == 22
    assert all(isinstance(one, NewestVersion) for one in found.values())
    assert count_jobs(spark) == before
    # A third of the time that 120 of them have.
    assert taken < 0.7


@pytest.mark.long
def test_a_connect_session_is_asked_the_same_way(tmp_path: Path) -> None:
    def ask(address: str) -> dict[str, str]:
        from pyspark.sql import SparkSession

        remote = SparkSession.builder.remote(address).getOrCreate()
        remote.sql("CREATE SCHEMA bronze")
        remote.sql("CREATE TABLE bronze.orders (id BIGINT) USING delta")
        remote.sql("CREATE TABLE bronze.plain (id BIGINT) USING parquet")
        found = locate(remote, ["bronze"])
        assert found == locate(remote, tables=["bronze.orders"])
        with pytest.raises(TableMissing):
            locate(remote, ["nope"])
        with pytest.raises(TableMissing):
            locate(remote, tables=["bronze.nope"])
        return found

    with start_connect(tmp_path) as address:
        found = processes.run(partial(ask, address), fresh=True)
    assert found == {"bronze.orders": f"file:{tmp_path}/warehouse/bronze.db/orders"}
    assert read_newest(found["bronze.orders"]).version == 0
