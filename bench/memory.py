"""How much memory a process and its descendants hold together."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from pathlib import Path
from types import TracebackType

_PAUSE = 0.1


class Peak:
    """Samples the memory of a process tree every 0.1 s; `bytes` is the largest total of one sample.

    A page that several processes share counts once, divided among them.
    """

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self.parts: dict[str, int] = {}
        """Bytes of each program in that sample."""
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_PAUSE):
            parts: dict[str, int] = defaultdict(int)
            for pid in tree(self._pid):
                with contextlib.suppress(OSError):
                    parts[Path(f"/proc/{pid}/comm").read_text().strip()] += held(pid)
            if sum(parts.values()) > self.bytes:
                self.bytes, self.parts = sum(parts.values()), dict(parts)


def tree(pid: int) -> list[int]:
    """List the ids of the process and its descendants at this moment."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                children[int(stat[1])].append(int(entry.name))
    found, left = [], [pid]
    while left:
        one = left.pop()
        found.append(one)
        left += children[one]
    return found


def held(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return 1024 * int(line.split()[1])
    return 0
