"""Work done in a process of its own, which may be killed in the middle of it."""

from __future__ import annotations

import os
import pickle
import signal
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


def start(work: Callable[[], Any]) -> Child:
    """Fork, so that closures work and nothing is imported again. Nothing of the parent's may be used that
    holds a connection: open your own."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return Child(pid, reader)
    os.close(reader)
    try:
        answer: tuple[str, Any] = ("returned", work())
    except BaseException:
        answer = ("raised", traceback.format_exc())
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(pickle.dumps(answer))
    # Without the parent's exit handlers, which would stop its servers.
    os._exit(0)


def run(work: Callable[[], Any]) -> Any:
    return start(work).answer()
