"""Commits to a Delta table that are made without Spark: one file, put where no file is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from tidegauge.delta_log.commit import Action, commit_path
from tidegauge.storage.store import Store


def put_commit(store: Store, version: int, actions: Iterable[Mapping[str, Any]], table: str = "") -> bool:
    """Add a commit unless somebody else has added one with this number; of many at once exactly one wins.

    `table` is the table's folder below the store's path. An error proves nothing.
    """
    body = "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in actions)
    path = f"{table}/{commit_path(version)}" if table else commit_path(version)
    # A put that was repeated after a lost answer is refused because of itself.
    return store.put_if_absent(path, body.encode()) or store.get(path) == body.encode()


def commit_info(now: int, operation: str, more: Mapping[str, Any] | None = None) -> Action:
    """The first action of a commit; `now` is in milliseconds. No two are equal, though they do the same."""
    return {
        "commitInfo": {
            "timestamp": now,
            "operation": operation,
            "operationParameters": {},
            **(more or {}),
            "engineInfo": "tidegauge",
            "txnId": str(uuid.uuid4()),
        }
    }
