"""The gap map of a flow: which pieces of its inputs are delivered, were read again, failed or wait.

Each input is a strip, with a lane for each epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from tidegauge.dashboard.positions import Axis, axis_over, place_of, second_of
from tidegauge.dashboard.snapshot import FleetSnapshots, SeenFlow
from tidegauge.ledger.open import open_ledger
from tidegauge.model.override import BEGIN_EPOCH
from tidegauge.model.position import Position, to_text
from tidegauge.model.run import FlowStatus, HistoryEvent
from tidegauge.model.state import State
from tidegauge.model.watermark import Watermark

_EVENTS = 400
_LANES = 6
_APART = 10_000
"""Each input's pieces are numbered from a multiple of this."""
_KINDS = ["advanced", "failed", "backfill", "repair", *BEGIN_EPOCH]


_BEGINNINGS = {"version": -1.0, "files": 0.0}
"""The place of the beginning on the axis, for cursors that count from there."""


class PieceKind(StrEnum):
    DELIVERED = "delivered"
    AGAIN = "again"
    """Read again below the watermark: late rows, a backfill or a repair."""
    FAILED = "failed"
    WAITS = "waits"


@dataclass(frozen=True)
class Piece:
    number: int
    """The piece's number on its page."""
    kind: PieceKind
    after: Position | None
    upto: Position | None
    left: float
    right: float
    rows: int | None
    events: tuple[HistoryEvent, ...]
    says: str
    command: str
    """The command that reads the piece again, goes on with it, or shows what happened."""

    @property
    def window(self) -> str:
        return f"({to_text(self.after)}, {to_text(self.upto)}]"


@dataclass(frozen=True)
class Lane:
    epoch: int | None
    """The number of the current epoch; None for an earlier one, whose number the history does not have."""
    began: HistoryEvent | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Strip:
    input: str
    axis: Axis
    least: str
    most: str
    lanes: tuple[Lane, ...]
    """The lanes, that of the current epoch first."""


@dataclass(frozen=True)
class GapPage:
    at: datetime
    seen: SeenFlow
    strips: tuple[Strip, ...]
    unordered: tuple[str, ...]
    """Inputs that cannot be drawn, such as those whose positions only their database can order."""
    whole: bool


def make_gap_page(snapshots: FleetSnapshots, pipeline: str, flow: str) -> GapPage | None:
    """The gap map of this flow; None if the ledger has no such flow."""
    seen = snapshots.read().find(pipeline, flow)
    with open_ledger(snapshots.project.ledger, create=False) as ledger:
        now, statuses = ledger.now(), ledger.status(pipeline, [flow])
        if seen is None or not statuses:
            return None
        marks = ledger.watermarks(pipeline, [flow])
        events = ledger.history(pipeline, flow=flow, events=_KINDS, limit=_EVENTS)
    found = [
        (mark.input, _make_strip(mark, statuses[0], events[::-1], now, first=_APART * place))
        for place, mark in enumerate(marks)
    ]
    return GapPage(
        now,
        seen,
        tuple(strip for _, strip in found if strip is not None),
        tuple(name for name, strip in found if strip is None),
        whole=len(events) < _EVENTS,
    )


def _make_strip(
    mark: Watermark, status: FlowStatus, events: Sequence[HistoryEvent], now: datetime, *, first: int
) -> Strip | None:
    """The strip of one input; None if its positions cannot be drawn. `events` come oldest first."""
    lanes = _split(mark, events)
    lanes[-1] = (lanes[-1][0], [*lanes[-1][1], *_find_left(mark, status)])
    places = [
        place
        for _, pieces in lanes
        for one in pieces
        for position in (one.after, one.upto)
        if (place := place_of(position, mark.cursor)) is not None
    ]
    if mark.cursor == "timestamp":
        places.append(second_of(now))
    if mark.cursor in _BEGINNINGS and places:
        places.append(_BEGINNINGS[mark.cursor])
    axis = axis_over(places)
    if axis is None or len(set(places)) < 2:
        return None
    shown: list[Lane] = []
    number = first
    for began, pieces in reversed(lanes[-_LANES:]):
        drawn = []
        for one in _join(pieces):
            number += 1
            drawn.append(_draw(replace(one, number=number), mark, axis))
        shown.append(Lane(None if shown else mark.epoch, began, tuple(drawn)))
    return Strip(mark.input, axis, _label(axis.least, mark), _label(axis.most, mark), tuple(shown))


