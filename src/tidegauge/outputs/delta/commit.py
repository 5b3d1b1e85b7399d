"""The tag in a commit: how Spark is made to write it, and how a commit with it is found and read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegauge.delta_log.application import application
from tidegauge.delta_log.commit import Commit
from tidegauge.delta_log.snapshot import Snapshot
from tidegauge.errors import OutputDisagrees, PositionError
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.expectation import Checks
from tidegauge.model.mode import OutputKind
from tidegauge.model.plan import Batch, Plan, Receipt, Tag, window_from_dict, window_to_dict
from tidegauge.outputs.other_batch import other_batch_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@contextmanager
def tag_commits(session: SparkSession, tag: Tag, said: str) -> Iterator[None]:
    """Every commit of this session inside the block has the tag, and this note as its `userMetadata`. Delta
    skips a second commit with the same tag."""
    try:
        session.conf.set(APPLICATION, application(tag))
        session.conf.set(VERSION, str(tag.seq))
        session.conf.set(METADATA, said)
        yield
    finally:
        for name in (APPLICATION, VERSION, METADATA):
            session.conf.unset(name)


def describe_commit(
    delta_flow: DeltaFlow,
    plan: Plan | None,
    tag: Tag,
    batch: Batch,
    run_id: str,
    *,
    read: int | None = None,
    checks: Checks | None = None,
) -> str:
    """The note of a commit, as JSON: all that is needed to rebuild a ledger from it."""
    inputs: list[dict[str, Any]] = [
        {"input": part.name, "cursor": "snapshot" if part.snapshot else "version"}
        for part in delta_flow.inputs
    ]
    if plan is not None:
        inputs = [
            {
                "input": part.input,
                "cursor": part.cursor,
                "source_id": part.source_id,
                "fingerprint": part.fingerprint,
                "stamp": part.stamp,
                "pending": part.pending,
            }
            for part in plan.draft.inputs
        ]
    windows = []
    for index, window in enumerate(batch.windows):
        about = inputs[index] if index < len(inputs) else {}
        way = batch.ways[index] if index < len(batch.ways) else None
        if batch.stamps:
            about = {**about, "stamp": batch.stamps[index]}
        windows.append({**about, **window_to_dict(window), "way": way})
    said = {
        "tidegauge": 1,
        "pipeline": tag.pipeline,
        "flow": tag.flow,
        "epoch": tag.epoch,
        "seq": tag.seq,
        "run_id": run_id,
        "plan": plan.plan_id if plan else None,
        "windows": windows,
        "what": batch.kind,
    }
    if read is not None:
        said["read"] = read
    if checks is not None:
        said["expectations"] = checks.to_json()
    if delta_flow.output.mode.one_row_per_key(OutputKind.DELTA):
        # A flow that reads this table then need not check whether two of its rows have one key.
        said["key"] = list(delta_flow.output.key)
    return json.dumps(said, ensure_ascii=False)


@dataclass(frozen=True)
class TaggedCommit:
    commit: Commit | None
    """None: the commit was made, but the log no longer reaches back to it."""


def find(look: Snapshot, tag: Tag) -> TaggedCommit | None:
    """The commit of a batch, searched from the newest back; None where the batch was not committed.

    Raises OutputDisagrees where a later batch of the epoch is there and this one is not.
    """
    name, later = application(tag), False
    for commit in look.since_checkpoint():
        version = commit.transactions.get(name)
        if version == tag.seq:
            return TaggedCommit(commit)
        if version is not None and version < tag.seq:
            _check_last(look, tag, later=later)
            return None
        later = later or version is not None
    version = look.checkpoint_transactions.get(name)
    if version is None or version < tag.seq:
        _check_last(look, tag, later=later)
        return None
    for commit in look.commits():
        found = commit.transactions.get(name)
        if found == tag.seq:
            return TaggedCommit(commit)
        if found is not None and found < tag.seq:
            _check_last(look, tag, later=True)
            return None
    return TaggedCommit(None)


def _check_last(look: Snapshot, tag: Tag, *, later: bool) -> None:
    if later:
        raise OutputDisagrees(
            f"batch {tag.seq} of epoch {tag.epoch} of the flow {tag.flow} is not in version {look.version} of"
            " its table, and a later one is",
            hint="this ledger is an older copy, or another one writes here; nothing was changed",
        )


def receipt_of(found: TaggedCommit, tag: Tag) -> Receipt:
    """The receipt in a commit's note and metrics; without windows and counts where the commit is gone from
    the log. Raises OutputDisagrees where the note cannot be read."""
    if found.commit is None:
        return Receipt(tag, (), 0, 0, 0, "")
    said, info = found.commit.note, found.commit.info
    if said is None:
        raise OutputDisagrees(
            f"the commit {found.commit.version} has the tag of batch {tag.seq}, epoch {tag.epoch}, of"
            f" {tag.flow}, and does not say what it holds",
            hint="another program uses our name in this table; nothing was changed",
        )
    try:
        windows = tuple(window_from_dict(one) for one in said["windows"])
        checks = _parse_checks(said, info)
    except (KeyError, TypeError, ValueError, PositionError) as error:
        raise OutputDisagrees(
            f"what the commit {found.commit.version} of the flow {tag.flow} says cannot be read: {error}",
            hint="another version of tidegauge wrote it: use that one; nothing was changed",
        ) from error
    count = _parse_counts(info)
    base = (tag, windows)
    run_id, read = str(said.get("run_id") or ""), said.get("read")
    if info.get("operation") == "MERGE":
        inserted, updated, deleted = (
            count.get(f"numTargetRows{kind}", 0) for kind in ("Inserted", "Updated", "Deleted")
        )
        return Receipt(
            *base,
            rows=inserted + updated + deleted,
            files=count.get("numTargetFilesAdded", 0),
            bytes=count.get("numTargetBytesAdded", 0),
            run_id=run_id,
            inserted=inserted,
            updated=updated,
            deleted=deleted,
            read=count.get("numSourceRows") if read is None else read,
            checks=checks,
        )
    rows = _count_written(count)
    append = (info.get("operationParameters") or {}).get("mode", "Append") == "Append"
    return Receipt(
        *base,
        rows=rows,
        files=count.get("numFiles", 0),
        bytes=count.get("numOutputBytes", 0),
        run_id=run_id,
        inserted=rows,
        updated=0 if append else None,
        deleted=0 if append else count.get("numDeletedRows"),
        read=read,
        checks=checks,
    )


def check_same(receipt: Receipt, found: TaggedCommit, batch: Batch, place: str) -> None:
    """Raises OutputDisagrees where the committed batch has other windows than this one or is of another kind;
    commits of earlier versions do not say their kind."""
    said = found.commit.note if found.commit else None
    kind = said.get("what", batch.kind) if said else batch.kind
    if receipt.windows and (receipt.windows, kind) != (batch.windows, batch.kind):
        raise other_batch_error(place, receipt.tag)


def _parse_checks(said: dict[str, Any], info: dict[str, Any]) -> Checks | None:
    if "expectations" not in said:
        return None
    checks = Checks.from_json(said["expectations"])
    return replace(checks, checked=_count_written(_parse_counts(info))) if checks.checked is None else checks


def _parse_counts(info: dict[str, Any]) -> dict[str, int]:
    metrics = info.get("operationMetrics") or {}
    return {name: int(value) for name, value in metrics.items() if _is_whole_number(value)}


def _count_written(count: dict[str, int]) -> int:
    """How many rows a commit that is no merge wrote, without those that it only copied."""
    return count.get("numOutputRows", 0) - count.get("numCopiedRows", 0)


def _is_whole_number(value: Any) -> bool:
    return str(value).lstrip("-").isdigit()
