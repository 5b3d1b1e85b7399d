"""Runs tasks in processes that start fast: forks of one that has imported everything and opened nothing.

    python -m tests.support.nursery SOCKET

reads tasks from the socket, answers each with the id of the process that does it, and reports how every
process ended. Many may run at once.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[2]
SECONDS = 600.0
"""The time limit for one run, long enough for a busy machine."""
IMPORTED = (
    "alembic.command",
    "alembic.config",
    "boto3",
    "connectorx",
    "duckdb",
    "pandas",
    "psycopg",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pymysql",
    "pyspark.sql",
    "pytest",
    "redshift_connector",
    "snowflake.connector",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "tests.support.project",
)
"""Modules that are otherwise imported only when needed; all of `tidegauge` is imported too."""
COMMAND = "tidegauge.cli.main"
_LONGEST = 1 << 20
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True)
class Kill:
    """Where a process kills itself with SIGKILL: at the n-th occurrence of a step of one flow."""

    flow: str
    side: str
    """`before`, `after`, or `within` a publish to a warehouse: rows and tag written but not committed."""
    step: str
    times: int = 1


@dataclass(frozen=True)
class Ended:
    code: int
    """The exit code; if negative, the signal that ended the process."""
    out: str

    @property
    def flows(self) -> list[dict[str, Any]]:
        flows: list[dict[str, Any]] = json.loads(self.out)["flows"]
        return flows

    def flow(self, name: str) -> dict[str, Any]:
        """Return the last report of a flow; a flow whose old plan was resumed has two."""
        return [one for one in self.flows if one["flow"] == name][-1]


class Forked:
    """A process of the nursery, used like a `subprocess.Popen`."""

    def __init__(self, nursery: Nursery, pid: int, out: IO[str], err: IO[str] | None) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._nursery, self._out, self._err = nursery, out, err

    def poll(self) -> int | None:
        self._nursery.listen(0)
        return self.returncode

    def wait(self, timeout: float = SECONDS) -> int:
        until = time.monotonic() + timeout
        while self.returncode is None:
            left = until - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            # Not for long: other threads wait for their processes on the same socket.
            self._nursery.listen(min(left, 0.1))
        return self.returncode

    def send_signal(self, number: int) -> None:
        # After its end another process may have the same id.
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def said(self) -> str:
        """Return its standard error so far."""
        assert self._err is not None
        size = os.fstat(self._err.fileno()).st_size
        return os.pread(self._err.fileno(), size, 0).decode(errors="replace")

    def communicate(self, timeout: float = SECONDS) -> tuple[str, str]:
        self.wait(timeout)
        return _read_all(self._out), _read_all(self._err) if self._err else ""


class Nursery:
    def __init__(self, process: subprocess.Popen[bytes], wire: socket.socket) -> None:
        self._process, self._wire = process, wire
        self._forked: dict[int, Forked] = {}
        self._turn = threading.RLock()
        self._begun: int | None = None
        self._last: tuple[Forked, float] | None = None

    def fork(
        self, task: str, *, own_err: bool = False, env: dict[str, str] | None = None, **arguments: Any
    ) -> Forked:
        """Start a process for a task; its output is what the task prints or returns. `own_err` keeps its
        standard error apart from the test's."""
        # Files, not pipes, so that the process never waits for a reader.
        out: IO[str] = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - as long as the process is asked
        err: IO[str] | None = TemporaryFile("w+", encoding="utf-8") if own_err else None  # noqa: SIM115
        message = json.dumps({"task": task, "environ": {**os.environ, **(env or {})}, **arguments}).encode()
        with self._turn:
            socket.send_fds(self._wire, [message], [out.fileno(), err.fileno() if err else 2])
            while self._begun is None:
                self.listen(SECONDS)
            forked = Forked(self, self._begun, out, err)
            self._begun = None
            self._forked[forked.pid] = forked
        return forked

    def listen(self, seconds: float) -> None:
        """Read one message of the nursery, if one arrives within that time."""
        with self._turn:
            if not select.select([self._wire], [], [], seconds)[0]:
                return
            line = self._wire.recv(_LONGEST)
            assert line, "the nursery is gone"
            said = json.loads(line)
            if "begun" in said:
                self._begun = said["begun"]
            else:
                self._forked.pop(said["ended"]).returncode = said["code"]

    def main(self, *words: object, module: str = COMMAND, env: dict[str, str] | None = None) -> Forked:
        """Start a whole program, as `python -m module words…` does."""
        return self.fork("main", own_err=True, env=env, words=[str(word) for word in words], module=module)

    def start(self, task: str, *, seconds: float = SECONDS, **arguments: Any) -> int:
        """Start a process for a task; return its id. `end` waits for it."""
        forked = self.fork(task, **arguments)
        self._last = forked, seconds
        return forked.pid

    def end(self) -> Ended:
        assert self._last is not None
        forked, seconds = self._last
        try:
            out, _ = forked.communicate(seconds)
        except subprocess.TimeoutExpired:
            forked.kill()
            out = f"it did not end in {seconds:g} s: {forked.communicate()[0]}"
        return Ended(forked.wait(), out)

    def run(
        self,
        project: Path,
        kill: Kill | None = None,
        spark: dict[str, Any] | None = None,
        **order: object,
    ) -> Ended:
        """Run the project's flows; `spark`: the Spark to use (`attached.address_of`), if it needs one."""
        self.start("run", project=str(project), kill=kill and vars(kill), order=order, spark=spark)
        return self.end()

    def command(self, *words: object) -> Ended:
        """Run a command of Tidegauge with these words."""
        self.start("command", words=[str(word) for word in words])
        return self.end()

    def close(self) -> None:
        # The nursery then kills its children and ends.
        self._wire.close()
        self._process.wait()


