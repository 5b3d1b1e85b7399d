"""A process that carries out tasks for the one that started it (`spark.local_tasks`), and ends with it.

Orders come on standard input and answers go to standard output, each with its length in front.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import traceback
from queue import SimpleQueue
from typing import IO

from tidegauge.spark.task_values import try_work, unpickle_with_secrets

_SIZE = 8
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


def write_framed(stream: IO[bytes], body: bytes) -> None:
    stream.write(len(body).to_bytes(_SIZE, "big"))
    stream.write(body)
    stream.flush()


def read_framed(stream: IO[bytes]) -> bytes | None:
    """Read one message; None where the other end has gone, even in the middle of it."""
    head = stream.read(_SIZE)
    size = int.from_bytes(head, "big")
    body = stream.read(size) if len(head) == _SIZE else b""
    return body if len(head) == _SIZE and len(body) == size else None


def _end_with(parent: int) -> None:
    """Let Linux kill this process when its parent ends: a driver that waits for a server may keep Python from
    noticing."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _take_orders(orders: SimpleQueue[bytes]) -> None:
    """Read orders in a thread of its own, so that the end of the parent is noticed during an order, too."""
    while (order := read_framed(sys.stdin.buffer)) is not None:
        orders.put(order)
    os._exit(0)


def _carry_out(order: bytes) -> bytes:
    """Carry out an order; the answer has the result, an error of Tidegauge's as text, or another one's
    traceback."""
    try:
        work, given = unpickle_with_secrets(order)
        done, failure = try_work(lambda: work(*given))
        return pickle.dumps((done, failure, None))
    except Exception:
        return pickle.dumps((None, None, traceback.format_exc()))


def main(parent: int) -> None:
    # The parent decides when to stop: a signal to the whole process group is not meant for its workers.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _end_with(parent)
    # Standard output carries the answers, so what libraries print goes to standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    orders: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_take_orders, args=[orders], daemon=True).start()
    while True:
        write_framed(answers, _carry_out(orders.get()))


if __name__ == "__main__":
    main(int(sys.argv[1]))
