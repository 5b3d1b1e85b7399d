"""Runs in processes that cost no start: forks of one that has imported everything and opened nothing.

python -m tests.crash.nursery

reads one task a line as JSON, and answers each with two lines: which process does it, and how it ended.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 600
"""For one run, on a machine that has other things to do."""
IMPORTED = (
    "alembic.command",
    "boto3",
    "connectorx",
    "duckdb",
    "psycopg",
    "pyarrow.parquet",
    "pymysql",
    "pyspark.sql",
    "redshift_connector",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "tests.support.project",
    "tidegauge.cli.run",
    "tidegauge.config.load",
    "tidegauge.flows.delta",
    "tidegauge.run.run",
    "tidegauge.ledger.sql_ledger",
    "tidegauge.storage.s3",
    "tidegauge.sources.mysql.dialect",
    "tidegauge.sources.postgresql.dialect",
    "tidegauge.sources.sqlite.dialect",
    "tidegauge.outputs.warehouse.duckdb.warehouse",
    "tidegauge.outputs.warehouse.mysql.warehouse",
    "tidegauge.outputs.warehouse.postgresql.warehouse",
    "tidegauge.outputs.warehouse.redshift.warehouse",
)


@dataclass(frozen=True)
class Kill:
    """Where a process kills itself with SIGKILL: before or after the n-th time of a step of one flow."""

    flow: str
    side: str
    """`within` is for publishing into a warehouse: rows and tag are written, and nothing is committed."""
    step: str
    times: int = 1


@dataclass(frozen=True)
class Ended:
    code: int
    """Negative: the signal that ended it."""
    out: str

    @property
    def flows(self) -> list[dict[str, Any]]:
        flows: list[dict[str, Any]] = json.loads(self.out)["flows"]
        return flows

    def flow(self, name: str) -> dict[str, Any]:
        """The last report of a flow: one that was taken up has two."""
        return [one for one in self.flows if one["flow"] == name][-1]


class Nursery:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, task: str, **arguments: object) -> int:
        """The process that does it; `end` has to be called before the next one is started."""
        assert self._process.stdin is not None
        line = json.dumps({"task": task, "environ": dict(os.environ), **arguments})
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return int(self._answer()["pid"])

    def end(self) -> Ended:
        answer = self._answer()
        return Ended(answer["code"], answer["out"])

    def run(
        self,
        project: Path,
        kill: Kill | None = None,
        spark: dict[str, Any] | None = None,
        **order: object,
    ) -> Ended:
        """`spark`: whose Spark it uses (`attached.address_of`), if it needs one."""
        self.start("run", project=str(project), kill=kill and vars(kill), order=order, spark=spark)
        return self.end()

    def command(self, *words: object) -> Ended:
        """A command as a user types it."""
        self.start("command", words=[str(word) for word in words])
        return self.end()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the nursery is gone"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def start_nursery() -> Iterator[Nursery]:
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "tests.crash.nursery"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Nursery(process)
    finally:
        process.kill()
        process.communicate()


def run(
    project: str, kill: dict[str, Any] | None, order: dict[str, Any], spark: dict[str, Any] | None = None
) -> tuple[int, str]:
    from tests.crash.attached import attach
    from tidegauge.config.load import load_project
    from tidegauge.model.plan import Receipt
    from tidegauge.observe.events import RunEvent, StepBegun, StepDone
    from tidegauge.outputs.warehouse.commits import Commits
    from tidegauge.outputs.warehouse.warehouse import WarehouseSession
    from tidegauge.run import run as engine
    from tidegauge.run.options import RunOptions

    wanted = Kill(**kill) if kill else None
    left = wanted.times if wanted else 0

    def die() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def tell(event: RunEvent) -> None:
        if wanted is None or not isinstance(event, StepBegun if wanted.side == "before" else StepDone):
            return
        if (event.flow, event.step) == (wanted.flow, wanted.step) and wanted.side != "within":
            die()

    record = Commits.record

    def record_and_die(
        self: Commits, session: WarehouseSession, receipt: Receipt, kind: str, shape: str
    ) -> None:
        record(self, session, receipt, kind, shape)
        if wanted is not None and wanted.side == "within":
            die()

    Commits.record = record_and_die  # type: ignore[method-assign]
    if spark is not None:
        attach(**spark)

    report = engine.run(load_project(Path(project)), RunOptions(**order), tell=tell, stop=threading.Event())
    return 0 if all(flow.ok for flow in report.flows) else 1, json.dumps(report.to_json())


def command(words: list[str]) -> tuple[int, str]:
    from tests.support.project import here

    ran = here(*words)
    sys.stderr.write(ran.err)
    return ran.code, ran.out


def loop(commands: list[list[str]]) -> tuple[int, str]:
    """The real commands, one after the other and from the beginning again, as long as they go well."""
    from tests.support.project import here

    while True:
        for words in commands:
            ran = here(*words)
            if ran.code:
                return ran.code, ran.said


def call(function: str, given: dict[str, Any]) -> tuple[int, str]:
    """A task that another module has, as `module:function`."""
    module, _, name = function.partition(":")
    task: Callable[..., tuple[int, str]] = getattr(importlib.import_module(module), name)
    return task(**given)


TASKS: dict[str, Callable[..., tuple[int, str]]] = {
    "run": run,
    "command": command,
    "loop": loop,
    "call": call,
}


def _serve() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        task = json.loads(line)
        seconds = task.pop("seconds", SECONDS)
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reader)
            _do(task, writer)
        os.close(writer)
        _say({"pid": pid})
        out = _read(reader, pid, seconds)
        _, status = os.waitpid(pid, 0)
        _say({"code": os.waitstatus_to_exitcode(status), "out": out})


def _do(task: dict[str, Any], writer: int) -> None:
    try:
        os.dup2(2, 1)
        os.environ.update(task.pop("environ"))
        code, said = TASKS[task.pop("task")](**task)
    except BaseException as error:
        code, said = 70, f"{type(error).__name__}: {error}"
        sys.excepthook(type(error), error, error.__traceback__)
    with os.fdopen(writer, "w") as pipe:
        pipe.write(said)
    sys.stderr.flush()
    os._exit(code)


def _read(reader: int, pid: int, seconds: float) -> str:
    """What it says until it ends; one that takes too long is killed, and says so."""
    until, said = time.monotonic() + seconds, b""
    while ready := select.select([reader], [], [], max(0.0, until - time.monotonic()))[0]:
        more = os.read(ready[0], 1 << 16)
        if not more:
            break
        said += more
    else:
        os.kill(pid, signal.SIGKILL)
        said = f"it did not end in {seconds:g} s".encode()
    os.close(reader)
    return said.decode()


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve()
