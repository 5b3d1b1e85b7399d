"""A command with its own Java; the test kills both together in the middle of their work."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.project import ROOT, command, until


class Alone:
    def __init__(self, project: Path, *words: object) -> None:
        # A new process group, which its Java joins.
        self._process = subprocess.Popen(
            command(*words, "--project", project),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def kill_when_files_come(self, folder: Path) -> None:
        """Kill as soon as there is a new file in the folder, which no commit names yet."""
        before = _files(folder)
        self._kill_when(lambda: bool(_files(folder) - before))

    def kill_when_files_go(self, folder: Path) -> None:
        before = _files(folder)
        self._kill_when(lambda: bool(before - _files(folder)))

    def _kill_when(self, true: Callable[[], bool]) -> None:
        def ready() -> bool:
            if true():
                return True
            assert self._process.poll() is None, self._process.communicate()[0]
            return False

        until(ready, every=0.003)
        names = {_name(pid) for pid in self._members()}
        self._kill()
        assert "java" in names, names

    def _kill(self) -> None:
        for pid in self._members():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        until(lambda: not self._members())

    def _members(self) -> list[int]:
        """List the processes of the group that are still alive."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state, _, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(group) == self._process.pid and state != "Z":
                found.append(int(folder.name))
        return found


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _files(folder: Path) -> set[str]:
    """List files of rows, changes and deletion vectors, without those of the Delta log."""
    return {
        os.path.join(here, name)  # noqa: PTH118 - thousands of times
        for here, _, names in os.walk(folder)
        if "_delta_log" not in here
        for name in names
        if name.endswith((".parquet", ".bin"))
    }
