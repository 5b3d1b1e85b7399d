"""Starts Spark for a flow only when it is needed, and tells what has moved the flow's rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegauge.model.moved_by import MovedBy
from tidegauge.spark.local_tasks import LocalTasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW = 100_000
"""Up to this many rows this process moves sooner than a Spark job would start."""


class SparkOnDemand:
    """A callable that starts Spark. Code that has rows to move asks first whether it needs Spark for them."""

    def __init__(
        self,
        start: Callable[[], SparkSession],
        local_tasks: Callable[[], LocalTasks | None],
        *,
        always: bool = False,
    ) -> None:
        """`always`: every batch goes through Spark, even one of few rows."""
        self.always = always
        self._start = start
        self._local_tasks = local_tasks
        self._moved_by: MovedBy | None = None

    def __call__(self) -> SparkSession:
        self._moved_by = MovedBy.SPARK
        return self._start()

    def local_tasks(self) -> LocalTasks | None:
        found = None if self.always else self._local_tasks()
        if found is not None:
            self._moved_by = MovedBy.PROCESSES
        return found

    def take_mover(self) -> MovedBy:
        """What has moved rows since the last call: Spark, local tasks, or else this process."""
        found, self._moved_by = self._moved_by or MovedBy.PROCESS, None
        return found


def are_few(rows: int | None) -> bool:
    """Whether this process reads so many rows sooner than a Spark job would start. None: not counted, so they
    may be many."""
    return rows is not None and rows <= FEW


def may_move_here(spark: Callable[[], SparkSession]) -> bool:
    """Whether this process may move few rows by itself."""
    return not (isinstance(spark, SparkOnDemand) and spark.always)


def local_tasks_for(spark: Callable[[], SparkSession]) -> LocalTasks | None:
    """The local tasks that read splits instead of Spark's tasks; None: Spark's tasks read them."""
    return spark.local_tasks() if isinstance(spark, SparkOnDemand) else None
