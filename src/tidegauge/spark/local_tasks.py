"""Runs tasks in processes of this machine while there is no Spark: the same work, without waiting for Java.

With a local master Spark's tasks are processes of this machine, too; these start at once. They end with the
run, and with the process that started them, even if that is killed.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any

from tidegauge.errors import SourceUnreachable, TidegaugeError
from tidegauge.model.secret import mask
from tidegauge.model.spark_settings import SparkSettings
from tidegauge.spark.local_worker import read_framed, write_framed
from tidegauge.spark.pyspark_private import is_at_hand
from tidegauge.spark.task_values import pickle_with_secrets, raise_any

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")


def open_local_tasks(settings: SparkSettings) -> LocalTasks | None:
    """Local tasks; None where Spark's tasks do the work: on other machines, or in a Spark that runs
    already."""
    return LocalTasks(_count(settings)) if has_local_tasks(settings) else None


def has_local_tasks(settings: SparkSettings) -> bool:
    return not is_at_hand() and _count(settings) > 0


def _count(settings: SparkSettings) -> int:
    """How many tasks Spark would carry out at once on this machine; 0: its master is elsewhere."""
    match = _LOCAL.fullmatch(settings.effective_master)
    # PYSPARK_GATEWAY_PORT: `spark-submit` has started a Java, whose settings are not known here.
    if match is None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return 0
    if match[1] == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(match[1] or 1)


def is_worker() -> bool:
    """Whether this process is a worker of local tasks."""
    main: Any = sys.modules["__main__"]
    return getattr(main, "__spec__", None) is not None and main.__spec__.name == _WORKER


_WORKER = "tidegauge.spark.local_worker"


class LocalTasks:
    """A pool of at most `most` worker processes, each started when it is first needed."""

    def __init__(self, most: int) -> None:
        # A worker dies with the thread that started it, so each belongs to one thread of the pool.
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="tidegauge-worker")
        self._most = most
        self._own = threading.local()
        self._started: list[_Worker] = []

    def run(self, work: Callable[..., Any], given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call `work` with each tuple of `given` in a worker; the results are in the same order. Both have to
        be picklable.

        When all calls have ended, raises the error of one that failed.
        """
        tries = [self._pool.submit(self._carry_out, pickle_with_secrets((work, values))) for values in given]
        ended = [_end(one) for one in tries]
        raise_any(one.failure for one in ended)
        for one in ended:
            if one.error is not None:
                raise one.error
        return [one.value for one in ended]

    def warm_up(self, tasks: int) -> None:
        """Start the processes now, because this many tasks are about to come."""
        for _ in range(min(tasks, self._most)):
            self._pool.submit(self._own_worker)

    def close(self) -> None:
        """Wait for what is under way, and end the processes."""
        self._pool.shutdown()
        for worker in self._started:
            worker.end()

    def _carry_out(self, order: bytes) -> _Outcome:
        worker = self._own_worker()
        try:
            return worker.ask(order)
        except BaseException:
            self._own.worker = None
            worker.end()
            raise

    def _own_worker(self) -> _Worker:
        """The worker of this thread, started if it has none."""
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = _Worker()
            self._started.append(worker)
        return worker


@dataclass(frozen=True)
class _Outcome:
    value: Any = None
    failure: str | None = None
    """An error of Tidegauge's, as `task_values` writes it."""
    error: Exception | None = None


def _end(task: Future[_Outcome]) -> _Outcome:
    try:
        return task.result()
    except Exception as error:
        return _Outcome(error=error)


class _Worker:
    def __init__(self) -> None:
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(  # noqa: S603 - this very Python
            [sys.executable, "-m", _WORKER, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,  # Ctrl-C is for the process that decides what it means
        )

    def ask(self, order: bytes) -> _Outcome:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            write_framed(process.stdin, order)
            answer = read_framed(process.stdout)
        except BrokenPipeError:
            answer = None
        if answer is None:
            raise self._explain(process.wait())
        value, failure, crash = pickle.loads(answer)  # noqa: S301 - from the process that we started
        if crash is not None:
            raise RuntimeError(mask(crash))
        return _Outcome(value, failure)

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            stream.close()

    def _explain(self, code: int) -> TidegaugeError:
        self._stderr.seek(0)
        said = mask(self._stderr.read().decode(errors="replace"))
        last = said.splitlines()[-1] if said.strip() else ""
        return SourceUnreachable(
            f"the process that was moving the rows ended with {code}{f': {last}' if last else ''}",
            hint="run again: the same window is read once more",
            detail=said,
        )
