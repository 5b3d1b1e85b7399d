"""Reads from a Delta table's log how far its flow has come, by the notes in our own commits.

`ledger rebuild` uses it. It changes nothing and needs no Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegauge.delta_log.snapshot import Log
from tidegauge.errors import OutputDisagrees, PositionError
from tidegauge.model.position import from_body
from tidegauge.model.spec import Lake
from tidegauge.model.watermark import Recalled
from tidegauge.outputs.delta.epochs import DeltaEpochs
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
    epochs = DeltaEpochs(Log(store), pipeline, flow)
    now = epochs.standing()
    if not now.ours and now.marker is None:
        return None
    epoch, seq = now.epoch, now.logged or 0
    opened: str | None = None
    try:
        at = (epoch, seq)
        while at[0] and not at[1]:
            opening = epochs.find_opening(now, at[0])
            if opening is None:
                raise _lost_error(flow, store.place, f"what opened epoch {at[0]}")
            opened = opening.reason if opened is None else opened
            if opening.continues is None:
                return RecalledDeltaEpoch(epoch, seq, {}, opened)
            at = opening.continues
        if not at[1]:
            return RecalledDeltaEpoch(epoch, seq, {}, opened)
        batch = next((one for one in epochs.find_notes(now) if _batch_number(one) == at), None)
        if batch is None:
            raise _lost_error(flow, store.place, f"batch {at[1]}, epoch {at[0]},")
        return RecalledDeltaEpoch(epoch, seq, _parse_marks(batch), opened)
    except (KeyError, TypeError, ValueError, PositionError) as error:
        raise OutputDisagrees(
            f"{flow}: what the log of {store.place} says of its batches cannot be read:"
            f" {type(error).__name__}: {error}",
            hint="another version of tidegauge wrote it; bring a backup of the ledger back",
        ) from error


def _batch_number(said: dict[str, Any]) -> tuple[int, int] | None:
    """Epoch and sequence number of the batch in a note; None where the commit is no batch."""
    return (int(said["epoch"]), int(said["seq"])) if said.get("kind") is None else None


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
