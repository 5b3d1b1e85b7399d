"""One commit of a Delta log: its actions, and what they say of the table."""

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
"""The actions that hold from their version on until a later one says otherwise."""
Action = dict[str, Any]


@dataclass(frozen=True)
class Commit:
    version: int
    actions: tuple[Action, ...]

    @lazy
    def info(self) -> Action:
        return next(self._of("commitInfo"), {})

    @property
    def at(self) -> datetime | None:
        return moment(self.info)

    @lazy
    def note(self) -> Action | None:
        """What Tidegauge has written into it; None where somebody else made the commit."""
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
        """Of a merge that Tidegauge has committed, as its note says."""
        key = self.note.get("key") if self.note else None
        return tuple(key) if isinstance(key, list) and all(isinstance(one, str) for one in key) else ()

    @lazy
    def facts(self) -> dict[str, Action]:
        """`protocol` and `metaData`, where it has set them."""
        return {kind: part for kind in FACTS for part in self._of(kind)}

    @lazy
    def transactions(self) -> dict[str, int]:
        """By application, the version of its transaction."""
        return {str(one["appId"]): int(one["version"]) for one in self._of("txn")}

    @lazy
    def added(self) -> tuple[Action, ...]:
        return tuple(self._of("add"))

    @lazy
    def removed(self) -> tuple[Action, ...]:
        return tuple(self._of("remove"))

    @lazy
    def cdc(self) -> tuple[Action, ...]:
        return tuple(self._of("cdc"))

    @lazy
    def came(self) -> tuple[Action, ...]:
        """Files with new rows, not just the old ones rewritten."""
        return tuple(one for one in self.added if one.get("dataChange", True))

    @lazy
    def went(self) -> tuple[Action, ...]:
        return tuple(one for one in self.removed if one.get("dataChange", True))

    @property
    def changes(self) -> bool:
        return bool(self.cdc or self.came or self.went)

    @property
    def only_adds(self) -> bool:
        """No row of an added file is marked as deleted, and no file, nor part of one, went."""
        return not self.cdc and not self.went and not any(one.get("deletionVector") for one in self.came)

    @property
    def needed(self) -> tuple[Action, ...]:
        """The files that its changes are read from."""
        return self.cdc or (*self.came, *self.went)

    def _of(self, kind: str) -> Iterator[Action]:
        return (action[kind] for action in self.actions if action.get(kind) is not None)


def parse_commit(version: int, body: bytes) -> Commit:
    """Raises ValueError for what is no commit."""
    return Commit(version, parse_actions(body))


def parse_actions(body: bytes) -> tuple[Action, ...]:
    """Of a commit, or of a checkpoint in JSON: one action in each line."""
    return tuple(_parse_action(line) for line in body.splitlines() if line.strip())


def commit_path(version: int) -> str:
    """Below the table's folder."""
    return f"{LOG}/{version:020}.json"


def facts_of(body: bytes) -> dict[str, Action]:
    """`protocol` and `metaData` of a commit that has set them, without a look at its files."""
    found: dict[str, Action] = {}
    for line in body.splitlines():
        if b'"metaData"' in line or b'"protocol"' in line:
            action = _parse_action(line)
            found |= {kind: action[kind] for kind in FACTS if action.get(kind)}
    return found


def time_of(body: bytes) -> datetime | None:
    """When it was committed, without a look at its files."""
    for line in body.splitlines():
        if b'"commitInfo"' in line and (info := _parse_action(line).get("commitInfo")):
            return moment(info)
    return None


def moment(info: Mapping[str, Any]) -> datetime | None:
    """Of a commit, as the commit itself says; a file's own time changes when a table is copied."""
    stamp = info.get("inCommitTimestamp")
    stamp = info.get("timestamp") if stamp is None else stamp
    return None if stamp is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(stamp))


def file_identity(action: Action) -> tuple[str, str]:
    """What tells a file apart: with another deletion vector it is another file."""
    vector = action.get("deletionVector") or {}
    return action["path"], f"{vector.get('storageType')}{vector.get('pathOrInlineDv')}@{vector.get('offset')}"


def schema_digest(schema: str) -> str:
    """Short and stable: of the names, types and nullability in a schema's JSON, and of nothing else there."""
    text = json.dumps(_without_metadata(json.loads(schema)), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _without_metadata(part: Any) -> Any:
    match part:
        case {"type": "struct", "fields": fields}:
            return [[one["name"], _without_metadata(one["type"]), one["nullable"]] for one in fields]
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            return ["array", _without_metadata(element), nullable]
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}:
            return ["map", _without_metadata(key), _without_metadata(value), nullable]
        case _:
            return part


def _parse_action(line: bytes) -> Action:
    action = json.loads(line)
    if not isinstance(action, dict):
        raise ValueError("a line of it is no action")
    return action
