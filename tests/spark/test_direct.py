"""Rows that tasks read and write by themselves: those of the window, once, whatever becomes of a task."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import processes
from tests.support.servers import S3, MariaDB, Postgres, free_port
from tests.support.shared_servers import shared_connect
from tests.support.source_parts import Place, batches, mysql_place, postgresql_place, sqlite_place
from tidegauge.errors import ConfigError, SourceUnreachable, TypeNotHeld
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.plan import Batch
from tidegauge.model.position import Window
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake, NullCursor, ReadMethod, TableName
from tidegauge.model.staged import DataFile
from tidegauge.model.table import Field, Layout, SourceTable
from tidegauge.outputs.lake import splits as writing
from tidegauge.outputs.lake.splits import write_splits
from tidegauge.sources import connectorx_split
from tidegauge.sources.connectorx_split import ConnectorxSplit
from tidegauge.sources.direct import DirectReader, direct_reason, find_jdbc_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUT = Layout(TableName(None, "t"), (Field("id", "bigint", "integer"),), ("id",), "value", "id")


@dataclass(frozen=True)
class Numbers:
    """A split that fails as it is told, the first time."""

    first: int
    count: int
    fault: str = ""
    mark: str = ""

    def batches(self) -> Iterator[pa.RecordBatch]:
        half = self.count // 2
        yield self._rows(self.first, half)
        if self.fault and not Path(self.mark).exists():
            Path(self.mark).touch()
            if self.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "held":
                raise TypeNotHeld("t: column v holds a value", hint="mend it")
            raise RuntimeError(self.fault)
        yield self._rows(self.first + half, self.count - half)

    def _rows(self, first: int, count: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"id": range(first, first + count)}, schema=schema_of(LAYOUT))


def never() -> SparkSession:
    raise AssertionError("few rows need no Spark")


def ids(lake: Lake, files: tuple[DataFile, ...], name: str = "id") -> list[Any]:
    found: list[Any] = []
    for file in files:
        path = Path(lake.path, file.path)
        assert path.stat().st_size == file.bytes
        part = pq.read_table(path)
        assert part.num_rows == file.rows
        found += part.column(name).to_pylist()
    return found


def there(lake: Lake) -> list[str]:
    return sorted(str(path.relative_to(lake.path)) for path in Path(lake.path).rglob("*") if path.is_file())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake("lake", str(tmp_path / "lake é"))


def attempt() -> str:
    return f"t/data/{uuid.uuid4().hex}"


@pytest.mark.parametrize("rows", [None, 40])
def test_there_is_one_file_for_each_split_in_the_order_of_the_splits(
    spark: SparkSession, lake: Lake, rows: int | None
) -> None:
    batch_data = BatchRows(LAYOUT, rows, splits=tuple(Numbers(10 * n, 10) for n in range(4)))
    files = write_splits(lake, attempt(), batch_data, never if rows else lambda: spark)
    assert ids(lake, files) == list(range(40))
    assert [file.path for file in files] == sorted(file.path for file in files) == there(lake)


@pytest.mark.parametrize("rows", [None, 10])
def test_a_split_without_rows_leaves_no_file(spark: SparkSession, lake: Lake, rows: int | None) -> None:
    batch_data = BatchRows(LAYOUT, rows, splits=(Numbers(0, 0), Numbers(0, 10), Numbers(10, 0)))
    files = write_splits(lake, attempt(), batch_data, lambda: spark)
    assert [file.rows for file in files] == [10]
    assert there(lake) == [files[0].path]


@pytest.mark.parametrize("fault", ["kill", "something else"])
def test_d3_a_task_that_is_repeated_leaves_its_rows_once(
    spark: SparkSession, lake: Lake, tmp_path: Path, fault: str
) -> None:
    batch_data = BatchRows(
        LAYOUT, splits=(Numbers(0, 10), Numbers(10, 10, fault, str(tmp_path / "mark")), Numbers(20, 10))
    )
    files = write_splits(lake, attempt(), batch_data, lambda: spark)
    assert (tmp_path / "mark").exists()
    assert ids(lake, files) == list(range(30))
    assert there(lake) == [file.path for file in files]


def test_d3_two_tries_of_one_task_never_share_a_file(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As speculation has it: both end well, and Spark takes the answer of one."""
    where = attempt()
    batch_data = BatchRows(LAYOUT, splits=(Numbers(0, 10), Numbers(10, 10)))
    loser = writing._write(lake, where, 1, batch_data, batch_data.splits[1])
    assert there(lake) == [loser.path]
    files = write_splits(lake, where, batch_data, lambda: spark)
    assert loser.path not in [file.path for file in files]
    assert ids(lake, files) == list(range(20))
    assert there(lake) == [file.path for file in files]


