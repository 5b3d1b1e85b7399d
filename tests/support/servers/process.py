"""Server processes: a free port, a private folder, an unprivileged user; stopped by their process id."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

HOST = "127.0.0.1"
START_SECONDS = 600.0
USER, PASSWORD = "tidegauge", "tide p@ss/word%"
"""The password has characters that an address must quote."""
BARE_USER, BARE_PASSWORD = "bare", "bare-password"

_numbers = itertools.count(1)


class ServerMissing(Exception):
    """A server cannot be started; a test that needs one fails and is never skipped."""


def free_port() -> int:
    """Find a port on which nothing listens at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class ServerHome:
    """A server's private folder and the user that owns it."""

    path: Path
    account: pwd.struct_passwd | None
    """The user that owns the folder and runs the server; None means the current user."""
    log: IO[bytes] = field(repr=False)

    def run(self, *command: str) -> None:
        done = subprocess.run(
            self._as_account(command),
            cwd=self.path,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0:
            raise ServerMissing(f"{command[0]} ended with {done.returncode}: {self.last_words()}")

    @contextmanager
    def serve(
        self, command: Sequence[str], *, stop_with: int = signal.SIGKILL, at: Path | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            self._as_account(command),
            cwd=at or self.path,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            # Stop without a clean shutdown, because its data is not needed again.
            if process.poll() is None:
                process.send_signal(stop_with)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.write_text(text)
        if self.account:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)
        return path

    def last_words(self) -> str:
        lines = (self.path / "log").read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-5:])

    def _as_account(self, command: Sequence[str]) -> list[str]:
        # setpriv replaces itself with the server, so the started process is the server; and the server is
        # killed when this process dies, so that an aborted test run leaves nothing behind.
        prefix = [find_program("setpriv", "/usr/bin"), "--pdeathsig", "KILL"]
        if self.account:
            ids = [f"--reuid={self.account.pw_uid}", f"--regid={self.account.pw_gid}", "--clear-groups"]
            prefix += ids
        return [*prefix, *command]


@contextmanager
def server_home(folder: Path | None, account_name: str | None) -> Iterator[ServerHome]:
    account = None
    if account_name and os.geteuid() == 0:
        try:
            account = pwd.getpwnam(account_name)
        except KeyError:
            raise ServerMissing(
                f"there is no user '{account_name}' on this machine: run `make setup`"
            ) from None
    # Not inside pytest's folders, which other users cannot read.
    path = folder or Path(tempfile.mkdtemp(prefix=f"tidegauge-{account_name or 's3'}-"))
    path.mkdir(parents=True, exist_ok=True)
    if account:
        os.chown(path, account.pw_uid, account.pw_gid)
    try:
        with (path / "log").open("wb") as log:
            yield ServerHome(path, account, log)
    finally:
        if folder is None:
            # `rm`, because `shutil.rmtree` takes minutes for so many files on a busy machine.
            subprocess.run(["rm", "-rf", path], check=False)


def await_server(process: subprocess.Popen[bytes], home: ServerHome, ready: Callable[[], object]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            ready()
        except Exception as error:
            if process.poll() is not None:
                raise ServerMissing(f"the server ended at its start: {home.last_words()}") from error
            if time.monotonic() > deadline:
                raise ServerMissing(f"no answer in {START_SECONDS:.0f} s: {home.last_words()}") from error
            time.sleep(0.05)
        else:
            return


def find_program(name: str, *folders: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    if not found:
        raise ServerMissing(f"{name} is not installed: run `make setup`")
    return found


def fresh_name(prefix: str) -> str:
    return f"{prefix}_{os.getpid()}_{next(_numbers)}"
