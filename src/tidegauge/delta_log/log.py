"""The log of a Delta table, listed once: its commits, and what it says of the table at a version."""

from __future__ import annotations

import functools
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tidegauge.delta_log.commit import Action, facts_of, lines, parse, schema_digest
from tidegauge.delta_log.location import LOG
from tidegauge.model.spec import Lake
from tidegauge.storage.store import Store, open_store

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKSUM = re.compile(r"(\d{20})\.crc")
_CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-fA-F-]{36})?\.(?:parquet|json)"
)
_AT_ONCE = 16
"""Requests over a network, for one table."""
Asked = TypeVar("Asked")
Told = TypeVar("Told")


@dataclass(frozen=True)
class State:
    """What holds from one version on until a later one says otherwise."""

    protocol: Action
    metadata: Action

    @property
    def table_id(self) -> str:
        return str(self.metadata["id"])

    @property
    def schema(self) -> str:
        return str(self.metadata["schemaString"])

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self.metadata.get("configuration") or {})

    @property
    def features(self) -> frozenset[str]:
        return frozenset(
            [*(self.protocol.get("readerFeatures") or ()), *(self.protocol.get("writerFeatures") or ())]
        )

    @functools.cached_property
    def digest(self) -> str:
        return schema_digest(self.schema)

    def changed(self, facts: Mapping[str, Action]) -> State:
        if not facts:
            return self
        return State(facts.get("protocol", self.protocol), facts.get("metaData", self.metadata))


class Log:
    """Listed when it is made. Raises OutputError where the store refuses, ValueError for a damaged file."""

    def __init__(self, lake: Lake) -> None:
        self.store = open_store(lake)
        self._folder = None if lake.on_s3 else Path(lake.path, LOG)
        self.commits: set[int] = set()
        self._checksums: set[int] = set()
        self._read: dict[int, bytes | None] = {}
        found: dict[tuple[int, str], list[str]] = {}
        for name in _names(self.store, self._folder):
            if match := _COMMIT.fullmatch(name):
                self.commits.add(int(match[1]))
            elif match := _CHECKSUM.fullmatch(name):
                self._checksums.add(int(match[1]))
            elif match := _CHECKPOINT.fullmatch(name):
                # Parts belong together by their number; any other name is a whole one, and one is enough.
                found.setdefault((int(match[1]), match[3] or name), []).append(name)
        self.checkpoints: dict[int, list[str]] = {
            version: sorted(names)
            for (version, parts), names in found.items()
            if not parts.isdigit() or len(names) == int(parts)
        }

    @property
    def latest(self) -> int | None:
        """None where there is no log."""
        return max([*self.commits, *self.checkpoints], default=None)

    def commit(self, version: int) -> bytes | None:
        """None where it is gone, or goes just now."""
        if version not in self._read:
            there = version in self.commits
            self._read[version] = self.store.get(f"{LOG}/{version:020}.json") if there else None
        return self._read[version]

    def bodies(self, versions: Sequence[int]) -> Iterator[bytes | None]:
        """Those commits in that order, several at once where each is a journey."""
        return in_turn(self.commit, versions, remote=self.store.remote)

    def state(self, version: int) -> State | None:
        """None where the log does not reach back that far."""
        found = self._checksum(version)
        floor = self._floor(version)
        behind = range(version, floor, -1)
        for start in range(0, len(behind), _AT_ONCE):
            if len(found) == 2:
                break
            for body in self.bodies(behind[start : start + _AT_ONCE]):
                if body is None:
                    return None
                found = facts_of(body) | found
                if len(found) == 2:
                    break
        for name in self.checkpoints.get(floor, ()) if len(found) < 2 else ():
            found = self._facts(name) | found
        return State(found["protocol"], found["metaData"]) if len(found) == 2 else None

    def files(self, version: int) -> list[Action] | None:
        """Every file of the table at a version; None where the log does not reach back that far."""
        floor = self._floor(version)
        there = {_identity(add): add for name in self.checkpoints.get(floor, ()) for add in self._adds(name)}
        for body in self.bodies(range(floor + 1, version + 1)):
            if body is None:
                return None
            commit = parse(body)
            for gone in commit.removed:
                there.pop(_identity(gone), None)
            there |= {_identity(add): add for add in commit.added}
        return list(there.values())

    def _floor(self, version: int) -> int:
        return max((number for number in self.checkpoints if number <= version), default=-1)

    def _checksum(self, version: int) -> dict[str, Action]:
        """Spark leaves one beside each commit, which says all of it in one small file. It is allowed to be
        missing, and to be of no use."""
        if version not in self._checksums or version not in self.commits:
            return {}
        try:
            body = json.loads(self.store.get(f"{LOG}/{version:020}.crc") or b"")
            return {"protocol": {**body["protocol"]}, "metaData": {**body["metadata"]}}
        except (ValueError, KeyError, TypeError):
            return {}

    def _facts(self, name: str) -> dict[str, Action]:
        if name.endswith(".json"):
            return facts_of(self._body(name))
        found: dict[str, Action] = {}
        table = self._parquet(name, ["protocol", "metaData"])
        for kind in ("protocol", "metaData"):
            for row in table.column(kind).drop_null().to_pylist():
                found[kind] = row | {"configuration": dict(row.get("configuration") or ())}
        return found

    def _adds(self, name: str) -> Iterator[Action]:
        """Of a checkpoint file and of those that it names beside itself."""
        if name.endswith(".json"):
            for action in lines(self._body(name)):
                yield from self._aside(action.get("sidecar"))
                if action.get("add"):
                    yield action["add"]
            return
        table = self._parquet(name, ["add.path", "add.deletionVector", "sidecar.path"])
        for kind in set(table.column_names) & {"add", "sidecar"}:
            for row in table.column(kind).drop_null().to_pylist():
                if kind == "add":
                    yield row
                else:
                    yield from self._aside(row)

    def _aside(self, sidecar: Action | None) -> Iterator[Action]:
        return self._adds(f"_sidecars/{sidecar['path']}") if sidecar else iter(())

    def _parquet(self, name: str, columns: list[str]) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        where = self._folder / name if self._folder else io.BytesIO(self._body(name))
        try:
            with pq.ParquetFile(where) as file:
                return file.read(columns=columns, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{name}: {error}") from error

    def _body(self, name: str) -> bytes:
        body = self.store.get(f"{LOG}/{name}")
        if body is None:
            raise ValueError(f"{name} is gone")
        return body


def in_turn(ask: Callable[[Asked], Told], about: Sequence[Asked], *, remote: bool) -> Iterator[Told]:
    """The answers in the order of the questions, several at once where each is a journey."""
    if not remote or len(about) < 2:
        return map(ask, about)
    with ThreadPoolExecutor(min(_AT_ONCE, len(about))) as pool:
        return iter(list(pool.map(ask, about)))


def _names(store: Store, folder: Path | None) -> Iterable[str]:
    if folder is None:
        return [
            name
            for entry in store.list(LOG)
            for above, _, name in [entry.path.rpartition("/")]
            if above == LOG
        ]
    try:
        # Names are all that is needed; the store would ask for the size of each.
        return os.listdir(folder)  # noqa: PTH208 - iterdir makes a Path of each
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _identity(action: Action) -> tuple[str, str | None]:
    """A file counts anew with each deletion vector."""
    vector = action.get("deletionVector")
    return action["path"], f"{vector['pathOrInlineDv']}@{vector.get('offset')}" if vector else None
