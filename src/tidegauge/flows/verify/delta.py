"""Verify a flow between Delta tables: compare its target with the transform over whole inputs, as they were
at the watermark.

What is compared depends on the mode. Changes of a pinned input do not update the target, so a row may be as
any version of it made it that was pinned for an earlier batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegauge.compare.frames import Difference, KeyExceptions, compare_frames
from tidegauge.compare.intervals import faults
from tidegauge.compare.whole_rows import compare_whole, differing_groups
from tidegauge.delta_log.history import histories
from tidegauge.errors import (
    NotCompared,
    OutputDisagrees,
    TableReplaced,
    TidegaugeError,
    VersionsMissing,
)
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.flows.transform_fingerprint import TargetTransforms, TransformFingerprint
from tidegauge.flows.verify.append import compare_appended
from tidegauge.flows.verify.lost_columns import name_columns
from tidegauge.flows.verify.pins import earlier_pins
from tidegauge.model.delta_flow import IS_CURRENT, DeltaFlow, DeltaInput
from tidegauge.model.mode import OutputKind
from tidegauge.model.plan import ReadWay
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.protocols.source import ChangedInput
from tidegauge.model.spec import Drift
from tidegauge.model.versions import DeltaHistory
from tidegauge.model.watermark import Watermark
from tidegauge.outputs.delta.epochs import EpochState
from tidegauge.outputs.delta.lost_columns import describe_return, find_absent
from tidegauge.outputs.delta.place import TargetPlace
from tidegauge.sources.delta.changes import open_changed_input
from tidegauge.sources.delta.errors import translate_read_error
from tidegauge.transform.whole import compute_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOKS = 3
"""How often ledger and target are read again until both stand at the same batch."""


@dataclass(frozen=True)
class DeltaProof:
    """A flow at one moment: its target, and the versions of the inputs that the target was made from."""

    flow: DeltaFlow
    where: str
    """The target's location."""
    standing: EpochState
    """The target's epoch, and its log at the version that is compared."""
    versions: Mapping[str, int]
    """By input, the version that its watermark says."""
    read: Mapping[str, int]
    """By input, the version to read: the watermark's, or if it is gone a later one with the same rows."""
    histories: Mapping[str, DeltaHistory]
    locations: Mapping[str, str]

    def open_input(self, session: SparkSession, name: str, window: Window, way: ReadWay) -> ChangedInput:
        part = next(one for one in self.flow.inputs if one.name == name)
        return open_changed_input(session, part.table, self.locations[name], window, way)

    def rows(self, session: SparkSession, pins: Mapping[str, int] | None = None) -> DataFrame:
        """The rows of the transform over the inputs as they were; see `whole`."""
        return self.whole(session, pins)[0]

    def whole(
        self, session: SparkSession, pins: Mapping[str, int] | None = None
    ) -> tuple[DataFrame, DataFrame | None]:
        """Evaluate the transform over the inputs as they were: its rows, and the keys it says are deleted.

        `pins`: versions of pinned inputs to read instead.
        """
        at = {**self.read, **(pins or {})}
        inputs = {
            part.name: self.open_input(
                session, part.name, Window(None, VersionPosition(at[part.name])), ReadWay.PINNED
            )
            for part in self.flow.inputs
        }
        return compute_whole(self.flow, inputs, session)

    def target(self, session: SparkSession) -> DataFrame:
        assert self.standing.look is not None
        version = self.standing.look.version
        return session.read.format("delta").option("versionAsOf", version).load(self.where)


def verify_delta(
    flow: DeltaFlow, marks: Callable[[], Sequence[Watermark]], places: DeltaTableLocator
) -> Difference:
    """Compare a flow's target with its inputs. Raises NotCompared, or the error that stopped the comparison:
    an input's version is gone, or a run has to come first."""
    raw = next((part for part in flow.inputs if part.raw), None)
    if raw is not None:
        raise NotCompared(
            f"{flow.name} reads the feed of '{raw.name}' as it is (`feed: raw`), so only its transform knows"
            " what its target has to be",
            hint="compare it with a query of your own",
            excused=True,
        )
    if flow.allow_nondeterministic:
        raise NotCompared(
            f"the transform of {flow.name} may give something else each time (`allow_nondeterministic`)",
            hint="compare it with a query of your own",
            excused=True,
        )
    proof = _prepare(flow, marks, places)
    notes = tuple(_note_unread(part, proof) for part in flow.incremental if _count_newer(part, proof))
    try:
        with places.session(flow) as session:
            found = _mark_lost_columns(_compare(proof, session), proof, session)
    except TidegaugeError:
        raise
    except Exception as error:
        better = translate_read_error(error, {**proof.locations, flow.name: proof.where})
        if better is None:
            raise
        raise better from error
    return replace(found, newer=None if notes else 0, notes=(*found.notes, *notes))


