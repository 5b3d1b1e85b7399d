"""The log of a Delta table, read and added to without Spark.

The newest version is found by asking for the next commit until there is none: from where the last look ended,
or from the last checkpoint on. What a commit says is not kept between looks, since a table can be made anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidegauge.delta_log.checkpoint import Checkpoint, load_checkpoint, newest_checkpoint
from tidegauge.errors import OutputDisagrees
from tidegauge.model.plan import Tag
from tidegauge.storage.store import Store

LOG = "_delta_log"
CLOSED = 2**63 - 1
"""The version of a life that has ended: whatever comes under its name is passed over by Delta itself."""
_STEPS = 24
"""Commits that are asked for one by one before the folder is listed."""

Action = dict[str, Any]


@dataclass(frozen=True)
class Commit:
    version: int
    actions: tuple[Action, ...]

    @property
    def info(self) -> Action:
        return next((one["commitInfo"] for one in self.actions if one.get("commitInfo")), {})

    @property
    def said(self) -> Action | None:
        """Our own words in it; None where it is not ours."""
        try:
            said = json.loads(self.info.get("userMetadata") or "null")
        except ValueError:
            return None
        return said if isinstance(said, dict) and said.get("tidegauge") == 1 else None

    def transactions(self) -> dict[str, int]:
        return {
            str(one["txn"]["appId"]): int(one["txn"]["version"]) for one in self.actions if one.get("txn")
        }


@dataclass(frozen=True)
class Noted:
    files: int
    bytes: int


class Look:
    """The log as it was at one moment; it is read backwards, and only as far as someone asks."""

    def __init__(self, store: Store, version: int, read: dict[int, Commit], checkpoint: int | None) -> None:
        self._store = store
        self.version = version
        self._read = read
        self._checkpoint = checkpoint
        self._loaded: Checkpoint | None = None

    def since_checkpoint(self) -> Iterator[Commit]:
        """Newest first, those that the checkpoint does not cover."""
        return self._back(self.version, -1 if self._checkpoint is None else self._checkpoint)

    def commits(self) -> Iterator[Commit]:
        """Newest first, as far back as the log still has them."""
        return self._back(self.version, -1)

    @property
    def checkpoint(self) -> Checkpoint | None:
        if self._checkpoint is not None and self._loaded is None:
            self._loaded = load_checkpoint(self._store, self._checkpoint)
        return self._loaded

    def transactions(self, prefix: str) -> dict[str, int]:
        """Of the applications whose name begins so, as the newest commit says that has any of them; where
        only the checkpoint has, all of them."""
        for commit in self.since_checkpoint():
            found = _named(commit.transactions(), prefix)
            if found:
                return found
        return _named(self.checkpoint.transactions(), prefix) if self.checkpoint else {}

    def newest(self, kind: str) -> Action:
        """The action of this kind that holds now: `metaData` or `protocol`."""
        for commit in self.since_checkpoint():
            for action in commit.actions:
                if action.get(kind):
                    return dict(action[kind])
        found = self.checkpoint.actions(kind) if self.checkpoint else []
        if not found:
            raise damaged(self._store, f"it has no {kind}")
        return dict(found[0])

    def files(self) -> Iterator[Action]:
        """The `add` of every file that the table has now, each as it was last said."""
        settled: set[tuple[str, str]] = set()
        for commit in self.since_checkpoint():
            gone = [_file(one["remove"]) for one in commit.actions if one.get("remove")]
            for action in commit.actions:
                if action.get("add"):
                    name = _file(action["add"])
                    if name not in settled:
                        settled.add(name)
                        yield action["add"]
            settled.update(gone)
        for add in self.checkpoint.actions("add") if self.checkpoint else ():
            if _file(add) not in settled:
                yield add

    def is_empty(self) -> bool:
        """No file, or none that is known to have a row."""
        return all(_rows(add) == 0 for add in self.files())

    def noted(self) -> Noted | None:
        """How large the table is, as its last writer has noted it; None where nobody has."""
        body = self._store.get(path_of(self.version).removesuffix(".json") + ".crc")
        try:
            said = json.loads(body or b"")
            return Noted(int(said["numFiles"]), int(said["tableSizeBytes"]))
        except (ValueError, KeyError, TypeError):
            return None

    def _back(self, start: int, end: int) -> Iterator[Commit]:
        for version in range(start, end, -1):
            commit = self._read.get(version) or _load(self._store, version)
            if commit is None:
                if end >= 0 or (self._checkpoint is None and version >= 0):
                    raise damaged(self._store, f"its version {version} is gone")
                return
            yield commit


class Log:
    """Of one table's folder."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._hint: int | None = None

    def look(self) -> Look | None:
        """None while there is no table."""
        read: dict[int, Commit] = {}
        checkpoint = newest_checkpoint(self.store)
        start = max(self._hint or 0, 0 if checkpoint is None else checkpoint)
        if self._step(start, read) is None and start != checkpoint:
            # Nothing was ever there, the table was made anew, or its first commits are gone.
            listed = self._listed()
            if listed is None:
                self._hint = None
                return None
            start, checkpoint = listed
        newest = start
        while self._step(newest + 1, read):
            newest += 1
            if newest - start > _STEPS and (listed := self._listed()):
                start = newest = max(newest, listed[0])
                checkpoint = listed[1]
        self._hint = newest
        return Look(self.store, newest, read, checkpoint)

    def put(self, version: int, actions: list[Action]) -> bool:
        """Add a commit unless somebody else has added one with this number."""
        body = "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in actions)
        return self.store.put_if_absent(path_of(version), body.encode())

    def _step(self, version: int, read: dict[int, Commit]) -> Commit | None:
        commit = _load(self.store, version)
        if commit is not None:
            read[version] = commit
        return commit

    def _listed(self) -> tuple[int, int | None] | None:
        """The newest version, and that of the newest checkpoint, from the folder itself."""
        names = [entry.path.removeprefix(f"{LOG}/") for entry in self.store.list(LOG)]
        commits = [int(name[:20]) for name in names if name[:20].isdigit() and name[20:] == ".json"]
        checkpoints = [
            int(name[:20]) for name in names if name[:20].isdigit() and name[20:].startswith(".checkpoint.")
        ]
        if not commits and not checkpoints:
            return None
        return max(commits + checkpoints), max(checkpoints, default=None)


