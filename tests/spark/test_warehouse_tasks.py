"""Bulk loads by Spark tasks into the databases that take them so."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.support import every_type
from tests.support.warehouse_servers import hold_mariadb, hold_postgres, mariadb_database, postgres_database
from tests.support.warehouses import (
    ORDERS,
    Heap,
    Yard,
    batch_of,
    batch_to,
    counts,
    flow_of,
    layout_of,
    tag_of,
)
from tidegauge.errors import OutputError, OutputUnreachable, SourceUnreachable
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.plan import Receipt
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake
from tidegauge.outputs.warehouse import tasks
from tidegauge.spark import on_demand
from tidegauge.spark.task_values import pickle_with_secrets, unpickle_with_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=["postgres", "mariadb"])
def yard(request: pytest.FixtureRequest) -> Yard:
    if request.param == "postgres":
        database = postgres_database(request.getfixturevalue("postgres"))
        return Yard("postgres", database, database.schema, hold_postgres)
    database = mariadb_database(request.getfixturevalue("mariadb"))
    return Yard("mariadb", database, database.database, hold_mariadb)


@pytest.fixture(autouse=True)
def _everything_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_demand, "FEW", 0)


@dataclass(frozen=True)
class Range:
    """Orders with these numbers, in many batches."""

    first: int
    last: int
    name: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        for start in range(self.first, self.last + 1, 1000):
            numbers = range(start, min(start + 1000, self.last + 1))
            yield batch_of(ORDERS, [(n, f"{self.name} {n}", Decimal(n) / 100, n) for n in numbers])


@dataclass(frozen=True)
class Failing:
    """Breaks off in the middle, as often as its file says."""

    inner: Range
    mark: Path
    error: Exception

    def batches(self) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(self.inner.batches()):
            if number == 1 and (left := int(self.mark.read_text())):
                self.mark.write_text(str(left - 1))
                raise self.error
            yield batch


def load(yard: Yard, batch_data: BatchRows, spark: SparkSession, seq: int = 1) -> Receipt:
    flow = flow_of(yard)
    output = yard.output(flow)
    staged = output.stage(batch_data, lambda: spark)
    return output.commit(
        tag_of(flow, seq), batch_to(seq), staged, layout=batch_data.layout, run_id=f"run{seq}"
    )


@pytest.mark.shown_on("postgres")
def test_stretches_are_read_by_tasks_and_the_later_of_two_rows_counts(
    yard: Yard, spark: SparkSession
) -> None:
    splits = tuple(Range(1 + 500 * n, 2500 + 500 * n, f"s{n}") for n in range(40))
    receipt = load(yard, BatchRows(ORDERS, rows=100_000, splits=splits), spark)
    # Each begins inside the one before; the last has 2,500 rows of its own name.
    assert counts(receipt) == (100_000, 22_000, 0, 0)
    named = yard.rows(
        "SELECT COUNT(*), SUM(CASE WHEN name LIKE 's39 %' THEN 1 ELSE 0 END), MIN(name)"
        f" FROM {yard.at('orders')}"
    )
    assert (int(named[0][0]), int(named[0][1]), named[0][2]) == (22_000, 2_500, "s0 1")
    assert yard.staging_tables() == []
    again = load(yard, BatchRows(ORDERS, splits=(Range(21_000, 23_000, "new"),)), spark, seq=2)
    assert counts(again) == (2_001, 1_000, 1_001, 0)


def test_a_frame_alone_lands_with_every_type(yard: Yard, spark: SparkSession) -> None:
    layout, rows = every_type.LAYOUT, every_type.ROWS

    def frame(session: SparkSession) -> object:
        table = pa.Table.from_batches([batch_of(layout, rows)])
        return session.createDataFrame(table).repartition(3)

    receipt = load(yard, BatchRows(layout, frame=frame), spark)  # type: ignore[arg-type]
    assert counts(receipt) == (len(rows), len(rows), 0, 0)
    # By the other way the same rows: nothing differs.
    assert counts(load(yard, BatchRows(layout, splits=(Heap(layout, tuple(rows)),)), spark, seq=2)) == (
        len(rows), 0, 0, 0,
    )  # fmt: skip


def test_d3_a_task_that_fails_half_way_and_is_repeated_leaves_no_row_twice(
    yard: Yard, spark: SparkSession, tmp_path: Path
) -> None:
    mark = tmp_path / "left"
    mark.write_text("1")
    shaky = Failing(Range(1, 5000, "a"), mark, RuntimeError("the executor is lost"))
    receipt = load(yard, BatchRows(ORDERS, splits=(shaky, Range(5001, 6000, "b"))), spark)
    assert mark.read_text() == "0"
    assert counts(receipt) == (6000, 6000, 0, 0)


def test_an_error_of_ours_crosses_as_what_it_is(yard: Yard, spark: SparkSession, tmp_path: Path) -> None:
    mark = tmp_path / "left"
    mark.write_text("99")
    gone = SourceUnreachable("shop: it is gone", hint="look for it")
    with pytest.raises(SourceUnreachable, match="it is gone") as told:
        load(yard, BatchRows(ORDERS, splits=(Failing(Range(1, 5000, "a"), mark, gone),)), spark)
    assert told.value.hint == "look for it"
    assert mark.read_text() == "98"  # Not tried again and again.
    assert yard.staging_tables() == []


def test_a_value_that_has_no_place_is_told_once(yard: Yard, spark: SparkSession) -> None:
    layout = layout_of(("id", "bigint"), ("t", "string"), ("d", "double"))
    odd = ((1, "a", 1.0), (2, "b\0", float("nan")))
    with pytest.raises(OutputError, match="of the row with id = 2"):
        load(yard, BatchRows(layout, splits=(Heap(layout, odd),)), spark)
    assert yard.staging_tables() == []


def test_a_secret_goes_along_with_a_task_and_nowhere_else() -> None:
    lake = Lake("lake", "s3a://bucket/raw", access_key=Secret("key-of-the-bucket"))
    (found,) = unpickle_with_secrets(pickle_with_secrets((lake,)))
    assert found == lake
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(lake)


def test_a_server_that_is_gone_is_worth_another_try() -> None:
    sink = _Lost(failures=2)
    body = pickle_with_secrets((Range(1, 10, "a"),))
    assert tasks._take_with_retries(sink, 0, 0, body) == 10
    with pytest.raises(OutputUnreachable):
        tasks._take_with_retries(_Lost(failures=3), 0, 0, body)


@dataclass
class _Lost:
    failures: int

    def take(self, task: int, parts: tasks.Parts) -> int:
        rows: int = sum(batch.num_rows for _, batches in parts for batch in batches)
        if self.failures:
            self.failures -= 1
            raise OutputUnreachable("lost")
        return rows
