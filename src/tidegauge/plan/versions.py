"""Plan a flow between Delta tables: which versions of its inputs are new, cut into frozen batches. Pure.

Every version of a window is known from the log (`model.versions.DeltaHistory`), so versions that cannot be
read are found here, before anything is touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegauge.errors import ConfigError, SourceError, TableReplaced
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput
from tidegauge.model.plan import Batch, Draft, InputPlan, ReadWay
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.retention import unread
from tidegauge.model.versions import LATEST, DeltaHistory, Version
from tidegauge.model.watermark import Watermark
from tidegauge.plan.missing import choose_instead, unreadable_error
from tidegauge.plan.pieces import VersionRange, cut_into_ranges

SNAPSHOT, EARLIEST = "snapshot", "earliest"


@dataclass(frozen=True)
class _InputPieces:
    """The pieces to read of one input, in order; no pieces: nothing of it has changed."""

    begin: int | None
    """The last version that was read before; None: nothing was."""
    pieces: tuple[VersionRange, ...]
    notes: tuple[str, ...] = ()

    def step(self, index: int, latest: int) -> VersionRange:
        """The piece for the batch number `index`; after the last piece, an empty range that reads nothing."""
        if index < len(self.pieces):
            return self.pieces[index]
        after = self.begin if not self.pieces and not index else self.end(latest)
        return VersionRange(after, self.end(latest), ReadWay.NOTHING)

    def end(self, latest: int) -> int:
        return self.pieces[-1].upto if self.pieces else latest


def read_up_to(mark: Watermark | None) -> int | None:
    """The version up to which an input was read, or looked at and found unchanged; None: not yet."""
    known = (mark.position, mark.checked) if mark else ()
    return max((place.version for place in known if isinstance(place, VersionPosition)), default=None)


def log_needed_after(flow: DeltaFlow, part: DeltaInput, mark: Watermark | None) -> int | None:
    """The version after which `draft_versions` needs the history of an input, so that no more of its log is
    read; None: from the beginning.

    An `initial` that is a timestamp has to be turned into the version of that time before.
    """
    begin = read_up_to(mark)
    if part.snapshot:
        return LATEST
    if begin is not None:
        return begin
    initial = _read_initial(flow, part)
    if isinstance(initial, int):
        return initial
    return LATEST if initial == SNAPSHOT else None


def draft_versions(
    flow: DeltaFlow,
    found: Mapping[str, DeltaHistory],
    marks: Mapping[str, Watermark],
    *,
    seen: tuple[int, int],
) -> Draft:
    """Make the plan of one flow; without batches there is nothing new.

    The j-th batch takes the j-th piece of each incremental input, and pinned inputs at their latest version.
    `seen` is the epoch and sequence number of the watermark that the plan goes on from. Raises
    VersionsMissing and TableReplaced.
    """
    pieces_by_input = {
        part.name: _find_input_pieces(flow, part, found[part.name], marks.get(part.name))
        for part in flow.incremental
    }
    count = max((len(input_pieces.pieces) for input_pieces in pieces_by_input.values()), default=0)
    notes = [note for input_pieces in pieces_by_input.values() for note in input_pieces.notes]
    inputs, steps = [], []
    for part in flow.inputs:
        history, mark = found[part.name], marks.get(part.name)
        input_pieces = pieces_by_input.get(part.name)
        if input_pieces is None:
            steps.append([VersionRange(None, history.latest, ReadWay.PINNED)] * count)
            window = Window(None, VersionPosition(history.latest))
            if mark is not None and mark.source_id not in (None, history.table_id):
                notes.append(f"{part.name}: {part.table} was made anew; it is pinned as it is now")
        else:
            steps.append([input_pieces.step(index, history.latest) for index in range(count)])
            window = VersionRange(
                input_pieces.begin, input_pieces.end(history.latest), ReadWay.NOTHING
            ).window
        inputs.append(_plan_input(part, history, window))
    batches = [
        Batch(
            tuple(one.window for one in pieces),
            ways=tuple(one.way for one in pieces),
            stamps=tuple(
                _stamp(found[part.name], one.upto) for part, one in zip(flow.inputs, pieces, strict=True)
            ),
        )
        for pieces in zip(*steps, strict=True)
    ]
    return Draft(flow.pipeline, flow.name, tuple(inputs), tuple(batches), notes=tuple(notes), seen=seen)


def retention_note(history: DeltaHistory, after: int | None, now: datetime) -> str | None:
    """A warning that changes not read yet may soon be vacuumed away; None while there is time."""
    with contextlib.suppress(SourceError):  # raised for a retention that Delta itself could not parse
        left = unread(history, after, now)
        return left.note if left else None
    return None


def _find_input_pieces(
    flow: DeltaFlow, part: DeltaInput, history: DeltaHistory, mark: Watermark | None
) -> _InputPieces:
    begin = read_up_to(mark)
    if begin is None:
        return _begin_input(flow, part, history)
    assert mark is not None
    pieces, notes = find_unread_pieces(flow, part, history, begin, mark.source_id)
    note = None if reads_whole(flow, part) else retention_note(history, begin, history.read_at)
    return _InputPieces(begin, pieces, (*notes, f"{part.name}: {note}") if note else notes)


def find_unread_pieces(
    flow: DeltaFlow, part: DeltaInput, history: DeltaHistory, begin: int, known: str | None
) -> tuple[tuple[VersionRange, ...], tuple[str, ...]]:
    """What the next plan reads of the versions after `begin`, and its notes where that is not their changes.

    `known`: the id of the table that was read. Raises VersionsMissing and TableReplaced.
    """
    _check_same(flow, part, history, begin, known)
    return _find_pieces(flow, part, history, begin)


def reads_whole(flow: DeltaFlow, part: DeltaInput) -> bool:
    """Whether any change makes the flow read the whole input, so that it can do without the changes."""
    return flow.output.mode.facts.replaces_all and not part.raw


def _begin_input(flow: DeltaFlow, part: DeltaInput, history: DeltaHistory) -> _InputPieces:
    initial = _read_initial(flow, part)
    whole = VersionRange(None, history.latest, ReadWay.SNAPSHOT)
    if isinstance(initial, int):
        return _begin_at_version(flow, part, history, initial)
    if initial == SNAPSHOT:
        why = "by `initial`" if part.initial else f"as `{flow.output.mode.value}` does by itself"
        return _InputPieces(
            None, (whole,), (_describe_begin(part, f"as it is at version {history.latest}, {why}"),)
        )
    if part.initial is None:
        short = _explain_short_history(part, history)
        if short:
            begin = f"as it is at version {history.latest}, because {short}"
            return _InputPieces(None, (whole,), (_describe_begin(part, begin),))
    elif any(version.table_id != history.table_id for version in history.versions if version.table_id):
        raise TableReplaced(
            f"{flow.name}: {part.table} was replaced by another table at a version after 0, so its history"
            " does not begin with its earliest version",
            hint=f"begin the input '{part.name}' with `initial: snapshot`",
        )
    pieces, notes = _find_pieces(flow, part, history, None)
    if notes:
        return _InputPieces(None, pieces, notes)
    if not pieces:  # the table never had a row: read it whole, so that the target is created empty
        pieces = (whole,)
    why = "by `initial`" if part.initial else "because its changes reach back to there"
    return _InputPieces(None, pieces, (_describe_begin(part, f"with version 0, {why}"),))


def _begin_at_version(flow: DeltaFlow, part: DeltaInput, history: DeltaHistory, version: int) -> _InputPieces:
    if version > history.latest:
        raise SourceError(
            f"{flow.name}: {part.table} has no version {version} yet; its latest is {history.latest}",
            hint=f"correct `initial` of the input '{part.name}'",
            place=part.place,
        )
    if version < history.latest and not history.readable(version):
        raise unreadable_error(flow, part, history, version)
    _check_same(flow, part, history, version, None)
    start = VersionRange(None, version, ReadWay.SNAPSHOT)
    rest, notes = _find_pieces(flow, part, history, version)
    if rest and rest[0].way is ReadWay.SNAPSHOT:
        start, rest = VersionRange(None, history.latest, ReadWay.SNAPSHOT), ()
    begin = f"as it was at version {version}, by `initial`"
    return _InputPieces(None, (start, *rest), notes or (_describe_begin(part, begin),))


def _find_pieces(
    flow: DeltaFlow, part: DeltaInput, history: DeltaHistory, begin: int | None
) -> tuple[tuple[VersionRange, ...], tuple[str, ...]]:
    """The pieces to read after `begin`, and notes for the user; no pieces: nothing has changed."""
    new = _find_versions_after(history, begin)
    if begin is None and history.earliest > 0:
        new = (Version(0, None, True, False, 0, False, None, None, absent=True), *new)
    if not any(version.changes for version in new):
        return (), ()
    if reads_whole(flow, part):
        # The target is rewritten from the whole table: the changes only say that there is something to do.
        return (VersionRange(begin, history.latest, ReadWay.SNAPSHOT),), ()
    replacement = choose_instead(flow, part, history, begin, new)
    if replacement is not None:
        piece, note = replacement
        return (piece,), (note,)
    return tuple(cut_into_ranges(flow, part, new, begin)), ()


def _explain_short_history(part: DeltaInput, history: DeltaHistory) -> str | None:
    """Why the changes of an input cannot be read from version 0 on; None: they can."""
    if history.earliest > 0:
        return f"its log begins at version {history.earliest}"
    for version in history.versions:
        if version.table_id not in (None, history.table_id):
            return f"another table was there at version {version.number}"
        if version.absent or version.missing:
            return f"version {version.number} cannot be read any more"
        if version.changes and not version.feed and not version.only_adds:
            return f"its change data feed was off at version {version.number}"
    return None if history.after is None else f"its log was not read for '{part.name}'"


def _check_same(
    flow: DeltaFlow, part: DeltaInput, history: DeltaHistory, begin: int, known: str | None
) -> None:
    """Raise TableReplaced where the table was made anew, or set back below the version that was read."""
    hint = (
        f"to begin again from the table that is there now: `tidegauge watermark reset --select {flow.name}"
        " --reason …`"
    )
    if known is not None and known != history.table_id:
        raise TableReplaced(
            f"{flow.name}: {part.table} is not the table that was read up to version {begin}: it was made"
            f" anew (table id then {known}, now {history.table_id})",
            hint=hint,
        )
    if history.latest < begin:
        raise TableReplaced(
            f"{flow.name}: {part.table} is at version {history.latest}, and was read up to version {begin}:"
            " an older copy of it was put back",
            hint=hint,
        )
    for version in _find_versions_after(history, begin):
        if version.table_id not in (None, history.table_id):
            raise TableReplaced(
                f"{flow.name}: {part.table} was made anew after version {version.number}",
                hint=hint,
            )


def _find_versions_after(history: DeltaHistory, begin: int | None) -> tuple[Version, ...]:
    if begin is None:
        return history.versions
    return tuple(version for version in history.versions if version.number > begin)


def find_initial(flow: DeltaFlow, part: DeltaInput) -> str:
    """The `initial` of an input, or where it begins by itself; that EARLIEST becomes a snapshot where the
    table's changes do not reach back to version 0."""
    if part.initial is not None:
        return part.initial
    return EARLIEST if flow.output.mode.facts.keeps_every_change else SNAPSHOT


