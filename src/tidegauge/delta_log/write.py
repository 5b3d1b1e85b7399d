"""Commits to a Delta table without Spark: one file, put only if there is none with that number."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from tidegauge.delta_log.commit import Action, commit_path
from tidegauge.storage.store import Store


def put_commit(store: Store, version: int, actions: Iterable[Mapping[str, Any]], table: str = "") -> bool:
    """Add a commit unless somebody else has added one with this number; of many at once exactly one wins.

    `table` is the table's folder below the store's path. After an error the commit may still be there.
    """
    body = "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in actions)
    path = f"{table}/{commit_path(version)}" if table else commit_path(version)
    # A put that is retried after a lost answer finds its own file there.
    return store.put_if_absent(path, body.encode()) or store.get(path) == body.encode()


def commit_info(now: int, operation: str, more: Mapping[str, Any] | None = None) -> Action:
    """The first action of a commit; `now` is in milliseconds. Each has a transaction id of its own."""
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
