"""The newest version of a Delta table, found and added to without Spark and most often without a listing.

It is found by asking for the next commit until there is none, starting where the last look ended or at the
last checkpoint. Commits are not cached between looks, since a table can be dropped and made anew.
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
"""How many commits are asked for one by one before the folder is listed."""
_LATEST = 5
"""How many of the newest commits are searched for a noted size: a commit that changes no row has none."""
_SHORT = 200
"""The most commits that are read to find a table's size, where the log has no checkpoint."""
_RESTORE = "restore its _delta_log, or the whole table; nothing was changed"


@dataclass(frozen=True)
class NotedSize:
    """How many data files a table has, and how many bytes they are."""

    files: int
    bytes: int


class Snapshot:
    """The log as it was at one moment; it is read backwards, and only as far as needed."""

    def __init__(self, store: Store, version: int, read: dict[int, Commit], checkpoint: int | None) -> None:
        self._store = store
        self.version = version
        self._read = read
        self._checkpoint = checkpoint

    def since_checkpoint(self) -> Iterator[Commit]:
        """The commits after the checkpoint, newest first."""
        return self._read_back(self.version, -1 if self._checkpoint is None else self._checkpoint)

    def commits(self) -> Iterator[Commit]:
        """All commits that the log still has, newest first."""
        return self._read_back(self.version, -1)

    def transactions(self, prefix: str) -> dict[str, int]:
        """The versions of the applications whose name is this prefix and a number: those in the newest commit
        that has any, or else all that the checkpoint has."""
        for commit in self.since_checkpoint():
            found = _find_numbered(commit.transactions, prefix)
            if found:
                return found
        return _find_numbered(self.checkpoint_transactions, prefix)

    @lazy
    def checkpoint_transactions(self) -> dict[str, int]:
        """The last version of each application in the checkpoint; empty where there is no checkpoint."""
        with self._reading_checkpoint() as checkpoint:
            return checkpoint.transactions() if checkpoint else {}

    def checkpoint_actions(self, kind: str) -> list[Action]:
        """The checkpoint's actions of one kind; empty where there is no checkpoint."""
        with self._reading_checkpoint() as checkpoint:
            return checkpoint.actions(kind) if checkpoint else []

    @lazy
    def state(self) -> TableState:
        """The table's protocol and metadata at this version."""
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
        """The `add` of every file of the table at this version."""
        return live_files(self.since_checkpoint(), self._checkpoint_files())

    def is_empty(self) -> bool:
        """Whether the table has no file, or only files that are known to have no row."""
        return all(_rows(add) == 0 for add in self.files())

    def _read_noted_size(self, version: int) -> NotedSize | None:
        """The table's size that the writer of a version noted in its checksum file; None where there is
        none."""
        body = self._store.get(f"{LOG}/{version:020}.crc")
        try:
            said = json.loads(body or b"")
            return NotedSize(int(said["numFiles"]), int(said["tableSizeBytes"]))
        except (ValueError, KeyError, TypeError):
            return None

    def find_size(self) -> NotedSize | None:
        """The table's size: the last noted one plus the files added since, or counted from a short log. None
        where only reading a long log would tell."""
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

    def _read_back(self, start: int, end: int) -> Iterator[Commit]:
        for version in range(start, end, -1):
            commit = self._read.get(version) or _load(self._store, version)
            if commit is None:
                if self._checkpoint is None:
                    # `look` may not have found the checkpoint: a log need not have `_last_checkpoint`.
                    self._checkpoint = list_log(self._store).checkpoint_before(self.version)
                if self._checkpoint is None or version > self._checkpoint:
                    raise damaged_error(self._store, f"its version {version} is gone")
                return
            yield commit

    def _checkpoint_files(self) -> Iterator[Action]:
        yield from self.checkpoint_actions("add")

    @lazy
    def _opened_checkpoint(self) -> Checkpoint | None:
        if self._checkpoint is None:
            return None
        return open_checkpoint(self._store, self._checkpoint)

    @contextmanager
    def _reading_checkpoint(self) -> Iterator[Checkpoint | None]:
        try:
            yield self._opened_checkpoint
        except (OSError, ValueError, KeyError) as error:
            raise OutputDisagrees(
                f"the checkpoint {self._checkpoint} of the Delta table at {self._store.place} cannot be read:"
                f" {error}",
                hint=_RESTORE,
            ) from error


class Log:
    """The log in one table's folder."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._last_seen: int | None = None

    def look(self) -> Snapshot | None:
        """The newest version; None while there is no table."""
        read: dict[int, Commit] = {}
        checkpoint = last_checkpoint(self.store)
        start = max(self._last_seen or 0, 0 if checkpoint is None else checkpoint)
        if self._step(start, read) is None and start != checkpoint:
            # There is no table yet, it was made anew, or its first commits are gone.
            listed = self._list()
            if listed is None:
                self._last_seen = None
                return None
            start, checkpoint = listed
        newest = start
        while self._step(newest + 1, read):
            newest += 1
            if newest - start > _STEPS and (listed := self._list()):
                start = newest = max(newest, listed[0])
                checkpoint = listed[1]
        self._last_seen = newest
        return Snapshot(self.store, newest, read, checkpoint)

    def put(self, version: int, actions: Sequence[Action]) -> bool:
        """Add a commit unless somebody else has added one with this number."""
        return put_commit(self.store, version, actions)

    def _step(self, version: int, read: dict[int, Commit]) -> Commit | None:
        """Load a commit and keep it in `read`; None where there is none."""
        commit = _load(self.store, version)
        if commit is not None:
            read[version] = commit
        return commit

    def _list(self) -> tuple[int, int | None] | None:
        """The newest version and the newest checkpoint's version, by listing the folder; None where there is
        no log."""
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
