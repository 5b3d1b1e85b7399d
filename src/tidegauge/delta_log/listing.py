"""Which files a Delta log has: commits, complete checkpoints, and checksums."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tidegauge.delta_log.commit import LOG
from tidegauge.storage.store import Store

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKSUM = re.compile(r"(\d{20})\.crc")
_CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-fA-F-]{36})?\.(?:parquet|json)"
)


@dataclass(frozen=True)
class LogFiles:
    commits: frozenset[int]
    checksums: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]
    """By version, the names of the files that make up one complete checkpoint."""
    dates: Mapping[int, datetime]
    """The date of each commit's file; empty where only names were listed."""

    @property
    def latest(self) -> int | None:
        """The newest version; None where there is no log."""
        return max([*self.commits, *self.checkpoints], default=None)

    def checkpoint_before(self, version: int) -> int | None:
        """The version of the newest checkpoint up to this version; None where there is none."""
        return max((number for number in self.checkpoints if number <= version), default=None)


def list_log(store: Store, folder: Path | None = None) -> LogFiles:
    """`folder`: the log's folder, if it is on a local disk; then only names are listed, not the size of each
    file."""
    commits, checksums = set(), set()
    found: dict[tuple[int, str], list[str]] = {}
    dates: dict[int, datetime] = {}
    for name, date in _names(store, folder):
        if match := _COMMIT.fullmatch(name):
            commits.add(int(match[1]))
            if date is not None:
                dates[int(match[1])] = date
        elif match := _CHECKSUM.fullmatch(name):
            checksums.add(int(match[1]))
        elif match := _CHECKPOINT.fullmatch(name):
            # Parts that give the same number of parts belong together. Any other file is a checkpoint by
            # itself; of several for one version, one is enough.
            found.setdefault((int(match[1]), match[3] or name), []).append(name)
    checkpoints = {
        version: tuple(sorted(names))
        for (version, parts), names in found.items()
        if not parts.isdigit() or len(names) == int(parts)
    }
    return LogFiles(frozenset(commits), frozenset(checksums), checkpoints, dates)


def _names(store: Store, folder: Path | None) -> Iterable[tuple[str, datetime | None]]:
    if folder is None:
        return [
            (name, entry.modified)
            for entry in store.list(LOG)
            for above, _, name in [entry.path.rpartition("/")]
            if above == LOG
        ]
    try:
        return [(name, None) for name in os.listdir(folder)]  # noqa: PTH208 - iterdir makes a Path of each
    except (FileNotFoundError, NotADirectoryError):
        return ()
