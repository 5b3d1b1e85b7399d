"""What an output keeps of the windows that were committed there, from which a ledger can be rebuilt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegauge.errors import OutputDisagrees
from tidegauge.model.position import FilesPosition, Position, RowPosition, ValueKind, Window, compare
from tidegauge.model.spec import LakeTable
from tidegauge.model.watermark import Recalled
from tidegauge.outputs.lake.recall import RecalledEpoch, recall_epochs
from tidegauge.outputs.lake.table import chain
from tidegauge.plan import files
from tidegauge.storage.store import open_store

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?")
_MOMENTS = (ValueKind.TIMESTAMP, ValueKind.TIMESTAMPTZ, ValueKind.DATE)


@dataclass(frozen=True)
class RecalledFlow:
    """Where a flow stands, by its output."""

    epoch: int
    seq: int
    marks: Mapping[str, Recalled]
    """By input."""
    notes: tuple[str, ...] = ()


def recall_rows(found: RecalledEpoch) -> Recalled:
    """The watermark of a flow that reads a database."""
    position = find_furthest(found.windows, moments=has_moments(found))
    return Recalled(found.cursor or cursor_of(position), position)


def find_furthest(windows: Sequence[Window], *, moments: bool) -> Position | None:
    """Where batches in this order have brought a watermark that reads rows.

    A batch that read again below it (a backfill, a lookback) left it where it was.
    """
    stands: Position | None = None
    for window in windows:
        upto = window.upto
        if not isinstance(upto, RowPosition) or not isinstance(stands, RowPosition):
            stands = upto or stands
            continue
        order = compare(stands, upto, moments=moments)
        # Where only the database could tell, what goes on from here is what comes after it.
        if order == -1 or (order is None and window.after == stands):
            stands = upto
    return stands


def find_chain(folder: LakeTable, position: Position | None) -> tuple[str | None, list[str]]:
    """Which chain of the lake's batches a load has counted along, as its watermark remembers it.

    The warehouse does not say. Where the lake has had more than one epoch, and they differ in what was
    loaded, the one counts that has least in common with what the lake is now: what may have been loaded is
    then loaded again, and nothing is left out.
    """
    if not isinstance(position, FilesPosition):
        return None, []
    store = open_store(folder.lake)
    chains = [chain(store, folder.folder, epoch, last) for epoch, last in recall_epochs(folder)]
    now = chains[-1]
    able = [one for one in chains if files.length(one) >= position.sequence]
    if not able:
        raise OutputDisagrees(
            f"{position.sequence} batches were loaded from {folder}, and it has {files.length(now)}",
            hint="bring the lake's files back, or load afresh with `tidegauge watermark reset --stage load`",
        )
    used = min(able, key=lambda one: (min(files.count_shared(one, now), position.sequence), one != now))
    notes = []
    if files.count_shared(used, now) < position.sequence:
        notes.append(
            f"{folder} was changed by hand, and which of its batches were loaded before that is not known:"
            f" those after number {files.count_shared(used, now)} are loaded again"
        )
    return files.identity(str(folder), used), notes


def has_moments(found: RecalledEpoch) -> bool:
    last = next((one.upto for one in reversed(found.windows) if one.upto is not None), None)
    return (found.cursor or cursor_of(last)) == "timestamp"


def cursor_of(position: Position | None) -> str:
    """The kind of a cursor, as a value of it shows; the next plan knows it for sure."""
    if not isinstance(position, RowPosition):
        return ""
    cursor = position.cursor
    moment = cursor.kind in _MOMENTS or (cursor.kind is ValueKind.TEXT and _MOMENT.fullmatch(cursor.text))
    return "timestamp" if moment else "value"
