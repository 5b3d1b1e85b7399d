"""Bring watermarks back from the outputs, each of which keeps the windows of what was committed there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from tidegauge.delta_log.location import lake_of
from tidegauge.errors import OutputDisagrees, TidegaugeError, WrongState
from tidegauge.flows.delta_places import Places
from tidegauge.flows.known_sources import KnownSources
from tidegauge.flows.select import Selection, choose, needs_of
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.ledger.rebuild_rules import active_plan_error, ledger_ahead_error
from tidegauge.model.delta_flow import AnyFlow, DeltaFlow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.position import FilesPosition, Position, RowPosition, ValueKind, Window, compare, to_json
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import LakeTable, Project
from tidegauge.model.watermark import Recalled, Watermark
from tidegauge.outputs.delta.recall import recall_delta
from tidegauge.outputs.lake.recall import RecalledEpoch, recall, recall_epochs
from tidegauge.outputs.lake.table import chain
from tidegauge.plan import files
from tidegauge.spark.session import open_session
from tidegauge.storage.store import open_store

_PARALLEL = 8
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?")
_MOMENTS = (ValueKind.TIMESTAMP, ValueKind.TIMESTAMPTZ, ValueKind.DATE)


@dataclass(frozen=True)
class RebuildPreview:
    """One flow as its output tells it, beside what the ledger has."""

    flow: str
    epoch: int = 0
    seq: int = 0
    marks: Mapping[str, Recalled] = field(default_factory=dict)
    """By input."""
    has: Mapping[str, Position | None] = field(default_factory=dict)
    """Where the ledger's watermarks are, by input."""
    stands: tuple[int, int] = (0, 0)
    """Epoch and batch in the ledger."""
    notes: tuple[str, ...] = ()
    error: TidegaugeError | None = None
    done: bool = False

    @property
    def is_behind(self) -> bool:
        """Whether the ledger lacks something that the output has."""
        return self.error is None and self.stands < (self.epoch, self.seq)

    @property
    def state(self) -> str:
        if self.error is not None:
            return "refused"
        if self.is_behind:
            return "rebuilt" if self.done else "to rebuild"
        return "nothing to do" if self.epoch or self.seq else "nothing there"

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "state": self.state,
            "epoch": self.epoch,
            "seq": self.seq,
            "inputs": [
                {
                    "input": name,
                    "cursor": mark.cursor,
                    "position": to_json(mark.position),
                    "ledger": to_json(self.has.get(name)),
                }
                for name, mark in self.marks.items()
            ],
            "ledger": {"epoch": self.stands[0], "seq": self.stands[1]},
            "notes": list(self.notes),
            "error": error_to_json(self.error) if self.error else None,
        }


def preview(project: Project, selection: Sequence[str], *, debug: bool = False) -> list[RebuildPreview]:
    """What every output says, and whether the ledger can be brought there; changes nothing.

    What stops one flow is its own answer.
    """
    with open_ledger(project.ledger, create=False) as ledger:
        statuses = {status.flow: status for status in ledger.status(project.pipeline)}
        marks: dict[str, list[Watermark]] = {}
        for mark in ledger.watermarks(project.pipeline):
            marks.setdefault(mark.flow, []).append(mark)
    with KnownSources(project, tuple(statuses)) as sources:
        known = {flow: mine[0].source_id for flow, mine in marks.items()}
        choice = choose(project, selection, sources, known=known)
    places = Places(lambda: open_session(project.spark, needs_of(choice.all_flows), debug=debug))

    def one(hop: AnyFlow) -> RebuildPreview:
        mine = marks.get(hop.name, [])
        known = RebuildPreview(
            hop.name,
            has={mark.input: mark.position for mark in mine},
            stands=max(((mark.epoch, mark.seq) for mark in mine), default=(0, 0)),
        )
        try:
            return _checked(_recalled(hop, known, places), statuses.get(hop.name))
        except TidegaugeError as error:
            return replace(known, error=error)

    return [*_faults(choice), *_side_by_side(choice.all_flows, one)]


def carry_out(project: Project, found: Sequence[RebuildPreview], *, reason: str) -> list[RebuildPreview]:
    """Write what was shown, one flow after the other; one that cannot be changed does not stop the others."""
    done: list[RebuildPreview] = []
    with open_ledger(project.ledger, create=True) as ledger:
        for one in found:
            if not one.is_behind:
                done.append(one)
                continue
            try:
                ledger.rebuild(
                    project.pipeline,
                    one.flow,
                    one.marks,
                    one.epoch,
                    one.seq,
                    owner=this_process(),
                    reason=reason,
                )
                done.append(replace(one, done=True))
            except TidegaugeError as error:
                done.append(replace(one, error=error))
    return done


