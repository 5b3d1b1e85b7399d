"""Commits to a Delta table that are made without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from tidegauge.delta_log.library import through_catalogue
from tidegauge.delta_log.output_log import Action, Commit, Look
from tidegauge.errors import OutputDisagrees


def refuse_catalogue(look: Look) -> None:
    """Raises OutputDisagrees where commits go through a catalogue: then the log tells neither which tags are
    there, nor takes one of ours."""
    protocol = look.newest("protocol")
    features = {*(protocol.get("writerFeatures") or ()), *(protocol.get("readerFeatures") or ())}
    if feature := through_catalogue(features):
        raise OutputDisagrees(
            f"the table is committed to through a catalogue ({feature}), so its log does not tell which"
            " batches are in it",
            hint="write to a table of Delta's own log, or drop the feature, or the table, and begin anew",
        )


def commit_info(look: Look, now: int, said: str, operation: str) -> Action:
    """For a commit that is made without Spark. Raises OutputDisagrees where one cannot be made so."""
    refuse_catalogue(look)
    metadata = look.newest("metaData")
    info: dict[str, Any] = {
        "timestamp": now,
        "operation": operation,
        "operationParameters": {},
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {},
        "userMetadata": said,
        "engineInfo": "tidegauge",
        "txnId": str(uuid.uuid4()),
    }
    if str((metadata.get("configuration") or {}).get("delta.enableInCommitTimestamps")).lower() == "true":
        last: Commit | None = next(look.commits(), None)
        before = int(last.info.get("inCommitTimestamp", 0)) if last else 0
        info = {"inCommitTimestamp": max(now, before + 1), **info}
    return {"commitInfo": info}


def removals(look: Look, now: int) -> Iterator[Action]:
    """Every file of the table goes, with the deletion vector that it has."""
    metadata = look.newest("metaData")
    if str((metadata.get("configuration") or {}).get("delta.appendOnly")).lower() == "true":
        raise OutputDisagrees(
            "the table has delta.appendOnly set, so its rows cannot be removed",
            hint="ALTER TABLE … UNSET TBLPROPERTIES ('delta.appendOnly'), then again; nothing was changed",
        )
    for add in look.files():
        remove: Action = {
            "path": add["path"],
            "deletionTimestamp": now,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": add.get("partitionValues") or {},
            "size": add["size"],
        }
        for name in ("deletionVector", "tags", "baseRowId", "defaultRowCommitVersion", "stats"):
            if add.get(name) is not None:
                remove[name] = add[name]
        yield {"remove": remove}
