"""What a Delta table itself knows of how far its flow has come: our own words in the commits of its log.

It is what `ledger rebuild` goes by. Nothing is changed here, and no Spark is asked.
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
    """Its last batch; 0: none yet."""
    marks: dict[str, Recalled]
    """By input; none where it begins at the beginning."""
    opened: str | None = None
    """Why it was opened by hand, while no batch has come since."""


def recall_delta(lake: Lake, pipeline: str, flow: str) -> RecalledDeltaEpoch | None:
    """None: there is no table, or this flow has committed nothing to it. The lake's path is the table's.

    Raises OutputUnreachable; OutputDisagrees where the log no longer has what would have to be known.
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
            opening = _opening(now, pipeline, flow, at[0])
            if opening is None:
                raise _lost(flow, store.place, f"what opened epoch {at[0]}")
            opened = str(opening.get("reason") or "") if opened is None else opened
            if opening["continues"] is None:
                return RecalledDeltaEpoch(epoch, seq, {}, opened)
            at = int(opening["continues"]["epoch"]), int(opening["continues"]["upto"])
        if not at[1]:
            return RecalledDeltaEpoch(epoch, seq, {}, opened)
        batch = next((one for one in _said(now, pipeline, flow) if _number(one) == at), None)
        if batch is None:
            raise _lost(flow, store.place, f"batch {at[1]}, epoch {at[0]},")
        return RecalledDeltaEpoch(epoch, seq, _marks(batch), opened)
    except (KeyError, TypeError, ValueError, PositionError) as error:
        raise OutputDisagrees(
            f"{flow}: what the log of {store.place} says of its batches cannot be read:"
            f" {type(error).__name__}: {error}",
            hint="another version of tidegauge wrote it; bring a backup of the ledger back",
        ) from error


def _said(now: EpochStanding, pipeline: str, flow: str) -> Iterator[dict[str, Any]]:
    """Of the flow's own commits, newest first."""
    for commit in now.look.commits() if now.look else ():
        said = commit.note
        if said is not None and (said.get("pipeline"), said.get("flow")) == (pipeline, flow):
            yield said


def _number(said: dict[str, Any]) -> tuple[int, int] | None:
    """Epoch and batch; None for what is no batch."""
    return (int(said["epoch"]), int(said["seq"])) if said.get("kind") is None else None


def _opening(now: EpochStanding, pipeline: str, flow: str, epoch: int) -> dict[str, Any] | None:
    """As the file beside the log says, or else the log."""
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
            for one in _said(now, pipeline, flow)
            if one.get("kind") == EPOCH and int(one["epoch"]) == epoch
        ),
        None,
    )


def _marks(said: dict[str, Any]) -> dict[str, Recalled]:
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


def _lost(flow: str, place: str, what: str) -> OutputDisagrees:
    return OutputDisagrees(
        f"{flow}: {what} is no longer in the log of {place}, so nothing tells how far its inputs were read",
        hint="bring a backup of the ledger back, or begin again with `tidegauge watermark reset`",
    )
