"""Reads from a Delta table's log how far its flow has come, by the notes in our own commits.

`ledger rebuild` uses it. It changes nothing and needs no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidegauge.delta_log.newest import Log
from tidegauge.errors import OutputDisagrees, PositionError
from tidegauge.model.position import from_body
from tidegauge.model.spec import Lake
from tidegauge.model.watermark import Recalled
from tidegauge.outputs.delta.epochs import EPOCH, DeltaEpochs, EpochStanding
from tidegauge.storage.store import open_store


@dataclass(frozen=True)
class RecalledDeltaEpoch:
    """The newest epoch of a Delta table that a flow writes."""

    epoch: int
    seq: int
    """The epoch's last batch; 0: none yet."""
    marks: dict[str, Recalled]
    """How far each input was read, by its name; empty where the epoch starts from the beginning."""
    opened: str | None = None
    """Why the epoch was opened by hand; None as soon as it has a batch."""


def recall_delta(lake: Lake, pipeline: str, flow: str) -> RecalledDeltaEpoch | None:
    """The flow's newest epoch in the table at `lake.path`; None where there is no table, or nothing of this
    flow in it.

    Raises OutputUnreachable; OutputDisagrees where the log no longer has the commits that are needed.
    """
    store = open_store(lake)
    now = DeltaEpochs(Log(store), pipeline, flow).standing()
    if not now.ours and now.marker is None:
        return None
    epoch, seq = now.epoch, now.logged or 0
    opened: str | None = None
    try:
        at = (epoch, seq)
        while at[0] and not at[1]:
            opening = _find_opening(now, pipeline, flow, at[0])
            if opening is None:
                raise _lost_error(flow, store.place, f"what opened epoch {at[0]}")
            opened = str(opening.get("reason") or "") if opened is None else opened
            if opening["continues"] is None:
                return RecalledDeltaEpoch(epoch, seq, {}, opened)
            at = int(opening["continues"]["epoch"]), int(opening["continues"]["upto"])
        if not at[1]:
            return RecalledDeltaEpoch(epoch, seq, {}, opened)
        batch = next((one for one in _find_messages(now, pipeline, flow) if _batch_number(one) == at), None)
        if batch is None:
            raise _lost_error(flow, store.place, f"batch {at[1]}, epoch {at[0]},")
        return RecalledDeltaEpoch(epoch, seq, _parse_marks(batch), opened)
    except (KeyError, TypeError, ValueError, PositionError) as error:
        raise OutputDisagrees(
            f"{flow}: what the log of {store.place} says of its batches cannot be read:"
            f" {type(error).__name__}: {error}",
            hint="another version of tidegauge wrote it; bring a backup of the ledger back",
        ) from error


def _find_messages(now: EpochStanding, pipeline: str, flow: str) -> Iterator[dict[str, Any]]:
    """The notes of the flow's own commits, newest first."""
    for commit in now.look.commits() if now.look else ():
        said = commit.note
        if said is not None and (said.get("pipeline"), said.get("flow")) == (pipeline, flow):
            yield said


def _batch_number(said: dict[str, Any]) -> tuple[int, int] | None:
    """Epoch and sequence number of the batch in a note; None where the commit is no batch."""
    return (int(said["epoch"]), int(said["seq"])) if said.get("kind") is None else None


def _find_opening(now: EpochStanding, pipeline: str, flow: str, epoch: int) -> dict[str, Any] | None:
    """How an epoch was opened, by the marker file beside the log or else by the log; None: not found."""
    marker = now.marker
    if marker is not None and marker.epoch == epoch:
        continues = marker.continues
        return {
            "reason": marker.reason,
            "continues": {"epoch": continues[0], "upto": continues[1]} if continues else None,
        }
    return next(
        (
            one
            for one in _find_messages(now, pipeline, flow)
            if one.get("kind") == EPOCH and int(one["epoch"]) == epoch
        ),
        None,
    )


def _parse_marks(said: dict[str, Any]) -> dict[str, Recalled]:
    return {
        str(one["input"]): Recalled(
            cursor=str(one["cursor"]),
            position=from_body(one["upto"]),
            source_id=one.get("source_id"),
            fingerprint=one.get("fingerprint"),
            stamp=one.get("stamp"),
            pending=one.get("pending"),
        )
        for one in said["windows"]
    }


def _lost_error(flow: str, place: str, what: str) -> OutputDisagrees:
    return OutputDisagrees(
        f"{flow}: {what} is no longer in the log of {place}, so nothing tells how far its inputs were read",
        hint="bring a backup of the ledger back, or begin again with `tidegauge watermark reset`",
    )
