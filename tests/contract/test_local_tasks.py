"""Tasks by processes of this machine: what they answer, how they fail, and that they end."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.test_warehouse_tasks import yard
from tests.support import every_type
from tests.support.cutting_proxy import cutting
from tests.support.servers import S3, Postgres
from tests.support.source_parts import batches, mysql_place, postgresql_place, sqlite_place
from tests.support.warehouses import ORDERS, Heap, Yard, batch_of, batch_to, counts, flow_of, tag_of
from tidegauge.errors import OutputError, SourceUnreachable, TidegaugeError, TypeNotHeld
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.moved_by import MovedBy
from tidegauge.model.secret import Secret
from tidegauge.model.spark_settings import SparkSettings
from tidegauge.model.spec import Lake
from tidegauge.outputs.lake.splits import write_splits
from tidegauge.sources.direct import DirectReader
from tidegauge.spark import on_demand
from tidegauge.spark.local_tasks import LocalTasks, has_local_tasks, is_worker
from tidegauge.spark.on_demand import SparkOnDemand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


__all__ = ["yard"]


def never() -> SparkSession:
    raise AssertionError("processes are at hand")


@pytest.fixture(scope="module")
def local() -> Iterator[LocalTasks]:
    with closing(LocalTasks(2)) as made:
        yield made


@pytest.fixture
def spark(local: LocalTasks, monkeypatch: pytest.MonkeyPatch) -> SparkOnDemand:
    """With which no batch has few rows."""
    monkeypatch.setattr(on_demand, "FEW", -1)
    return SparkOnDemand(never, lambda: local)


def double(number: int) -> tuple[int, int, bool]:
    return 2 * number, os.getpid(), is_worker()


def fail(how: str) -> None:
    match how:
        case "held":
            raise TypeNotHeld("column v holds a value", hint="mend it")
        case "lost":
            raise SourceUnreachable("it is gone", hint="look for it")
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "noise":
            os.write(1, b"a library prints\n")
        case _:
            raise ValueError(how)


def test_answers_come_in_the_order_of_the_tasks_from_other_processes(local: LocalTasks) -> None:
    found = local.run(double, [(number,) for number in range(7)])
    assert [one for one, _, _ in found] == [2 * number for number in range(7)]
    assert os.getpid() not in {pid for _, pid, _ in found}
    assert 1 <= len({pid for _, pid, _ in found}) <= 2
    assert all(inside for _, _, inside in found)
    assert not is_worker()


def test_an_error_of_ours_crosses_with_its_class_and_the_one_that_stays_is_told(local: LocalTasks) -> None:
    with pytest.raises(TypeNotHeld, match="column v holds a value") as caught:
        local.run(fail, [("lost",), ("held",), ("noise",)])
    assert caught.value.hint == "mend it"
    assert not caught.value.retryable
    with pytest.raises(SourceUnreachable) as lost:
        local.run(fail, [("lost",)])
    assert lost.value.retryable


def test_a_surprise_is_told_with_where_it_came_from(local: LocalTasks) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)in fail.*ValueError: odd"):
        local.run(fail, [("odd",)])


def test_a_process_that_is_killed_fails_its_task_and_another_takes_its_place(local: LocalTasks) -> None:
    for _ in range(2):
        with pytest.raises(SourceUnreachable, match="ended with -9") as caught:
            local.run(fail, [("killed",)])
        assert caught.value.retryable
    assert [one for one, _, _ in local.run(double, [(1,), (2,)])] == [2, 4]


def test_the_processes_end_with_their_owner() -> None:
    own = LocalTasks(2)
    own.warm_up(3)
    pids = {pid for _, pid, _ in own.run(double, [(1,), (2,), (3,)])}
    own.close()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize(
    ("settings", "local"),
    [
        (SparkSettings(), True),
        (SparkSettings("local"), True),
        (SparkSettings("local[3]"), True),
        (SparkSettings("local[*, 2]"), True),
        (SparkSettings("local-cluster[2,1,1024]"), False),
        (SparkSettings("sc://somewhere:15002"), False),
        (SparkSettings("yarn"), False),
        (SparkSettings("spark://somewhere:7077"), False),
        (SparkSettings(conf={"spark.master": "k8s://https://somewhere"}), False),
    ],
)
def test_only_a_spark_of_this_machine_is_spared(
    settings: SparkSettings, local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.spark.local_tasks.is_at_hand", lambda: False)
    assert has_local_tasks(settings) is local
    monkeypatch.setattr("tidegauge.spark.local_tasks.is_at_hand", lambda: True)
    assert not has_local_tasks(settings)
    monkeypatch.setattr("tidegauge.spark.local_tasks.is_at_hand", lambda: False)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not has_local_tasks(settings), "spark-submit has started one"


@dataclass(frozen=True)
class Numbers:
    first: int
    count: int
    room: int = 0
    """Bytes that its process may write into one file."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.room:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.room, resource.RLIM_INFINITY))
        numbers = range(self.first, self.first + self.count)
        yield batch_of(ORDERS, [(n, f"{os.urandom(8).hex()} {n}", Decimal(n), n) for n in numbers])


