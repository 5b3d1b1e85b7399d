"""The sockets of Sparks that are kept warm: one for each working folder, which only its user can open.

No other file says who listens: a dead socket refuses connections, and a live one answers questions.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidegauge.errors import SparkFailed
from tidegauge.spark.cache import cache_folder

_LONGEST = 100
"""The most bytes of a socket's path; systems allow 104 to 108."""
_ANSWERS_WITHIN = 30.0


def warm_folder() -> Path:
    """The folder of the sockets, made if it is missing. Raises SparkFailed where other users could get in."""
    folder = _folder()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found, above = folder.lstat(), folder.parent.stat()
    except OSError as error:
        raise cannot_write(folder, error) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise _refusal(folder, "it is not a folder of yours", f"remove {folder}")
    if found.st_mode & 0o077:
        raise _refusal(folder, "others may look into it", f"run: chmod 700 {folder}")
    if above.st_uid not in (os.getuid(), 0) or (above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX):
        raise _refusal(folder, f"others may replace what is in {folder.parent}", f"chmod 755 {folder.parent}")
    return folder


def _folder() -> Path:
    return cache_folder() / "warm"


def cannot_write(folder: Path, error: OSError) -> SparkFailed:
    return _refusal(
        folder,
        f"nothing can be made there ({error.strerror})",
        "set TIDEGAUGE_CACHE to a folder of yours with some room",
    )


def _refusal(folder: Path, why: str, fix: str) -> SparkFailed:
    return SparkFailed(
        f"Spark is not kept warm in {folder}: {why}", hint=f"{fix}; or set TIDEGAUGE_KEEP_WARM=off"
    )


def socket_of(working: str) -> Path:
    """The socket of a working folder: relative paths mean the same to all commands that share a Spark."""
    return warm_folder() / f"{hashlib.sha256(working.encode()).hexdigest()[:16]}.socket"


def all_sockets() -> list[Path]:
    """All sockets of this user, dead ones too."""
    return sorted(warm_folder().glob("*.socket")) if _folder().exists() else []


@contextmanager
def address_of(path: Path) -> Iterator[str]:
    """The socket's path, short enough for the system."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


@contextmanager
def locked(path: Path, *, patience: float) -> Iterator[int | None]:
    """Take the lock of a socket, so that one command at a time starts a Spark: gives the open lock file, or
    None where another command holds the lock longer than `patience` seconds."""
    try:
        file = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise cannot_write(path.parent, error) from error
    try:
        yield file if _lock(file, time.monotonic() + patience) else None
    finally:
        os.close(file)


def _lock(file: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        else:
            return True


class Listener:
    """A listening socket at a path that another process may take over: it removes no socket but its own."""

    def __init__(self, path: Path) -> None:
        """Replaces a socket that is there, which nobody uses: the caller holds the lock (`locked`). Raises
        SparkFailed."""
        self.wire, self._path = socket.socket(socket.AF_UNIX), path
        try:
            path.unlink(missing_ok=True)
            with address_of(path) as address:
                self.wire.bind(address)
            path.chmod(0o600)
            self._own = self._look()
        except OSError as error:
            self.wire.close()
            raise cannot_write(path.parent, error) from error
        self.wire.listen(64)

    def is_found(self) -> bool:
        """Whether the path still leads to this socket."""
        return self._look() == self._own

    def close(self) -> None:
        """Remove the socket's path before it is closed, so that a new command finds nobody."""
        if self.is_found():
            self._path.unlink(missing_ok=True)
        self.wire.close()

    def _look(self) -> tuple[int, int] | None:
        try:
            found = self._path.lstat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


def ask(path: Path, question: Mapping[str, Any]) -> tuple[dict[str, Any], socket.socket] | None:
    """The answer, and the open connection to the keeper that gave it; None where nobody listens. Raises
    SparkFailed where the listener does not answer, or is another user."""
    wire = socket.socket(socket.AF_UNIX)
    wire.settimeout(_ANSWERS_WITHIN)
    try:
        with address_of(path) as address:
            wire.connect(address)
        _, user = peer_of(wire)
        if user not in (None, os.getuid()):
            raise _refusal(path.parent, f"user {user} listens there", f"remove {path}")
        send(wire, question)
        answer = receive(wire)
    except TimeoutError as error:
        pid, _ = peer_of(wire)
        wire.close()
        raise SparkFailed(
            f"the Spark that is kept warm (process {pid or 'unknown'}) does not answer",
            hint="end it with `tidegauge spark stop --force`, or set TIDEGAUGE_KEEP_WARM=off",
        ) from error
    except (FileNotFoundError, ConnectionError):
        wire.close()
        return None
    except BaseException:
        wire.close()
        raise
    if answer is None:
        wire.close()
        return None
    wire.settimeout(None)
    return answer, wire


def send(wire: socket.socket, message: Mapping[str, Any]) -> None:
    wire.sendall(json.dumps(message).encode() + b"\n")


def receive(wire: socket.socket) -> dict[str, Any] | None:
    """Read one message; None where the other side has gone."""
    taken = b""
    while not taken.endswith(b"\n"):
        more = wire.recv(65536)
        if not more:
            return None
        taken += more
    found: dict[str, Any] = json.loads(taken)
    return found


def peer_of(wire: socket.socket) -> tuple[int | None, int | None]:
    """The ids of the process and the user at the other end; None for both where the system does not tell."""
    kind = getattr(socket, "SO_PEERCRED", None)
    if kind is None:
        return None, None
    try:
        pid, user, _ = struct.unpack("3i", wire.getsockopt(socket.SOL_SOCKET, kind, struct.calcsize("3i")))
    except OSError:
        return None, None
    return pid, user