def _split(mark: Watermark, events: Iterable[HistoryEvent]) -> list[tuple[HistoryEvent | None, list[Piece]]]:
    """The pieces of each epoch, with the event that began the epoch, if it is known."""
    lanes: list[tuple[HistoryEvent | None, list[Piece]]] = [(None, [])]
    for one in events:
        if one.event in BEGIN_EPOCH:
            if lanes[-1][0] is None or lanes[-1][0].at != one.at:  # a change leaves an event for each input
                lanes.append((one, []))
        elif one.event == "advanced" and one.input in (None, mark.input):
            kind = PieceKind.AGAIN if one.before == one.after else PieceKind.DELIVERED
            lanes[-1][1].append(_make_piece(kind, one.before, one.after, one.rows, (one,)))
        elif one.event in ("backfill", "repair"):
            lanes[-1][1].append(_make_piece(PieceKind.AGAIN, mark.position, mark.position, one.rows, (one,)))
    return lanes


def _find_left(mark: Watermark, status: FlowStatus) -> Iterable[Piece]:
    """The batches of the plan that are not committed yet, as pieces."""
    plan = status.plan
    if plan is None:
        return
    names = [part.input for part in plan.draft.inputs]
    if mark.input not in names:
        return
    place = names.index(mark.input)
    for index, batch in enumerate(plan.draft.batches):
        if index < plan.done:
            continue
        failed = index == plan.done and status.state is State.FAILED
        window = batch.windows[place]
        kind = PieceKind.FAILED if failed else PieceKind.WAITS
        yield _make_piece(kind, window.after, window.upto, batch.rows, ())


def _make_piece(
    kind: PieceKind,
    after: Position | None,
    upto: Position | None,
    rows: int | None,
    events: tuple[HistoryEvent, ...],
) -> Piece:
    return Piece(0, kind, after, upto, 0.0, 0.0, rows, events, "", "")


def _join(pieces: Sequence[Piece]) -> list[Piece]:
    """Join pieces of one kind and plan that follow each other into one."""
    found: list[Piece] = []
    for one in pieces:
        last = found[-1] if found else None
        if last is not None and _follows(last, one):
            rows = None if last.rows is None or one.rows is None else last.rows + one.rows
            found[-1] = replace(last, upto=one.upto, rows=rows, events=(*last.events, *one.events))
        else:
            found.append(one)
    return found


def _follows(last: Piece, one: Piece) -> bool:
    same = [piece.events[-1].plan_id if piece.events else None for piece in (last, one)]
    return last.kind is one.kind and last.upto == one.after and same[0] == same[1]


def _draw(piece: Piece, mark: Watermark, axis: Axis) -> Piece:
    left, right = (place_of(position, mark.cursor) for position in (piece.after, piece.upto))
    flow, window = mark.flow, piece.window
    match piece.kind:
        case PieceKind.DELIVERED:
            says, command = f"delivered: {window}", _make_reread_command(flow, piece, mark)
        case PieceKind.AGAIN:
            said = next((one.reason for one in piece.events if one.reason), None)
            says = said or "read again below the watermark, which stayed where it is"
            command = f"tidegauge history -t {flow} --event {piece.events[-1].event}"
        case PieceKind.FAILED:
            says, command = f"failed: {window}", f"tidegauge retry --select {flow}"
        case PieceKind.WAITS:
            says, command = f"planned, and not there yet: {window}", f"tidegauge run --select {flow}"
    return replace(
        piece,
        left=axis.share(axis.least if left is None else left),
        right=axis.share(axis.least if right is None else right),
        says=says,
        command=command,
    )


def _make_reread_command(flow: str, piece: Piece, mark: Watermark) -> str:
    """The command that reads the piece again: a backfill if the cursor allows it, else a set or reset."""
    if mark.cursor in ("timestamp", "value") and piece.after is not None:
        first, last = (to_text(one).split(" · ")[0] for one in (piece.after, piece.upto))
        return f"tidegauge backfill -t {flow} --from '{first}' --to '{last}' --reason '…'"
    if piece.after is None:
        return f"tidegauge watermark reset --select {flow} --reason '…'"
    place = to_text(piece.after).split(" ")[-1]
    return f"tidegauge watermark set --select {flow} --position {place} --reason '…'"


def _label(place: float, mark: Watermark) -> str:
    if mark.cursor == "timestamp":
        return f"{datetime.fromtimestamp(place, UTC):%Y-%m-%d %H:%M:%S}"
    return f"{place:,.0f}"