def test_an_error_of_ours_crosses_with_its_class_and_is_not_tried_again(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    batch_data = BatchRows(LAYOUT, splits=(Numbers(0, 10), Numbers(10, 10, "held", str(tmp_path / "mark"))))
    with pytest.raises(TypeNotHeld, match="column v holds a value") as caught:
        write_splits(lake, attempt(), batch_data, lambda: spark)
    assert caught.value.hint == "mend it"
    assert not caught.value.retryable


def test_files_that_executors_wrote_elsewhere_are_missed(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegauge.errors import OutputDisagrees

    batch_data = BatchRows(LAYOUT, splits=(Numbers(0, 10),))
    real = writing._by_tasks

    def elsewhere(*given: Any) -> Any:
        files = real(*given)
        Path(lake.path, files[0].path).unlink()
        return files

    monkeypatch.setattr(writing, "_by_tasks", elsewhere)
    with pytest.raises(OutputDisagrees, match=r"part-00000.* is not in"):
        write_splits(lake, attempt(), batch_data, lambda: spark)


@pytest.mark.parametrize("rows", [None, 20])
def test_a_bucket_gets_the_same_files(spark: SparkSession, s3: S3, tmp_path: Path, rows: int | None) -> None:
    bucket = s3.create_bucket()
    keys = (Secret(s3.access_key), Secret(s3.secret_key))
    lake = Lake("lake", f"s3a://{bucket}/lake", s3.endpoint, s3.region, *keys)
    batch_data = BatchRows(LAYOUT, rows, splits=(Numbers(0, 10), Numbers(0, 0), Numbers(10, 10)))
    files = write_splits(lake, attempt(), batch_data, lambda: spark)
    found = []
    for file in files:
        body = s3.client().get_object(Bucket=bucket, Key=f"lake/{file.path}")["Body"].read()
        assert len(body) == file.bytes
        found += pq.read_table(pa.BufferReader(body)).column("id").to_pylist()
    assert found == list(range(20))
    assert [file.rows for file in files] == [10, 10]


@pytest.mark.shown_on("mysql", "postgresql")
def test_a1_ties_survive_any_batch_size_and_any_number_of_readers(place: Place, lake: Lake) -> None:
    place.run("CREATE TABLE t (a int NOT NULL, b varchar(5) NOT NULL, at date NOT NULL, PRIMARY KEY (a, b))")
    wanted = [(i // 3, f"k{i % 3}") for i in range(30)]
    for a, b in wanted:
        place.run(f"INSERT INTO t VALUES ({a}, '{b}', '2025-01-0{1 + a % 2}')")
    for step, parallel in ((1, 4), (4, 2), (7, 1), (100, 3)):
        source_table, survey = place.survey("t", step=step)
        got: list[tuple[Any, ...]] = []
        for batch in batches(survey, None, parallel):
            batch_data = DirectReader(place.database).batch_data(source_table, batch)
            assert len(batch_data.splits) == len(batch.split_points) + 1
            files = write_splits(lake, attempt(), batch_data, never)
            assert sum(file.rows for file in files) == batch.rows
            got += zip(ids(lake, files, "a"), ids(lake, files, "b"), strict=True)
        assert sorted(got) == wanted


def test_a10_null_cursors_are_read_by_their_own_batch(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at date)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01'), (2, NULL), (3, NULL)")
    source_table, survey = place.survey("t", null_cursor=NullCursor.INCLUDE)
    assert survey.upto is not None
    batch_data = DirectReader(place.database).batch_data(
        source_table, Batch((Window(survey.upto, survey.upto),), nulls=True, rows=2)
    )
    rows = [row["id"] for split in batch_data.splits for one in split.batches() for row in one.to_pylist()]
    assert sorted(rows) == [2, 3]


@pytest.mark.parametrize(
    "name",
    ['it\'s "quoted"', "back`tick", "per%cent ?", "semi; -- x", "{b} /* c */", "ünï😀", "a.b", ":x $1"],
)
def test_e1_any_name_arrives_as_it_is(place: Place, lake: Lake, name: str) -> None:
    from tests.contract.test_source import quote_of

    if place.engine == "mysql" and "😀" in name:
        name = name.replace("😀", "")  # MySQL's names are of the basic plane
    quote = quote_of(place)
    place.run(f"CREATE TABLE {quote(name)} (id int PRIMARY KEY, {quote(name)} date NOT NULL)")
    place.run(f"INSERT INTO {quote(name)} VALUES (1, '2025-01-01')")
    source_table, survey = place.survey(name, cursor=name)
    (batch,) = batches(survey, None)
    files = write_splits(lake, attempt(), DirectReader(place.database).batch_data(source_table, batch), never)
    assert pq.read_table(Path(lake.path, files[0].path)).column_names == ["id", name]
    assert ids(lake, files) == [1]


def many(place: Place, rows: int = 200_000) -> tuple[SourceTable, Batch]:
    if place.engine == "mysql":
        place.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(100) NOT NULL)")
        place.run(f"INSERT INTO t SELECT seq, REPEAT('x', 50) FROM seq_1_to_{rows}")
    else:
        place.run("CREATE TABLE t (id int PRIMARY KEY, v text NOT NULL)")
        place.run(f"INSERT INTO t SELECT n, REPEAT('x', 50) FROM generate_series(1, {rows}) n")
    source_table, survey = place.survey("t", cursor="id", step=rows // 2)
    (batch,) = batches(survey, None, 2)
    return source_table, batch


@pytest.fixture(params=["mysql", "postgresql"])
def server(request: pytest.FixtureRequest) -> Place:
    if request.param == "mysql":
        return mysql_place(request.getfixturevalue("mariadb"))
    return postgresql_place(request.getfixturevalue("postgres"))


def test_many_rows_are_streamed_by_tasks(spark: SparkSession, server: Place, lake: Lake) -> None:
    source_table, batch = many(server)
    files = write_splits(
        lake, attempt(), DirectReader(server.database).batch_data(source_table, batch), lambda: spark
    )
    assert [file.rows for file in files] == [100_000, 100_000]
    assert sorted(ids(lake, files)) == list(range(1, 200_001))


def streaming(place: Place, source_table: SourceTable, batch: Batch) -> ConnectorxSplit:
    split = DirectReader(place.database).batch_data(source_table, batch).splits[0]
    assert isinstance(split, ConnectorxSplit)
    return split


def test_a_server_that_cannot_be_reached_is_told_at_once_and_without_the_password(
    spark: SparkSession, server: Place, lake: Lake
) -> None:
    source_table, batch = many(server, 10)
    gone = replace(server.database, port=free_port())
    began = time.monotonic()
    for rows, session in ((10, never), (None, lambda: spark)):
        batch_data = DirectReader(gone).batch_data(source_table, replace(batch, rows=rows))
        with pytest.raises(SourceUnreachable, match=r"app: .* cannot be reached") as caught:
            write_splits(lake, attempt(), batch_data, session)
        assert caught.value.retryable
        assert_no_secret(server, caught.value)
    assert time.monotonic() - began < 300


def assert_no_secret(place: Place, *values: object) -> None:
    password = place.database.password
    assert password is not None
    for value in values:
        assert password.reveal() not in f"{value!r} {value}"
        assert "p%40ss" not in f"{value!r} {value}"


@pytest.mark.parametrize("rows", [10, None])
def test_a_connection_that_the_server_ends_is_told_as_lost(server: Place, rows: int | None) -> None:
    source_table, batch = many(server, 10)
    split = streaming(server, source_table, replace(batch, rows=rows))
    if server.engine == "mysql":
        slow = "SELECT id AS c0, CAST(SLEEP(20) AS CHAR) AS c1 FROM t"
        others = (
            "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT id AS c0, CAST(SLEEP%'"
        )
        kill = "KILL {}"
    else:
        slow = "SELECT id AS c0, pg_sleep(20)::text AS c1 FROM t"
        others = (
            "SELECT pid FROM pg_stat_activity WHERE query LIKE 'COPY (SELECT id AS c0, pg_sleep%'"
            " AND datname = current_database()"
        )
        kill = "SELECT pg_terminate_backend({})"
    # In a process of its own: while a stream waits, no other thread of its process can run.
    code = (
        "import pickle, sys\n"
        "try:\n    list(pickle.load(sys.stdin.buffer).batches())\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(pickle.dumps(replace(split, select=slow)))
    child.stdin.close()
    until = time.monotonic() + 600
    while not (found := server.run(others)):
        assert time.monotonic() < until
        assert child.poll() is None
        time.sleep(0.05)
    for (number,) in found:
        server.run(kill.format(number))
    assert child.stdout is not None
    said = child.stdout.read().decode()
    child.wait(30)
    assert said.startswith("SourceUnreachable")
    assert "was lost while reading" in said
    assert_no_secret(server, said)


@pytest.mark.parametrize("rows", [10, None])
def test_a_statement_that_takes_too_long_is_told_as_lost(postgres: Postgres, rows: int | None) -> None:
    place = postgresql_place(postgres)
    source_table, batch = many(place, 10)
    place.run(f'ALTER DATABASE "{place.database.database}" SET statement_timeout = 200')
    split = streaming(place, source_table, replace(batch, rows=rows))
    with pytest.raises(SourceUnreachable, match="statement timeout"):
        list(replace(split, select="SELECT id AS c0, pg_sleep(20)::text AS c1 FROM t").batches())


def test_a_stream_that_breaks_off_is_never_taken_for_the_end(
    server: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As connectorx had it before 0.4.6: an error just ended the stream."""
    import connectorx

    source_table, batch = many(server, 10)
    monkeypatch.setattr(connectorx_split, "_PIECE", 2)
    split = replace(streaming(server, source_table, replace(batch, rows=None)), here=True)
    whole = list(split.batches())
    assert sum(one.num_rows for one in whole) == 5
    real = connectorx.read_sql

    def cut(*given: Any, **more: Any) -> Any:
        found = list(real(*given, **more))
        return iter(found[:2])

    monkeypatch.setattr(connectorx, "read_sql", cut)
    with pytest.raises(SourceUnreachable, match="broke off"):
        list(split.batches())


def test_outside_of_tasks_a_stream_is_read_aside_so_that_other_threads_go_on(server: Place) -> None:
    source_table, batch = many(server, 10)
    sleep = "CAST(SLEEP(0.3) AS CHAR)" if server.engine == "mysql" else "pg_sleep(0.3)::text"
    split = streaming(server, source_table, replace(batch, rows=None))
    slow = replace(split, select=f"SELECT id AS c0, {sleep} AS c1 FROM t WHERE id < 4")
    beats: list[float] = []
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.02):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat)
    thread.start()
    assert [one.num_rows for one in slow.batches()] == [3]
    done.set()
    thread.join()
    assert len(beats) > 3  # who has to wait for the reader beats before and after it
    whole = list(replace(split, here=True).batches())
    assert [one.to_pylist() for one in split.batches()] == [one.to_pylist() for one in whole]
    assert list(replace(split, select=f"{split.select} AND 1 = 0").batches()) == []


@pytest.mark.long
def test_whoever_stops_half_way_ends_the_statement_too(server: Place) -> None:
    source_table, batch = many(server, 200_000)
    wide = "REPEAT(v, 100)" if server.engine == "mysql" else "repeat(v, 100)"
    split = replace(
        streaming(server, source_table, batch), select=f"SELECT id AS c0, {wide} AS c1 FROM t AS half_way"
    )
    assert split.rows == 100_000
    stream = split.batches()
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    if server.engine == "mysql":
        open_yet = (
            "SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO LIKE '%AS half_way'"
            " AND ID <> CONNECTION_ID()"
        )
    else:
        open_yet = (
            "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%half_way%' AND state = 'active'"
            " AND pid <> pg_backend_pid() AND datname = current_database()"
        )
    until = time.monotonic() + 600
    while server.run(open_yet):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_split_crosses_to_a_task_and_shows_no_secret(server: Place) -> None:
    source_table, batch = many(server, 10)
    split = streaming(server, source_table, batch)
    again = pickle.loads(pickle.dumps(split))
    assert again == split
    assert [one.to_pylist() for one in again.batches()] == [one.to_pylist() for one in split.batches()]
    assert_no_secret(server, split, again)


def test_other_threads_go_on_while_few_rows_are_read(server: Place) -> None:
    source_table, batch = many(server, 10)
    sleep = "CAST(SLEEP(0.3) AS CHAR)" if server.engine == "mysql" else "pg_sleep(0.3)::text"
    slow = replace(
        streaming(server, source_table, batch), select=f"SELECT id AS c0, {sleep} AS c1 FROM t WHERE id < 4"
    )
    beats: list[float] = []
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.02):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat)
    thread.start()
    list(slow.batches())
    done.set()
    thread.join()
    assert len(beats) > 3


def test_every_session_is_in_utc(server: Place, lake: Lake) -> None:
    if server.engine == "mysql":
        server.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp(6) NOT NULL)")
    else:
        server.run(f"ALTER DATABASE \"{server.database.database}\" SET TimeZone = 'America/New_York'")
        server.run("CREATE TABLE t (id int PRIMARY KEY, at timestamptz NOT NULL)")
    server.run("INSERT INTO t VALUES (1, '2024-11-03 06:30:00.999999')")
    source_table, survey = server.survey("t", cursor="id", types={"at": "string"})
    (batch,) = batches(survey, None)
    (row,) = [
        row
        for split in DirectReader(server.database).batch_data(source_table, batch).splits
        for one in split.batches()
        for row in one.to_pylist()
    ]
    assert row["at"].removesuffix("+00") == "2024-11-03 06:30:00.999999"


def test_read_says_which_way_and_an_impossible_one_is_refused(mariadb: MariaDB) -> None:
    place = mysql_place(mariadb)
    source_table, batch = many(place, 10)
    reader = DirectReader(place.database)
    jdbc = replace(source_table, options=replace(source_table.options, read=ReadMethod.JDBC))
    assert reader.batch_data(jdbc, batch).splits == ()
    assert find_jdbc_reason(jdbc, place.database) is None
    odd = replace(source_table.columns[1], finish="UPPER({})")
    strange = replace(source_table, columns=(source_table.columns[0], odd))
    assert "column v" in (find_jdbc_reason(strange, place.database) or "")
    batch_data = reader.batch_data(strange, batch)
    assert batch_data.splits == ()
    assert batch_data.frame is not None
    with pytest.raises(ConfigError, match=r"`read: direct` is not possible: .*column v"):
        reader.batch_data(
            replace(strange, options=replace(source_table.options, read=ReadMethod.DIRECT)), batch
        )


@pytest.mark.parametrize(
    ("engine", "host", "options", "word"),
    [
        ("mysql", "db.example.com", {}, "another machine"),
        ("mysql", "db.example.com", {"ssl": "disable"}, None),
        ("mysql", "localhost", {}, None),
        ("mysql", "::1", {"ssl": "prefer"}, None),
        ("mysql", "127.0.0.1", {"ssl": "verify-full"}, "TLS"),
        ("postgresql", "db.example.com", {"ssl": "require"}, None),
        ("postgresql", "db.example.com", {"ssl": "verify-full"}, "verify-full"),
    ],
)
def test_e2_no_connection_loses_its_tls_in_silence(
    request: pytest.FixtureRequest, engine: str, host: str, options: dict[str, str], word: str | None
) -> None:
    server = request.getfixturevalue("mariadb" if engine == "mysql" else "postgres")
    place = mysql_place(server) if engine == "mysql" else postgresql_place(server)
    source_table, _ = many(place, 10)
    reason = direct_reason(source_table, replace(place.database, host=host, options=options))
    assert (reason is None) if word is None else (reason is not None and word in reason)


def _write_through_connect(address: str, data: BatchRows, lake: Lake) -> list[tuple[str, int]]:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(address).getOrCreate()
    return [(file.path, file.rows) for file in write_splits(lake, "t/data/x", data, lambda: spark)]


def test_it_works_through_spark_connect(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
    place.run("INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'c')")
    source_table, survey = place.survey("t", cursor="id", step=2)
    (batch,) = batches(survey, None, 2)
    batch_data = DirectReader(place.database).batch_data(source_table, replace(batch, rows=None))
    data, lake = replace(batch_data, frame=None), Lake("lake", str(tmp_path / "lake"))
    # In a process that has no Spark of its own.
    files = processes.run(partial(_write_through_connect, shared_connect(), data, lake), fresh=True)
    assert [rows for _, rows in files] == [2, 1]
    assert pq.read_table(tmp_path / "lake" / files[0][0]).column("v").to_pylist() == ["a", None]
