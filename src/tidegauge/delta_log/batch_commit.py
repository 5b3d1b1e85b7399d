"""Actions of the commits that outputs make without Spark: batches of few rows or none, opened epochs, and
changed columns."""

from __future__ import annotations

from collections.abc import Iterator

from tidegauge.delta_log.commit import Action
from tidegauge.delta_log.protocol import catalogue_feature
from tidegauge.delta_log.snapshot import Snapshot
from tidegauge.delta_log.write import commit_info
from tidegauge.errors import OutputDisagrees


def refuse_catalogue_commits(look: Snapshot) -> None:
    """Raises OutputDisagrees where commits go through a catalogue: then the log does not show all tags, and
    a commit that is put into it does not count."""
    if feature := catalogue_feature(look.state.features):
        raise OutputDisagrees(
            f"the table is committed to through a catalogue ({feature}), so its log does not tell which"
            " batches are in it",
            hint="write to a table of Delta's own log, or drop the feature, or the table, and begin anew",
        )


def batch_info(look: Snapshot, now: int, note: str, operation: str) -> Action:
    """The `commitInfo` of a commit on top of `look`; `now` is in milliseconds. Raises OutputDisagrees for a
    table that is committed to through a catalogue."""
    refuse_catalogue_commits(look)
    info = commit_info(
        now,
        operation,
        {
            "isolationLevel": "Serializable",
            "isBlindAppend": False,
            "operationMetrics": {},
            "userMetadata": note,
        },
    )
    if look.state.is_on("delta.enableInCommitTimestamps"):
        last = next(look.commits(), None)
        before = int(last.info.get("inCommitTimestamp", 0)) if last else 0
        return {"commitInfo": {"inCommitTimestamp": max(now, before + 1), **info["commitInfo"]}}
    return info


def removals(look: Snapshot, now: int) -> Iterator[Action]:
    """A `remove` for every file of the table. Raises OutputDisagrees where the table only takes appends."""
    if look.state.is_on("delta.appendOnly"):
        raise OutputDisagrees(
            "the table has delta.appendOnly set, so its rows cannot be removed",
            hint="ALTER TABLE … UNSET TBLPROPERTIES ('delta.appendOnly'), then again; nothing was changed",
        )
    return ({"remove": removal_of(add, now)} for add in look.files())


def removal_of(add: Action, now: int) -> Action:
    """The `remove` for a file that this `add` put into the table; `now` is in milliseconds."""
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
    return remove
