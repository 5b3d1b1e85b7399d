"""A lock beside a file, held while the file is replaced. It ends with its process, even if that is killed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

from tidegauge.errors import OutputUnreachable, OutputUnsafe

PATIENCE = 10.0
"""Seconds to wait. A holder needs milliseconds, so one that holds the lock for longer hangs or was paused."""
_PAUSE = 0.02
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}


@contextlib.contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold the lock of a file. Raises OutputUnreachable, naming the lock, if another holds it too long."""
    lock = target.with_name(f".{target.name}.lock")
    handle = _take(lock)
    try:
        yield
    finally:
        # Removed while we still hold it: whoever waits for this lock file finds it gone, and makes another.
        with contextlib.suppress(OSError):
            lock.unlink()
        os.close(handle)


def _take(lock: Path) -> int:
    end = time.monotonic() + PATIENCE
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same_file(handle, lock):
                return handle
        except BlockingIOError:
            pass
        except OSError as error:
            os.close(handle)
            if error.errno in _NO_LOCKS:
                raise OutputUnsafe(
                    f"the file system of {lock.parent} has no locks, so two writers could undo each other",
                    hint="keep it on another file system, or on S3",
                ) from error
            raise
        os.close(handle)
        if time.monotonic() >= end:
            raise OutputUnreachable(
                f"{lock} is held by another process for more than {PATIENCE:.0f} seconds",
                hint="it ends with the process that holds it; look for one that hangs or was paused",
            )
        time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - not a secret, only not in step


def _is_same_file(handle: int, lock: Path) -> bool:
    """Whether the path still names the file that was locked, and not a later one."""
    try:
        return os.path.samestat(os.fstat(handle), lock.stat())
    except FileNotFoundError:
        return False
