"""One commit of a Delta log: what it did, and when, by its own words."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Action = dict[str, Any]
_FACTS = ("protocol", "metaData")


@dataclass(frozen=True)
class Commit:
    at: datetime | None
    facts: Mapping[str, Action]
    """`protocol` and `metaData`, where it has set them."""
    added: tuple[Action, ...]
    removed: tuple[Action, ...]
    cdc: tuple[Action, ...]
    key: tuple[str, ...] = ()
    """Of a merge that was committed here, as it says itself."""

    @functools.cached_property
    def came(self) -> tuple[Action, ...]:
        """Files with new rows, not just the old ones rewritten."""
        return tuple(one for one in self.added if one.get("dataChange", True))

    @functools.cached_property
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


def parse(body: bytes) -> Commit:
    """Raises ValueError for what is no commit."""
    facts: dict[str, Action] = {}
    found: dict[str, list[Action]] = {"add": [], "remove": [], "cdc": []}
    at: datetime | None = None
    key: tuple[str, ...] = ()
    for action in lines(body):
        for kind, part in action.items():
            if kind in found:
                found[kind].append(part)
            elif kind in _FACTS and part:
                facts[kind] = part
            elif kind == "commitInfo":
                at, key = moment(part), _key_of(part)
    return Commit(at, facts, tuple(found["add"]), tuple(found["remove"]), tuple(found["cdc"]), key)


def facts_of(body: bytes) -> dict[str, Action]:
    """`protocol` and `metaData` of a commit that has set them, without a look at its files."""
    found: dict[str, Action] = {}
    for line in body.splitlines():
        if b'"metaData"' in line or b'"protocol"' in line:
            action = _object(line)
            found |= {kind: action[kind] for kind in _FACTS if action.get(kind)}
    return found


def time_of(body: bytes) -> datetime | None:
    """When it was committed, without a look at its files."""
    for line in body.splitlines():
        if b'"commitInfo"' in line and (info := _object(line).get("commitInfo")):
            return moment(info)
    return None


def lines(body: bytes) -> list[Action]:
    return [_object(line) for line in body.splitlines() if line.strip()]


def moment(info: Mapping[str, Any]) -> datetime | None:
    """Of a commit, as the commit itself says; a file's own time changes when a table is copied."""
    stamp = info.get("inCommitTimestamp")
    stamp = info.get("timestamp") if stamp is None else stamp
    return None if stamp is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(stamp))


def schema_digest(schema: str) -> str:
    """Short and stable: of the names, types and nullability in a schema's JSON, and of nothing else there."""
    text = json.dumps(_bare(json.loads(schema)), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _bare(part: Any) -> Any:
    match part:
        case {"type": "struct", "fields": fields}:
            return [[one["name"], _bare(one["type"]), one["nullable"]] for one in fields]
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            return ["array", _bare(element), nullable]
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}:
            return ["map", _bare(key), _bare(value), nullable]
        case _:
            return part


def _key_of(info: Mapping[str, Any]) -> tuple[str, ...]:
    """A note on a commit is anybody's; only what is said in our own words counts."""
    said = info.get("userMetadata")
    if not isinstance(said, str) or '"tidegauge"' not in said:
        return ()
    try:
        note = json.loads(said)
    except ValueError:
        return ()
    key = note.get("key") if isinstance(note, dict) and note.get("tidegauge") == 1 else None
    return tuple(key) if isinstance(key, list) and all(isinstance(one, str) for one in key) else ()


def _object(line: bytes) -> Action:
    action = json.loads(line)
    if not isinstance(action, dict):
        raise ValueError("a line of it is no action")
    return action
