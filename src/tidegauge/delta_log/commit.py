"""One commit of a Delta log: its actions, and what they say about the table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegauge.model.lazy import lazy

LOG = "_delta_log"
FACTS = ("protocol", "metaData")
"""The actions that stay valid until a later commit replaces them."""
Action = dict[str, Any]


@dataclass(frozen=True)
class Commit:
    version: int
    actions: tuple[Action, ...]

    @lazy
    def info(self) -> Action:
        """The `commitInfo` action; empty where there is none."""
        return next(self._filter("commitInfo"), {})

    @property
    def at(self) -> datetime | None:
        """When it was committed, in UTC; None where the commit does not say."""
        return moment(self.info)

    @lazy
    def note(self) -> Action | None:
        """The JSON that Tidegauge wrote into `userMetadata`; None where another program made the commit."""
        text = self.info.get("userMetadata")
        if not isinstance(text, str) or '"tidegauge"' not in text:
            return None
        try:
            note = json.loads(text)
        except ValueError:
            return None
        return note if isinstance(note, dict) and note.get("tidegauge") == 1 else None

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the target, where Tidegauge noted that its rows have one row for each; else empty."""
        key = self.note.get("key") if self.note else None
        return tuple(key) if isinstance(key, list) and all(isinstance(one, str) for one in key) else ()

    @lazy
    def facts(self) -> dict[str, Action]:
        """The `protocol` and `metaData` that this commit sets, if any."""
        return {kind: part for kind in FACTS for part in self._filter(kind)}

    @lazy
    def transactions(self) -> dict[str, int]:
        """The version of each application's transaction in this commit."""
        return {str(one["appId"]): int(one["version"]) for one in self._filter("txn")}

    @lazy
    def added(self) -> tuple[Action, ...]:
        return tuple(self._filter("add"))

    @lazy
    def removed(self) -> tuple[Action, ...]:
        return tuple(self._filter("remove"))

    @lazy
    def cdc(self) -> tuple[Action, ...]:
        return tuple(self._filter("cdc"))

    @lazy
    def came(self) -> tuple[Action, ...]:
        """The added files that change data; a file that only rewrites old rows is left out."""
        return tuple(one for one in self.added if one.get("dataChange", True))

    @lazy
    def went(self) -> tuple[Action, ...]:
        """The removed files that change data."""
        return tuple(one for one in self.removed if one.get("dataChange", True))

    @property
    def changes(self) -> bool:
        """Whether the commit changes any row."""
        return bool(self.cdc or self.came or self.went)

    @property
    def only_adds(self) -> bool:
        """Whether the commit only adds whole files: no change data, removed file or deletion vector."""
        return not self.cdc and not self.went and not any(one.get("deletionVector") for one in self.came)

    @property
    def needed(self) -> tuple[Action, ...]:
        """The files that the commit's changes are read from."""
        return self.cdc or (*self.came, *self.went)

    def _filter(self, kind: str) -> Iterator[Action]:
        return (action[kind] for action in self.actions if action.get(kind) is not None)


def parse_commit(version: int, body: bytes) -> Commit:
    """Raises ValueError where the body is not the JSON of a commit."""
    return Commit(version, parse_actions(body))


def parse_actions(body: bytes) -> tuple[Action, ...]:
    """The actions in the body of a commit or JSON checkpoint: one in each line. Raises ValueError."""
    return tuple(_parse_action(line) for line in body.splitlines() if line.strip())


def commit_path(version: int) -> str:
    """The path of a commit's file, relative to the table's folder."""
    return f"{LOG}/{version:020}.json"


def facts_of(body: bytes) -> dict[str, Action]:
    """The `protocol` and `metaData` that a commit sets, if any. Other lines are not parsed."""
    found: dict[str, Action] = {}
    for line in body.splitlines():
        if b'"metaData"' in line or b'"protocol"' in line:
            action = _parse_action(line)
            found |= {kind: action[kind] for kind in FACTS if action.get(kind)}
    return found


def time_of(body: bytes) -> datetime | None:
    """When a commit was made, in UTC; None where it does not say. Only the `commitInfo` is parsed."""
    return moment(_find_info(body))


def in_commit_time(body: bytes) -> datetime | None:
    """The time that Delta itself put into a commit, in UTC; None where the table does not keep such times."""
    return _moment_of(_find_info(body).get("inCommitTimestamp"))


def _find_info(body: bytes) -> Action:
    for line in body.splitlines():
        if b'"commitInfo"' in line and (info := _parse_action(line).get("commitInfo")):
            return dict(info)
    return {}


def moment(info: Mapping[str, Any]) -> datetime | None:
    """The time in a `commitInfo`, in UTC; None where it has none. A file's own time is not used, since it
    changes when a table is copied."""
    stamp = info.get("inCommitTimestamp")
    return _moment_of(info.get("timestamp") if stamp is None else stamp)


def _moment_of(stamp: Any) -> datetime | None:
    return None if stamp is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(stamp))


def file_identity(action: Action) -> tuple[str, str]:
    """Identifies a file by path and deletion vector: with another deletion vector it is another file."""
    vector = action.get("deletionVector") or {}
    return action["path"], f"{vector.get('storageType')}{vector.get('pathOrInlineDv')}@{vector.get('offset')}"


def schema_digest(schema: str) -> str:
    """A short, stable digest of the names, types and nullability in a schema's JSON; metadata does not
    count."""
    text = json.dumps(_strip_metadata(json.loads(schema)), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _strip_metadata(part: Any) -> Any:
    match part:
        case {"type": "struct", "fields": fields}:
            return [[one["name"], _strip_metadata(one["type"]), one["nullable"]] for one in fields]
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            return ["array", _strip_metadata(element), nullable]
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}:
            return ["map", _strip_metadata(key), _strip_metadata(value), nullable]
        case _:
            return part


def _parse_action(line: bytes) -> Action:
    action = json.loads(line)
    if not isinstance(action, dict):
        raise ValueError("a line of it is no action")
    return action