def _compare(proof: DeltaProof, session: SparkSession) -> Difference:
    flow, target = proof.flow, proof.target(session)
    lacking = flow.drift is not Drift.FREEZE
    if flow.output.mode.facts.only_adds:
        return compare_appended(proof, session, target, lacking=lacking)
    if flow.output.mode.needs_key(OutputKind.DELTA):
        found = _compare_by_key(proof, session, target, lacking=lacking)
    else:
        found = compare_whole(proof.rows(session), target, lacking=lacking)
    if found.equal or flow.output.mode.facts.replaces_all:
        return found
    pins, gone = earlier_pins(proof)
    note = f"rows may be as {gone} made them, which cannot be read any more" if gone else None
    if pins and flow.output.mode.facts.replaces_partitions:
        frames = [proof.rows(session, one) for one in ({}, *pins)]
        many, shown = differing_groups(frames, target, by=flow.output.partition_by, lacking=lacking)
        examples = tuple(("different", key) for key in shown)
        found = replace(found, missing=0, extra=0, different=many, examples=examples)
        note = note or (f"{many} partitions are as no pinned version made them" if many else None)
    elif pins:
        found = _compare_by_key(proof, session, target, pins=pins, lacking=lacking)
    return found if found.equal or note is None else replace(found, notes=(note,))


def _mark_lost_columns(found: Difference, proof: DeltaProof, session: SparkSession) -> Difference:
    assert proof.standing.look is not None
    absent = {name.casefold() for name in find_absent(proof.standing.look, proof.flow)}
    lost = [one for one in proof.rows(session).columns if one.casefold() in absent] if absent else []
    if not lost:
        return found
    note = f"the target has lost the {name_columns(lost)}: {describe_return(proof.flow)}"
    return replace(found, notes=(*found.notes, note), lost=tuple(lost))


def _compare_by_key(
    proof: DeltaProof,
    session: SparkSession,
    target: DataFrame,
    *,
    pins: Sequence[Mapping[str, int]] = (),
    lacking: bool,
) -> Difference:
    output = proof.flow.output
    whole, ended = proof.whole(session)
    hashed: list[str] | None = None
    wrong: DataFrame | None = None
    if output.mode.facts.keeps_history:
        wrong = faults(target, output.key)
        target = target.where(IS_CURRENT)
        # An event that changes none of these columns makes no row, so the other columns stay as they were.
        own = {name.casefold() for name in (*output.key, output.sequence_by or "")}
        hashed = list(output.track) or [name for name in whole.columns if name.casefold() not in own]
    beside = KeyExceptions(
        ended=ended,
        faults=wrong,
        instead=[proof.rows(session, one) for one in pins],
    )
    return compare_frames(
        whole,
        target,
        key=output.key,
        beside=beside,
        sequence=output.sequence_by,
        hashed=hashed,
        lacking=lacking,
        events=output.mode.facts.keeps_history,
    )


def _prepare(
    flow: DeltaFlow, marks: Callable[[], Sequence[Watermark]], places: DeltaTableLocator
) -> DeltaProof:
    known, where, standing = _find_settled(flow, marks, places)
    versions = _versions(flow, known)
    locations = {part.name: places.location(part.table) for part in flow.inputs}
    found = _histories(flow, locations, versions)
    read = {
        part.name: _find_readable_version(flow, part, found[part.name], known[part.name])
        for part in flow.inputs
    }
    return DeltaProof(flow, where, standing, versions, read, found, locations)


