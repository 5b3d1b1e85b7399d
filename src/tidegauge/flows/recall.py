"""Find a flow's watermarks from what its output keeps of committed windows, to rebuild a ledger."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegauge.errors import OutputDisagrees
from tidegauge.model.position import MOMENTS, FilesPosition, Position, RowPosition, ValueKind, Window, compare
from tidegauge.model.spec import LakeTable
from tidegauge.model.watermark import Recalled
from tidegauge.outputs.lake.table import chain
from tidegauge.outputs.recall import RecalledEpoch, recall_epochs
from tidegauge.plan import lake_batches
from tidegauge.storage.store import open_store

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?")


@dataclass(frozen=True)
class RecalledFlow:
    """Epoch, last batch and watermarks of a flow, by what its output keeps."""

    epoch: int
    seq: int
    marks: Mapping[str, Recalled]
    """By input, its watermark."""
    notes: tuple[str, ...] = ()


def recall_rows(found: RecalledEpoch) -> Recalled:
    """The watermark of a flow that reads a database."""
    position = find_furthest(found.windows, moments=has_moments(found))
    return Recalled(found.cursor or cursor_of(position), position)


def find_furthest(windows: Sequence[Window], *, moments: bool) -> Position | None:
    """The watermark after batches with these windows, in this order.

    A batch that read again below the watermark (a backfill, a lookback) has not moved it. `moments`: the
    cursor is a timestamp.
    """
    stands: Position | None = None
    for window in windows:
        upto = window.upto
        if not isinstance(upto, RowPosition) or not isinstance(stands, RowPosition):
            stands = upto or stands
            continue
        order = compare(stands, upto, moments=moments)
        # Where only the database knows the order: a window that begins at the watermark moves it on.
        if order == -1 or (order is None and window.after == stands):
            stands = upto
    return stands


def find_chain(folder: LakeTable, position: Position | None) -> tuple[str | None, list[str]]:
    """Find the chain of the lake's batches that a load has counted along: the watermark's `source_id`.

    The target does not keep it. If the epochs of the lake differ in the batches that were loaded, choose the
    chain that shares the fewest batches with the present one: then some batches may be loaded again, but none
    is left out. Also returns notes. Raises OutputDisagrees if more was loaded than the lake has.
    """
    if not isinstance(position, FilesPosition):
        return None, []
    store = open_store(folder.lake)
    chains = [chain(store, folder.folder, epoch, last) for epoch, last in recall_epochs(folder)]
    now = chains[-1]
    able = [one for one in chains if lake_batches.count_batches(one) >= position.sequence]
    if not able:
        raise OutputDisagrees(
            f"{position.sequence} batches were loaded from {folder}, and it has"
            f" {lake_batches.count_batches(now)}",
            hint="bring the lake's files back, or load afresh with `tidegauge watermark reset --stage load`",
        )
    used = min(
        able, key=lambda one: (min(lake_batches.count_shared(one, now), position.sequence), one != now)
    )
    notes = []
    if lake_batches.count_shared(used, now) < position.sequence:
        notes.append(
            f"{folder} was changed by hand, and which of its batches were loaded before that is not known:"
            f" those after number {lake_batches.count_shared(used, now)} are loaded again"
        )
    return lake_batches.identity(str(folder), used), notes


def has_moments(found: RecalledEpoch) -> bool:
    """Whether the cursor is a timestamp."""
    last = next((one.upto for one in reversed(found.windows) if one.upto is not None), None)
    return (found.cursor or cursor_of(last)) == "timestamp"


def cursor_of(position: Position | None) -> str:
    """Guess the kind of a cursor (`timestamp` or `value`) from one of its values; empty: no row position."""
    if not isinstance(position, RowPosition):
        return ""
    cursor = position.cursor
    moment = cursor.kind in MOMENTS or (cursor.kind is ValueKind.TEXT and _MOMENT.fullmatch(cursor.text))
    return "timestamp" if moment else "value"
