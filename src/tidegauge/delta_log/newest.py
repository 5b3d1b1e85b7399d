"""The newest version of a Delta table, found and added to without Spark and most often without a listing.

It is found by asking for the next commit until there is none: from where the last look ended, or from the
last checkpoint on. What a commit says is not kept between looks, since a table can be made anew.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tidegauge.delta_log.checkpoint import Checkpoint, last_checkpoint, open_checkpoint
from tidegauge.delta_log.commit import FACTS, LOG, Action, Commit, commit_path, parse_commit
from tidegauge.delta_log.listing import list_log
from tidegauge.delta_log.protocol import TableState
from tidegauge.delta_log.replay import live_files
from tidegauge.delta_log.write import put_commit
from tidegauge.errors import OutputDisagrees
from tidegauge.model.lazy import lazy
from tidegauge.storage.store import Store

_STEPS = 24
"""Commits that are asked for one by one before the folder is listed."""
_LATEST = 5
"""Commits of which the size that is noted is looked for: one that changes no row has none."""
_SHORT = 200
"""Commits of a log without a checkpoint that are still read for the size of a table."""
_RESTORE = "restore its _delta_log, or the whole table; nothing was changed"


@dataclass(frozen=True)
class NotedSize:
    files: int
    bytes: int


class Snapshot:
    """The log as it was at one moment; it is read backwards, and only as far as someone asks."""

    def __init__(self, store: Store, version: int, read: dict[int, Commit], checkpoint: int | None) -> None:
        self._store = store
        self.version = version
        self._read = read
        self._checkpoint = checkpoint

    def since_checkpoint(self) -> Iterator[Commit]:
        """Newest first, those that the checkpoint does not cover."""
        return self._back(self.version, -1 if self._checkpoint is None else self._checkpoint)

    def commits(self) -> Iterator[Commit]:
        """Newest first, as far back as the log still has them."""
        return self._back(self.version, -1)

    def transactions(self, prefix: str) -> dict[str, int]:
        """Of the applications whose name begins so, as the newest commit says that has any of them; where
        only the checkpoint has, all of them."""
        for commit in self.since_checkpoint():
            found = _find_numbered(commit.transactions, prefix)
            if found:
                return found
        return _find_numbered(self.checkpoint_transactions, prefix)

    @lazy
    def checkpoint_transactions(self) -> dict[str, int]:
        """By application, its last version that the checkpoint has; none where there is no checkpoint."""
        with self._reading_checkpoint() as checkpoint:
            return checkpoint.transactions() if checkpoint else {}

    def checkpoint_actions(self, kind: str) -> list[Action]:
        """Of one kind, as the checkpoint has them; none where there is no checkpoint."""
        with self._reading_checkpoint() as checkpoint:
            return checkpoint.actions(kind) if checkpoint else []

    @lazy
    def state(self) -> TableState:
        """Protocol and metadata that hold now."""
        found: dict[str, Action] = {}
        for commit in self.since_checkpoint():
            found = commit.facts | found
            if len(found) == len(FACTS):
                break
        else:
            with self._reading_checkpoint() as checkpoint:
                found = (checkpoint.facts() if checkpoint else {}) | found
        for kind in FACTS:
            if kind not in found:
                raise damaged_error(self._store, f"it has no {kind}")
        return TableState(found["protocol"], found["metaData"])

    def files(self) -> Iterator[Action]:
        """The `add` of every file that the table has now, each as it was last said."""
        return live_files(self.since_checkpoint(), self._checkpoint_files())

    def is_empty(self) -> bool:
        """No file, or none that is known to have a row."""
        return all(_rows(add) == 0 for add in self.files())

    def _read_noted_size(self, version: int) -> NotedSize | None:
        """How large the table was, as the writer of a version has noted it; None where nobody has."""
        body = self._store.get(f"{LOG}/{version:020}.crc")
        try:
            said = json.loads(body or b"")
            return NotedSize(int(said["numFiles"]), int(said["tableSizeBytes"]))
        except (ValueError, KeyError, TypeError):
            return None

    def find_size(self) -> NotedSize | None:
        """As it was noted last, with what has come since; or as a short log says it. None where only a long
        one would tell."""
        since: list[int] = []
        for commit in itertools.islice(self.commits(), _LATEST):
            noted = self._read_noted_size(commit.version)
            if noted is not None:
                return NotedSize(noted.files + len(since), noted.bytes + sum(since))
            since += (int(add.get("size") or 0) for add in commit.added)
        if self._checkpoint is not None or self.version >= _SHORT:
            return None
        sizes = [int(add.get("size") or 0) for add in self.files()]
        return NotedSize(len(sizes), sum(sizes))

    def _back(self, start: int, end: int) -> Iterator[Commit]:
        for version in range(start, end, -1):
            commit = self._read.get(version) or _load(self._store, version)
            if commit is None:
                if self._checkpoint is None:
                    # The newest was found without it: a log need not say which checkpoint is its last.
                    self._checkpoint = list_log(self._store).checkpoint_before(self.version)
                if self._checkpoint is None or version > self._checkpoint:
                    raise damaged_error(self._store, f"its version {version} is gone")
                return
            yield commit

    def _checkpoint_files(self) -> Iterator[Action]:
        yield from self.checkpoint_actions("add")

    @lazy
    def _opened(self) -> Checkpoint | None:
        if self._checkpoint is None:
            return None
        return open_checkpoint(self._store, self._checkpoint)

    @contextmanager
    def _reading_checkpoint(self) -> Iterator[Checkpoint | None]:
        try:
            yield self._opened
        except (OSError, ValueError, KeyError) as error:
            raise OutputDisagrees(
                f"the checkpoint {self._checkpoint} of the Delta table at {self._store.place} cannot be read:"
                f" {error}",
                hint=_RESTORE,
            ) from error


class Log:
    """Of one table's folder."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._hint: int | None = None

    def look(self) -> Snapshot | None:
        """None while there is no table."""
        read: dict[int, Commit] = {}
        checkpoint = last_checkpoint(self.store)
        start = max(self._hint or 0, 0 if checkpoint is None else checkpoint)
        if self._step(start, read) is None and start != checkpoint:
            # Nothing was ever there, the table was made anew, or its first commits are gone.
            listed = self._list()
            if listed is None:
                self._hint = None
                return None
            start, checkpoint = listed
        newest = start
        while self._step(newest + 1, read):
            newest += 1
            if newest - start > _STEPS and (listed := self._list()):
                start = newest = max(newest, listed[0])
                checkpoint = listed[1]
        self._hint = newest
        return Snapshot(self.store, newest, read, checkpoint)

    def put(self, version: int, actions: Sequence[Action]) -> bool:
        """Add a commit unless somebody else has added one with this number."""
        return put_commit(self.store, version, actions)

    def _step(self, version: int, read: dict[int, Commit]) -> Commit | None:
        commit = _load(self.store, version)
        if commit is not None:
            read[version] = commit
        return commit

    def _list(self) -> tuple[int, int | None] | None:
        """The newest version, and that of the newest checkpoint, from the folder itself."""
        found = list_log(self.store)
        if found.latest is None:
            return None
        return found.latest, max(found.checkpoints, default=None)


def damaged_error(store: Store, why: str) -> OutputDisagrees:
    return OutputDisagrees(
        f"the log of the Delta table at {store.place} cannot be read: {why}", hint=_RESTORE
    )


def _load(store: Store, version: int) -> Commit | None:
    body = store.get(commit_path(version))
    if body is None:
        return None
    try:
        return parse_commit(version, body)
    except ValueError as error:
        raise damaged_error(store, f"its version {version} is torn ({error})") from error


def _find_numbered(found: dict[str, int], prefix: str) -> dict[str, int]:
    return {
        name: version
        for name, version in found.items()
        if name.startswith(prefix) and name.removeprefix(prefix).isdigit()
    }


def _rows(add: Action) -> int | None:
    try:
        return int(json.loads(add.get("stats") or "{}")["numRecords"])
    except (ValueError, KeyError, TypeError):
        return None