def _find_settled(
    flow: DeltaFlow, marks: Callable[[], Sequence[Watermark]], places: DeltaTableLocator
) -> tuple[dict[str, Watermark], str, EpochState]:
    """Read ledger and target until both stand at the same batch: a runner may be between the two commits."""
    place = TargetPlace(flow, lambda: places.find(flow.output.table))
    for _ in range(_LOOKS):
        known = {mark.input: mark for mark in marks()}
        _versions(flow, known)
        opened = place.open()
        standing = opened.epochs.standing() if opened else None
        if opened is None or standing is None or standing.look is None:
            raise OutputDisagrees(
                f"{flow.name}: its target {flow.output.table} is not there, and the ledger says that it was"
                " written",
                hint="bring it back, or write it anew with"
                f" `tidegauge run --select {flow.name} --full-refresh`",
            )
        mark = next(iter(known.values()))
        here, there = (mark.epoch, mark.seq), (standing.epoch, standing.logged or 0)
        if here == there:
            return known, opened.where, standing
    raise OutputDisagrees(
        f"{flow.name}: the ledger stands at batch {here[1]} of epoch {here[0]}, and its target at batch"
        f" {there[1]} of epoch {there[0]}: it is being run, or its last run died",
        hint=f"`tidegauge run --select {flow.name}` settles it; then verify again",
        retryable=True,
    )


def _versions(flow: DeltaFlow, marks: Mapping[str, Watermark]) -> dict[str, int]:
    """By input, the version that the last batch read. Raises if the target is not made from them."""
    if not any(isinstance(mark.position, VersionPosition) for mark in marks.values()):
        raise NotCompared(
            f"{flow.name} has no watermark yet, so there is nothing to compare", hint="run it first"
        )
    again = f"`tidegauge run --select {flow.name}` brings the target up to it; then verify again"
    origin = TargetTransforms.read(mark.pending for mark in marks.values())
    if origin.set_back:
        raise OutputDisagrees(
            f"{flow.name}: its watermark was set back by hand, so its target is of a later version than it",
            hint=again,
        )
    found: dict[str, int] = {}
    for part in flow.inputs:
        mark = marks.get(part.name)
        if mark is None or not isinstance(mark.position, VersionPosition):
            raise OutputDisagrees(
                f"{flow.name}: its input '{part.name}' is new, and its target was made without it",
                hint=again,
            )
        found[part.name] = mark.position.version
    if not origin.is_known(TransformFingerprint.of(flow)):
        raise OutputDisagrees(
            f"{flow.name}: its transform has changed since its last run, and its target was made by the old"
            " one",
            hint=again,
        )
    return found


def _histories(
    flow: DeltaFlow, locations: Mapping[str, str], versions: Mapping[str, int]
) -> dict[str, DeltaHistory]:
    wanted = {
        part.name: (locations[part.name], versions[part.name], part.table.storage) for part in flow.inputs
    }
    found: dict[str, DeltaHistory] = {}
    for name, answer in histories(wanted).items():
        if isinstance(answer, TidegaugeError):
            raise answer
        found[name] = answer
    return found


def _find_readable_version(flow: DeltaFlow, part: DeltaInput, history: DeltaHistory, mark: Watermark) -> int:
    """The version of the watermark, or a later one that has the same rows. Raises if neither can be read."""
    assert isinstance(mark.position, VersionPosition)
    at = mark.position.version
    if mark.source_id not in (None, history.table_id) or history.latest < at:
        raise TableReplaced(
            f"{flow.name}: {part.table} is not the table that was read up to version {at}: it was made anew,"
            " or an older copy was put back",
            hint=f"`tidegauge run --select {flow.name}` says how to go on",
        )
    if at == history.latest or history.readable(at):
        return at
    for version in history.versions:
        if version.number <= at:
            continue
        if version.changes:
            break
        if version.number == history.latest or history.readable(version.number):
            return version.number
    raise VersionsMissing(
        f"{flow.name}: {part.table} as it was at version {at}, up to which it was read, cannot be read any"
        " more, so its target cannot be proven",
        hint=f"`tidegauge run --select {flow.name}` brings the target up to the newest version; verify right"
        " after it, before the next vacuum",
    )


def _count_newer(part: DeltaInput, proof: DeltaProof) -> int:
    history, at = proof.histories[part.name], proof.versions[part.name]
    return sum(1 for version in history.versions if version.number > at and version.changes)


def _note_unread(part: DeltaInput, proof: DeltaProof) -> str:
    many = _count_newer(part, proof)
    verb = "version of {} is" if many == 1 else "versions of {} are"
    return f"{many} {verb.format(part.name)} newer than the last look"
