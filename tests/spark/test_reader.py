"""The rows of a batch, through Spark, are exactly those of its window."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.servers import MariaDB, Postgres
from tests.support.source_parts import (
    Place,
    batches,
    mysql_place,
    postgresql_place,
    sqlite_place,
)
from tidegauge.model.plan import Batch
from tidegauge.model.position import Window
from tidegauge.model.spec import NullCursor
from tidegauge.sources.direct import DirectReader
from tidegauge.sources.jdbc import JdbcReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows_of(spark: SparkSession, place: Place, source_table: Any, batch: Batch) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in DirectReader(place.database).frame(spark, source_table, batch).collect()]


@pytest.mark.shown_on("mysql")
def test_a1_ties_survive_any_batch_size_and_any_number_of_readers(spark: SparkSession, place: Place) -> None:
    place.run("CREATE TABLE t (a int NOT NULL, b varchar(5) NOT NULL, at date NOT NULL, PRIMARY KEY (a, b))")
    wanted = [(i // 3, f"k{i % 3}") for i in range(30)]
    for a, b in wanted:
        place.run(f"INSERT INTO t VALUES ({a}, '{b}', '2025-01-0{1 + a % 2}')")
    for step, parallel in ((1, 4), (4, 2), (7, 1), (100, 3)):
        source_table, survey = place.survey("t", step=step)
        got: list[tuple[Any, ...]] = []
        for batch in batches(survey, None, parallel):
            found = rows_of(spark, place, source_table, batch)
            assert len(found) == batch.rows
            got += [row[:2] for row in found]
        assert sorted(got) == wanted


def test_a10_null_cursors_are_read_by_their_own_batch(spark: SparkSession, place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at date)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01'), (2, NULL), (3, NULL)")
    source_table, survey = place.survey("t", null_cursor=NullCursor.INCLUDE)
    assert survey.upto is not None
    found = rows_of(spark, place, source_table, Batch((Window(survey.upto, survey.upto),), nulls=True))
    assert sorted(row[0] for row in found) == [2, 3]


@pytest.mark.shown_on("postgresql", "sqlite")
@pytest.mark.parametrize(
    "name", ['it\'s "quoted"', "back`tick", "per%cent ?", "semi; -- x", "{b} /* c */", "ünï😀", "a.b"]
)
def test_e1_any_name_arrives_as_it_is(spark: SparkSession, place: Place, name: str) -> None:
    from tests.contract.test_source import quote_of

    if place.engine == "mysql" and "😀" in name:
        name = name.replace("😀", "")  # MySQL's names are of the basic plane
    quote = quote_of(place)
    place.run(f"CREATE TABLE {quote(name)} (id int PRIMARY KEY, {quote(name)} date NOT NULL)")
    place.run(f"INSERT INTO {quote(name)} VALUES (1, '2025-01-01')")
    source_table, survey = place.survey(name, cursor=name)
    (batch,) = batches(survey, None)
    frame = DirectReader(place.database).frame(spark, source_table, batch)
    assert frame.columns == ["id", name]
    assert frame.count() == 1


def test_a15_no_zone_of_spark_shifts_a_timestamp(
    spark: SparkSession, mariadb: MariaDB, postgres: Postgres, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "America/New_York")
    for number, place in enumerate((mysql_place(mariadb), postgresql_place(postgres))):
        kind = "timestamptz" if number else "timestamp(6)"
        naive = "timestamp" if number else "datetime(6)"
        place.run(f"CREATE TABLE t (id int PRIMARY KEY, naive {naive}, at {kind} NOT NULL)")
        # Inside the hour that does not exist there, and inside the one that is twice.
        place.run("INSERT INTO t VALUES (1, '2024-03-10 02:30:00.000001', '2024-03-10 02:30:00.000001')")
        place.run("INSERT INTO t VALUES (2, '2024-11-03 01:30:00.999999', '2024-11-03 06:30:00.999999')")
        source_table, survey = place.survey("t")
        (batch,) = batches(survey, None)
        texts: list[list[str]] = []
        for session in (spark, other):
            path = str(tmp_path / f"{number}{len(texts)}")
            JdbcReader(place.database).read(session, source_table, batch).write.parquet(path)
            texts.append([str(row) for row in pq.read_table(path).sort_by("id").to_pylist()])
        assert texts[0] == texts[1]
        assert "2024, 3, 10, 2, 30, 0, 1)" in texts[0][0]
        assert "2024, 11, 3, 1, 30, 0, 999999)" in texts[0][1]
        assert "2024, 11, 3, 6, 30, 0, 999999, tzinfo" in texts[0][1]


def test_a_count_sees_a_value_that_cannot_be_held_too(spark: SparkSession, postgres: Postgres) -> None:
    place = postgresql_place(postgres)
    place.run("CREATE TABLE t (id int PRIMARY KEY, v numeric(5,2))")
    place.run("INSERT INTO t VALUES (1, 'NaN')")
    source_table, survey = place.survey("t", cursor="id")
    (batch,) = batches(survey, None)
    with pytest.raises(Exception, match=r"tidegauge: public\.t: column v"):
        JdbcReader(place.database).read(spark, source_table, batch).select("id").count()


def test_a_sqlite_file_in_use_by_a_writer_is_read_as_committed(spark: SparkSession, tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    writer = place.connect()
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    writer.execute("INSERT INTO t VALUES (1), (9000000000)")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO t VALUES (2)")
    source_table, survey = place.survey("t", cursor="id")
    (batch,) = batches(survey, None)
    assert sorted(rows_of(spark, place, source_table, batch)) == [(1,), (9000000000,)]
    writer.close()


def test_a_mysql_result_is_streamed_and_not_held_in_memory(spark: SparkSession, mariadb: MariaDB) -> None:
    """While a slow consumer takes its time, the server is still sending."""
    from pyspark.sql.functions import col, udf

    place = mysql_place(mariadb)
    place.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    place.run("INSERT INTO t SELECT seq, seq FROM seq_1_to_300")
    source_table, survey = place.survey("t", cursor="id")
    (batch,) = batches(survey, None)
    wide = replace(source_table.columns[1], select="REPEAT('x', 200000)", wire="string", arrives="string")
    source_table = replace(source_table, columns=(source_table.columns[0], wide))
    small = spark.newSession()
    small.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")

    def slow(_: str) -> float:
        time.sleep(0.01)
        return time.time()

    consume = udf(slow, "double").asNondeterministic()
    frame = JdbcReader(place.database).read(small, source_table, batch).select(consume(col("v")))
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(frame.collect)
        sending = 0.0
        while not job.done():
            if place.run(
                "SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO LIKE '%200000%' AND DB = DATABASE()"
                " AND ID <> CONNECTION_ID()"
            ):
                sending = time.time()
            time.sleep(0.05)
        times = [row[0] for row in job.result()]
    assert len(times) == 300
    assert sending > min(times) + 1