def furthest(windows: Sequence[Window], *, moments: bool) -> Position | None:
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


def _recalled(hop: AnyFlow, known: RebuildPreview, places: Places) -> RebuildPreview:
    if isinstance(hop, DeltaFlow):
        return _delta_flow(hop, known, places)
    life = recall(hop)
    if life is None:
        return known
    notes = []
    if life.opened is not None and life.windows:
        notes.append(
            f"epoch {life.epoch} was opened by hand ({life.opened}) and no batch has come since: a position"
            " that was set then is not in the output; it goes on from what it continues"
        )
    if hop.reads is not None:
        position: Position | None = life.windows[-1].upto if life.windows else None
        source_id, said = _counted_along(hop.reads, position)
        notes += said
        mark = Recalled("files", position, source_id)
    else:
        position = furthest(life.windows, moments=_moments(life))
        mark = Recalled(life.cursor or _cursor(position), position)
    return replace(known, epoch=life.epoch, seq=life.seq, marks={hop.input: mark}, notes=tuple(notes))


def _delta_flow(delta_flow: DeltaFlow, known: RebuildPreview, places: Places) -> RebuildPreview:
    where = places.find(delta_flow.output.table)
    life = (
        recall_delta(lake_of(where, delta_flow.output.table.storage), delta_flow.pipeline, delta_flow.name)
        if where is not None
        else None
    )
    if life is None:
        return known
    notes: tuple[str, ...] = ()
    if life.opened is not None and life.marks:
        notes = (
            f"epoch {life.epoch} was opened by hand ({life.opened}) and no batch has come since: positions"
            " that were set then are not in the output; it goes on from what it continues",
        )
    # A life that begins at the beginning still needs its marks: they say which life it is.
    marks = life.marks or {part.name: Recalled("", None) for part in delta_flow.inputs}
    return replace(known, epoch=life.epoch, seq=life.seq, marks=marks, notes=notes)


def _counted_along(folder: LakeTable, position: Position | None) -> tuple[str | None, list[str]]:
    """Which chain of the lake's batches a load has counted along, as its watermark remembers it.

    The warehouse does not say. Where the lake has had more than one life, and they differ in what was loaded,
    the one counts that has least in common with what the lake is now: what may have been loaded is then
    loaded again, and nothing is left out.
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
    used = min(able, key=lambda one: (min(files.shared(one, now), position.sequence), one != now))
    notes = []
    if files.shared(used, now) < position.sequence:
        notes.append(
            f"{folder} was changed by hand, and which of its batches were loaded before that is not known:"
            f" those after number {files.shared(used, now)} are loaded again"
        )
    return files.identity(str(folder), used), notes


def _checked(found: RebuildPreview, status: FlowStatus | None) -> RebuildPreview:
    """Refuse what the ledger would refuse."""
    error: TidegaugeError | None = None
    if found.stands > (found.epoch, found.seq):
        error = ledger_ahead_error(found.flow, found.stands, (found.epoch, found.seq))
    elif found.is_behind and status is not None and status.override is not None:
        error = WrongState(
            f"{found.flow}: an override ({status.override.kind}) that {status.override.actor} began has not"
            " ended",
            hint="`tidegauge run` ends it; then rebuild, if there is still need to",
            retryable=True,
        )
    elif found.is_behind and status is not None and status.plan is not None:
        error = active_plan_error(found.flow, status.state, status.owner)
    return replace(found, error=error) if error else found


def _faults(choice: Selection) -> list[RebuildPreview]:
    return [RebuildPreview(name, error=error) for name, error in choice.faults]


def _side_by_side(hops: Sequence[AnyFlow], one: Callable[[AnyFlow], RebuildPreview]) -> list[RebuildPreview]:
    if not hops:
        return []
    with ThreadPoolExecutor(min(_PARALLEL, len(hops))) as pool:
        return list(pool.map(one, hops))


def _moments(life: RecalledEpoch) -> bool:
    last = next((one.upto for one in reversed(life.windows) if one.upto is not None), None)
    return (life.cursor or _cursor(last)) == "timestamp"


def _cursor(position: Position | None) -> str:
    """The kind of a cursor, told by a value of it; the next plan knows it for sure."""
    if not isinstance(position, RowPosition):
        return ""
    cursor = position.cursor
    moment = cursor.kind in _MOMENTS or (cursor.kind is ValueKind.TEXT and _MOMENT.fullmatch(cursor.text))
    return "timestamp" if moment else "value"