@contextmanager
def start_nursery() -> Iterator[Nursery]:
    nursery = _start()
    try:
        yield nursery
    finally:
        nursery.close()


_own: tuple[int, Nursery] | None = None


def own_nursery() -> Nursery:
    """Return the nursery of this process, which ends with it."""
    global _own
    if _own is None or _own[0] != os.getpid():
        _own = os.getpid(), _start()
    return _own[1]


def _start() -> Nursery:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.nursery", str(theirs.fileno())],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    return Nursery(process, ours)


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
    """Run the commands one after the other, again and again until one fails."""
    from tests.support.project import here

    while True:
        for words in commands:
            ran = here(*words)
            if ran.code:
                return ran.code, ran.said


def call(function: str, given: dict[str, Any]) -> tuple[int, str]:
    """Run a task that is a function of another module, given as `module:function`."""
    module, _, name = function.partition(":")
    task: Callable[..., tuple[int, str]] = getattr(importlib.import_module(module), name)
    return task(**given)


TASKS: dict[str, Callable[..., tuple[int, str]]] = {
    "run": run,
    "command": command,
    "loop": loop,
    "call": call,
}


def main(words: list[str], module: str) -> None:
    sys.argv = [module, *words]
    importlib.import_module(module).main()


def _serve(wire: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each task; return the task in that process, None here when the tests have ended."""
    _import_everything()
    # Frozen objects are not touched by garbage collection, so forks need not copy their memory pages.
    gc.collect()
    gc.freeze()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    children: set[int] = set()
    while True:
        ready = select.select([wire.fileno(), reader], [], [])[0]
        if reader in ready:
            os.read(reader, 1 << 12)
            for pid, code in _reap(children):
                _send(wire, {"ended": pid, "code": code})
        if wire.fileno() in ready:
            message, files, _, _ = socket.recv_fds(wire, _LONGEST, 2)
            if not message:
                for pid in children:
                    os.kill(pid, signal.SIGKILL)
                return None
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in (reader, writer):
                    os.close(one)
                wire.close()
                return {**json.loads(message), "files": files}
            children.add(pid)
            for one in files:
                os.close(one)
            _send(wire, {"begun": pid})


def _import_everything() -> None:
    import tidegauge

    for name in IMPORTED:
        importlib.import_module(name)
    importlib.import_module("tests.support.project").build_commands()
    for module in pkgutil.walk_packages(tidegauge.__path__, "tidegauge."):
        # Alembic runs the migrations itself when it needs them.
        if ".migrations" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _reap(children: set[int]) -> list[tuple[int, int]]:
    ended = []
    for pid in [*children]:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            children.remove(pid)
            ended.append((pid, os.waitstatus_to_exitcode(status)))
    return ended


def _send(wire: socket.socket, words: dict[str, int]) -> None:
    # The test process may have ended already.
    with suppress(OSError):
        wire.send(json.dumps(words).encode())


def _do(task: dict[str, Any]) -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    out, err = task.pop("files")
    os.environ.clear()
    os.environ.update(task.pop("environ"))
    time.tzset()
    kind = task.pop("task")
    os.dup2(err, 2)
    os.dup2(out if kind == "main" else err, 1)
    if kind == "main":
        _exit(_run_main(**task))
    try:
        code, said = TASKS[kind](**task)
    except BaseException as error:
        code, said = 70, f"{type(error).__name__}: {error}"
        sys.excepthook(type(error), error, error.__traceback__)
    with os.fdopen(out, "w", encoding="utf-8") as file:
        file.write(said)
    _exit(code)


def _run_main(words: list[str], module: str) -> int:
    try:
        main(words, module)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    finally:
        # Do what Python does at exit, except tearing down the modules imported in advance.
        getattr(threading, "_shutdown")()  # noqa: B009 - it has no type annotations
        atexit._run_exitfuncs()
    return 0


def _exit(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _read_all(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        given = _serve(asked)
    if given is not None:
        _do(given)
