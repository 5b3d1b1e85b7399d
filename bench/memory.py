"""How much memory a process and all that it started hold together."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from pathlib import Path
from types import TracebackType

_PAUSE = 0.1


class Peak:
    """Looks at a process tree again and again; `bytes` is the most that was seen at once.

    Pages that several processes share count once, divided among them.
    """

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self.parts: dict[str, int] = {}
        """By program, at that moment."""
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
    """The process and its descendants, as they are now."""
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