def application(tag: Tag) -> str:
    return f"{prefix_of(tag.pipeline, tag.flow)}{tag.epoch}"


def prefix_of(pipeline: str, flow: str) -> str:
    """What the names of all lives of a flow begin with, and no other flow's."""
    return f"tidegauge/{_encode(pipeline)}/{_encode(flow)}/"


def epoch_of(name: str) -> int:
    return int(name.rpartition("/")[2])


def path_of(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def damaged(store: Store, why: str) -> OutputDisagrees:
    return OutputDisagrees(
        f"the log of the Delta table at {store.place} cannot be read: {why}",
        hint="restore its _delta_log, or the whole table; nothing was changed",
    )


def _load(store: Store, version: int) -> Commit | None:
    body = store.get(path_of(version))
    if body is None:
        return None
    try:
        return Commit(version, tuple(json.loads(line) for line in body.splitlines() if line.strip()))
    except ValueError as error:
        raise damaged(store, f"its version {version} is torn ({error})") from error


def _named(found: dict[str, int], prefix: str) -> dict[str, int]:
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


def _file(action: Action) -> tuple[str, str]:
    """What tells a file apart: with another deletion vector it is another."""
    vector = action.get("deletionVector") or {}
    return action["path"], f"{vector.get('storageType')}{vector.get('pathOrInlineDv')}@{vector.get('offset')}"


def _encode(name: str) -> str:
    """Only what could be taken for a part of the address, so that a person still reads it."""
    return name.replace("%", "%25").replace("/", "%2F")