@dataclass(frozen=True)
class Unsynced(Numbers):
    """Numbers on a file system that syncs no file that is open for reading alone."""

    asked: Path = Path("asked")
    """A file that is made when a sync is asked for."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        assert is_worker(), "nothing is synced any more in this process"

        def refuse(fd: Any) -> None:
            self.asked.touch()
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

        os.fsync = refuse
        yield from super().batches()


def ids(folder: Path, files: Any) -> list[int]:
    found: list[int] = []
    for file in files:
        assert (folder / file.path).stat().st_size == file.bytes
        found += pq.read_table(folder / file.path).column("id").to_pylist()
    return found


def test_there_is_one_file_for_each_split_that_has_rows_in_their_order(
    spark: SparkOnDemand, tmp_path: Path
) -> None:
    lake = Lake("lake", str(tmp_path / "lake é"))
    parts = (Numbers(0, 10), Numbers(10, 0), Numbers(10, 10), Numbers(20, 10))
    files = write_splits(lake, "t/data/x", BatchRows(ORDERS, splits=parts), spark)
    assert ids(Path(lake.path), files) == list(range(30))
    assert [file.rows for file in files] == [10, 10, 10]
    assert sorted(Path(lake.path).rglob("*.parquet")) == [Path(lake.path, file.path) for file in files]
    assert spark.take_mover() is MovedBy.PROCESSES


def test_a_bucket_gets_the_same_files(spark: SparkOnDemand, s3: S3) -> None:
    bucket = s3.create_bucket()
    keys = (Secret(s3.access_key), Secret(s3.secret_key))
    lake = Lake("lake", f"s3a://{bucket}/lake", s3.endpoint, s3.region, *keys)
    parts = (Numbers(0, 10), Numbers(10, 10))
    files = write_splits(lake, "t/data/x", BatchRows(ORDERS, splits=parts), spark)
    found = []
    for file in files:
        body = s3.client().get_object(Bucket=bucket, Key=f"lake/{file.path}")["Body"].read()
        found += pq.read_table(pa.BufferReader(body)).column("id").to_pylist()
    assert found == list(range(20))


def test_a_disk_that_is_full_fails_the_batch_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_demand, "FEW", -1)
    parts = BatchRows(ORDERS, splits=(Numbers(0, 10), Numbers(10, 50_000, room=65_536)))
    with closing(LocalTasks(2)) as own, pytest.raises(OutputError, match="File too large"):
        write_splits(Lake("lake", str(tmp_path)), "t/data/x", parts, SparkOnDemand(never, lambda: own))
    assert len(list(tmp_path.rglob("*.parquet"))) == 1, (
        "the half of a file is gone, what is whole is nobody's"
    )


def test_a_file_system_that_has_nothing_to_sync_takes_files_of_tasks_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_demand, "FEW", -1)
    asked = [tmp_path / "asked first", tmp_path / "asked second"]
    splits = tuple(Unsynced(10 * turn, 10, asked=file) for turn, file in enumerate(asked))
    parts = BatchRows(ORDERS, splits=splits)
    with closing(LocalTasks(2)) as own:
        files = write_splits(
            Lake("lake", str(tmp_path)), "t/data/x", parts, SparkOnDemand(never, lambda: own)
        )
    assert ids(tmp_path, files) == list(range(20))
    assert all(file.exists() for file in asked)


@pytest.mark.parametrize("engine", ["mysql", "postgresql", "sqlite"])
@pytest.mark.parametrize("rows", [30, None])
def test_tables_are_streamed_by_the_processes_themselves(
    request: pytest.FixtureRequest, spark: SparkOnDemand, tmp_path: Path, engine: str, rows: int | None
) -> None:
    match engine:
        case "mysql":
            place = mysql_place(request.getfixturevalue("mariadb"))
        case "postgresql":
            place = postgresql_place(request.getfixturevalue("postgres"))
        case _:
            place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(100) NOT NULL)")
    place.run("INSERT INTO t VALUES " + ", ".join(f"({n}, 'v{n}')" for n in range(30)))
    source_table, survey = place.survey("t", cursor="id", step=10)
    [batch] = batches(survey, None, 3)
    assert batch.rows == 30
    data = DirectReader(place.database).batch_data(source_table, batch)
    data = BatchRows(data.layout, rows, splits=data.splits)
    files = write_splits(Lake("lake", str(tmp_path / "lake")), "t/data/x", data, spark)
    assert sorted(ids(tmp_path / "lake", files)) == list(range(30))
    assert [file.rows for file in files] == [10, 10, 10]


def test_a_connection_that_is_cut_fails_the_batch_as_lost(
    spark: SparkOnDemand, postgres: Postgres, tmp_path: Path
) -> None:
    place = postgresql_place(postgres)
    place.run("CREATE TABLE t (id int PRIMARY KEY, v text NOT NULL)")
    place.run("INSERT INTO t SELECT n, 'v' FROM generate_series(1, 30) n")
    source_table, survey = place.survey("t", cursor="id", step=10)
    [batch] = batches(survey, None, 3)
    with cutting(postgres.port) as proxy:
        proxy.cut_at(b"COPY (", heard=False)
        cut = replace(place.database, host="127.0.0.1", port=proxy.port)
        data = DirectReader(cut).batch_data(source_table, batch)
        with pytest.raises(SourceUnreachable) as caught:
            write_splits(Lake("lake", str(tmp_path)), "t/data/x", data, spark)
        assert proxy.cuts == 1
    assert caught.value.retryable
    assert place.database.password is not None
    assert place.database.password.reveal() not in f"{caught.value!r} {caught.value.detail}"


def test_a_warehouse_takes_them_over_connections_of_their_own(yard: Yard, spark: SparkOnDemand) -> None:
    flow = flow_of(yard)
    output = yard.output(flow)
    data = BatchRows(ORDERS, splits=tuple(Numbers(100 * n, 150) for n in range(4)))
    staged = output.stage(data, spark)
    receipt = output.commit(tag_of(flow, 1), batch_to(1), staged, layout=ORDERS, run_id="run1")
    assert counts(receipt) == (600, 450, 0, 0)
    assert yard.staging_tables() == []
    assert spark.take_mover() is MovedBy.PROCESSES
    with pytest.raises(TidegaugeError, match="ended with -9"):
        output.stage(BatchRows(ORDERS, splits=(Numbers(0, 5), Killing())), spark)
    assert yard.staging_tables() == []


@dataclass(frozen=True)
class Killing:
    def batches(self) -> Iterator[pa.RecordBatch]:
        yield batch_of(ORDERS, [(7, "a", Decimal(7), 7)])
        os.kill(os.getpid(), signal.SIGKILL)


def test_every_type_lands_in_a_warehouse_as_this_process_brings_it(
    yard: Yard, spark: SparkOnDemand, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, rows = every_type.LAYOUT, tuple(every_type.ROWS)
    flow = flow_of(yard)
    for seq, few in ((1, -1), (2, 1_000)):
        monkeypatch.setattr(on_demand, "FEW", few)
        output = yard.output(flow)
        staged = output.stage(BatchRows(layout, len(rows), splits=(Heap(layout, rows),)), spark)
        receipt = output.commit(tag_of(flow, seq), batch_to(seq), staged, layout=layout, run_id=f"run{seq}")
        # By the other way the same rows: nothing differs.
        assert counts(receipt) == (len(rows), len(rows) if seq == 1 else 0, 0, 0)
        assert spark.take_mover() is (MovedBy.PROCESSES if seq == 1 else MovedBy.PROCESS)
