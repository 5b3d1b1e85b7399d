"""The log of a Delta table, listed once: its commits, and the table's state and files at any version."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from tidegauge.delta_log.checkpoint import Checkpoint
from tidegauge.delta_log.commit import LOG, Action, commit_path, facts_of, parse_commit
from tidegauge.delta_log.listing import list_log
from tidegauge.delta_log.protocol import TableState
from tidegauge.delta_log.replay import live_files
from tidegauge.model.spec import Lake
from tidegauge.storage.store import open_store

_AT_ONCE = 16
"""How many requests over a network run at once for one table."""
Question = TypeVar("Question")
Answer = TypeVar("Answer")


class ListedLog:
    """Lists the log when it is made. Raises OutputError where the store refuses, ValueError for a damaged
    file."""

    def __init__(self, lake: Lake) -> None:
        self.store = open_store(lake)
        self._folder = None if lake.on_s3 else Path(lake.path, LOG)
        self._listing = list_log(self.store, self._folder)
        self.commits = self._listing.commits
        self._read: dict[int, bytes | None] = {}

    @property
    def latest(self) -> int | None:
        """The newest version; None where there is no log."""
        return self._listing.latest

    def commit(self, version: int) -> bytes | None:
        """The body of a commit; None where its file is gone."""
        if version not in self._read:
            there = version in self.commits
            self._read[version] = self.store.get(commit_path(version)) if there else None
        return self._read[version]

    def dates(self, versions: Iterable[int]) -> dict[int, datetime]:
        """The dates of these commits' files, in whole milliseconds; without those that are gone."""
        if self._folder is None:
            there = {version: self._listing.dates.get(version) for version in versions}
            return {version: date for version, date in there.items() if date is not None}
        found = {}
        for version in versions:
            if version not in self.commits:
                continue
            with contextlib.suppress(FileNotFoundError):
                at = Path(self._folder.parent, commit_path(version)).stat().st_mtime_ns // 1_000_000
                found[version] = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
        return found

    def bodies(self, versions: Sequence[int]) -> Iterator[bytes | None]:
        """The bodies of these commits, in this order; over a network several are read at once."""
        return ask_each(self.commit, versions, remote=self.store.remote)

    def state(self, version: int) -> TableState | None:
        """The table's state at a version; None where the log does not reach back that far."""
        found = self._read_checksum(version)
        checkpoint = self._checkpoint(version)
        behind = range(version, checkpoint.version if checkpoint else -1, -1)
        for start in range(0, len(behind), _AT_ONCE):
            if len(found) == 2:
                break
            for body in self.bodies(behind[start : start + _AT_ONCE]):
                if body is None:
                    return None
                found = facts_of(body) | found
                if len(found) == 2:
                    break
        if len(found) < 2 and checkpoint is not None:
            found = checkpoint.facts() | found
        return TableState(found["protocol"], found["metaData"]) if len(found) == 2 else None

    def files(self, version: int, fields: Sequence[str] = ()) -> list[Action] | None:
        """The `add` of every file of the table at a version; None where the log does not reach back that far.
        An `add` from a checkpoint has its path, its deletion vector and these `fields` only."""
        checkpoint = self._checkpoint(version)
        numbers = range(checkpoint.version + 1 if checkpoint else 0, version + 1)
        commits = []
        for number, body in zip(numbers, self.bodies(numbers), strict=True):
            if body is None:
                return None
            commits.append(parse_commit(number, body))
        held = checkpoint.actions("add", ("path", "deletionVector", *fields)) if checkpoint else ()
        return list(live_files(reversed(commits), held))

    def _checkpoint(self, version: int) -> Checkpoint | None:
        """The newest checkpoint up to a version."""
        found = self._listing.checkpoint_before(version)
        if found is None:
            return None
        return Checkpoint(found, self._listing.checkpoints[found], self.store, self._folder)

    def _read_checksum(self, version: int) -> dict[str, Action]:
        """`protocol` and `metaData` from the small checksum file that Spark writes beside each commit. Empty
        where the file is missing or unusable, which Delta allows."""
        if version not in self._listing.checksums or version not in self.commits:
            return {}
        try:
            body = json.loads(self.store.get(f"{LOG}/{version:020}.crc") or b"")
            return {"protocol": {**body["protocol"]}, "metaData": {**body["metadata"]}}
        except (ValueError, KeyError, TypeError):
            return {}


def ask_each(
    ask: Callable[[Question], Answer], about: Sequence[Question], *, remote: bool
) -> Iterator[Answer]:
    """The answers in the order of the questions; with `remote`, several are asked at once."""
    if not remote or len(about) < 2:
        return map(ask, about)
    with ThreadPoolExecutor(min(_AT_ONCE, len(about))) as pool:
        return iter(list(pool.map(ask, about)))
