"""Runs a function in a separate process, which may be killed in the middle of it."""

from __future__ import annotations

import base64
import os
import pickle
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tests.support.nursery import Forked, own_nursery


class ChildFailed(Exception):
    """The work raised; the message is the child's traceback."""


KILLED = object()
"""The answer of a child that was ended by SIGKILL."""


class Child(Protocol):
    @property
    def pid(self) -> int: ...

    def answer(self) -> Any:
        """Wait for the child's end; return what the work returned, or KILLED. Raises ChildFailed."""


@dataclass
class OwnChild:
    pid: int
    _reader: int

    def answer(self) -> Any:
        with os.fdopen(self._reader, "rb") as pipe:
            body = pipe.read()
        _, status = os.waitpid(self.pid, 0)
        return _unpack_answer(os.waitstatus_to_exitcode(status), body)


@dataclass
class FreshChild:
    _forked: Forked

    @property
    def pid(self) -> int:
        return self._forked.pid

    def answer(self) -> Any:
        out, _ = self._forked.communicate()
        return _unpack_answer(self._forked.wait(), base64.b64decode(out) if out else b"")


def start(work: Callable[[], Any], *, fresh: bool = False) -> Child:
    """Fork, so that closures work and nothing is imported again. The work must not use connections of the
    parent; it opens its own.

    Libraries with threads of their own, such as those for S3 and Delta, do not survive a fork of a process
    that has used them. `fresh` sends the pickled work to the nursery instead, which has not used them.
    """
    if fresh:
        pickled = base64.b64encode(_cloudpickle().dumps(work)).decode()
        given = {"pickled": pickled}
        return FreshChild(
            own_nursery().fork("call", function="tests.support.processes:answer_fresh", given=given)
        )
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return OwnChild(pid, reader)
    os.close(reader)
    _do(work, writer)
    # Skip the parent's exit handlers, which would stop its servers.
    os._exit(0)


def run(work: Callable[[], Any], *, fresh: bool = False) -> Any:
    return start(work, fresh=fresh).answer()


def answer_fresh(pickled: str) -> tuple[int, str]:
    """Do pickled work, as a task of the nursery."""
    answer = _pickle_answer(_cloudpickle().loads(base64.b64decode(pickled)))
    return 0, base64.b64encode(answer).decode()


def _do(work: Callable[[], Any], writer: int) -> None:
    answer = _pickle_answer(work)
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(answer)


def _pickle_answer(work: Callable[[], Any]) -> bytes:
    try:
        return pickle.dumps(("returned", work()))
    except BaseException:
        return pickle.dumps(("raised", traceback.format_exc()))


def _unpack_answer(code: int, body: bytes) -> Any:
    if code == -signal.SIGKILL:
        return KILLED
    kind, value = pickle.loads(body)
    if kind == "raised":
        raise ChildFailed(value)
    return value


def _cloudpickle() -> Any:
    from pyspark import cloudpickle

    return cloudpickle