def _read_initial(flow: DeltaFlow, part: DeltaInput) -> str | int:
    initial = find_initial(flow, part)
    if initial.isascii() and initial.isdigit():
        return int(initial)
    if initial in (SNAPSHOT, EARLIEST):
        return initial
    raise ConfigError(
        f"{flow.name}: '{part.initial}' does not say at which version the input '{part.name}' begins",
        hint="write `snapshot`, `earliest`, a version or a timestamp",
        place=part.place,
    )


def _describe_begin(part: DeltaInput, begin: str) -> str:
    return f"{part.name}: begins with {part.table} {begin}"


def _plan_input(part: DeltaInput, history: DeltaHistory, window: Window) -> InputPlan:
    upto = window.upto
    assert isinstance(upto, VersionPosition)
    return InputPlan(
        input=part.name,
        cursor=SNAPSHOT if part.snapshot else "version",
        window=window,
        source_id=history.table_id,
        fingerprint=history.digest,
        stamp=_stamp(history, upto.version),
    )


def _stamp(history: DeltaHistory, version: int) -> str | None:
    """When a version was committed, as ISO text in UTC; None where the log no longer says."""
    at = next((one.at for one in history.versions if one.number == version), None)
    at = history.at if version == history.latest else at
    return at.astimezone(UTC).isoformat() if at else None
