"""Work done in a process of its own, which may be killed in the middle of it."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class ChildFailed(Exception):
    """The work raised; the message is the child's traceback."""


KILLED = object()
"""What a child answers that was ended by SIGKILL."""


@dataclass
class Child:
    pid: int
    _reader: int

    def answer(self) -> Any:
        """Wait for the child's end: what the work returned, or KILLED."""
        with os.fdopen(self._reader, "rb") as pipe:
            body = pipe.read()
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return KILLED
        kind, value = pickle.loads(body)
        if kind == "raised":
            raise ChildFailed(value)
        return value


def start(work: Callable[[], Any], *, fresh: bool = False) -> Child:
    """Fork, so that closures work and nothing is imported again. Nothing of the parent's may be used that
    holds a connection: open your own.

    Libraries with threads of their own, as those for S3 and Delta, do not survive a fork: `fresh` begins a
    new interpreter instead, and gives it the work pickled.
    """
    reader, writer = os.pipe()
    if fresh:
        return _start_fresh(work, reader, writer)
    pid = os.fork()
    if pid:
        os.close(writer)
        return Child(pid, reader)
    os.close(reader)
    _do(work, writer)
    # Without the parent's exit handlers, which would stop its servers.
    os._exit(0)


def run(work: Callable[[], Any], *, fresh: bool = False) -> Any:
    return start(work, fresh=fresh).answer()


def begin_fresh(writer: int) -> None:
    """The first call of a fresh interpreter; the work comes on its standard input."""
    from pyspark import cloudpickle

    _do(cloudpickle.load(sys.stdin.buffer), writer)


def _start_fresh(work: Callable[[], Any], reader: int, writer: int) -> Child:
    from pyspark import cloudpickle

    pickler: Any = cloudpickle
    script = f"from tests.support.processes import begin_fresh; begin_fresh({writer})"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        pass_fds=[writer],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    os.close(writer)
    assert process.stdin is not None
    process.stdin.write(pickler.dumps(work))
    process.stdin.close()
    process.returncode = 0  # it is waited for by its number
    return Child(process.pid, reader)


def _do(work: Callable[[], Any], writer: int) -> None:
    try:
        answer: tuple[str, Any] = ("returned", work())
    except BaseException:
        answer = ("raised", traceback.format_exc())
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(pickle.dumps(answer))
