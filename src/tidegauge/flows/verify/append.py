"""Verify a target that only grows: it must have every row that the batches appended, each as often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.compare.frames import Difference
from tidegauge.compare.whole_rows import compare_whole
from tidegauge.delta_log.history import history
from tidegauge.errors import VersionsMissing
from tidegauge.model.plan import ReadWay
from tidegauge.model.position import Position, VersionPosition, Window
from tidegauge.model.versions import LATEST, DeltaHistory
from tidegauge.outputs.delta.batches import BatchReach, CommittedBatch, committed_batches
from tidegauge.plan.missing import explain_unreadable
from tidegauge.transform.whole import compute_appended

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.flows.verify.delta import DeltaProof

_BY_VERSION = (ReadWay.FEED, ReadWay.FILES)
_STEPS = 40
"""How many different reads are compared together. With more, only missing rows are looked for."""


@dataclass(frozen=True)
class AppendStep:
    """What one batch, or several batches in a row, read: which window, how, and which pinned versions."""

    window: Window
    way: ReadWay
    pins: tuple[tuple[str, int], ...]


def compare_appended(
    proof: DeltaProof, session: SparkSession, target: DataFrame, *, lacking: bool
) -> Difference:
    """Compare the target with what all batches read, if that can still be read.

    Otherwise only check that the target has the rows of the inputs' present versions; other rows of the
    target are not judged.
    """
    try:
        steps = _join(proof, _steps(proof))
    except _NotKnownError as why:
        return _search(proof, session, target, str(why), lacking=lacking)
    frames = [_rows(proof, session, step) for step in steps]
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    return compare_whole(every, target, lacking=lacking)


def _search(
    proof: DeltaProof, session: SparkSession, target: DataFrame, why: str, *, lacking: bool
) -> Difference:
    """Look only for rows that the target lacks. `why`: the reason why no more is possible."""
    if any(part.snapshot for part in proof.flow.inputs):
        raise VersionsMissing(
            f"{proof.flow.name}: what its batches appended cannot be computed again: {why}",
            hint="compare it with a query of your own; a `merge` target can always be proven",
        )
    found = compare_whole(proof.rows(session), target, lacking=lacking, only_missing=True)
    note = f"only looked for rows that are missing, for what was appended cannot be computed again: {why}"
    return replace(found, notes=(note,))


def _rows(proof: DeltaProof, session: SparkSession, step: AppendStep) -> DataFrame:
    inputs = {}
    pins = dict(step.pins)
    for part in proof.flow.inputs:
        if part.snapshot:
            at = Window(None, VersionPosition(pins[part.name]))
            inputs[part.name] = proof.open_input(session, part.name, at, ReadWay.PINNED)
        else:
            inputs[part.name] = proof.open_input(session, part.name, step.window, step.way)
    return compute_appended(proof.flow, inputs, session)


class _NotKnownError(Exception):
    """Raised with the reason why the reads of the batches cannot be repeated."""


def _steps(proof: DeltaProof) -> list[AppendStep]:
    """What the batches read, oldest first.

    Versions that the watermark was set past by hand are a step too. Their rows never reached the target, so
    the comparison shows them as missing.
    """
    flow = proof.flow
    if len(flow.incremental) != 1:
        raise _NotKnownError(f"it has {len(flow.incremental)} incremental inputs")
    batches = _read_batches(proof)
    found: list[AppendStep] = []
    name = flow.incremental[0].name
    pinned = [part.name for part in flow.inputs if part.snapshot]
    for batch in reversed(batches):
        way = batch.ways.get(name)
        if way is None or not batch.windows.keys() >= {*pinned}:
            raise _NotKnownError("an earlier form of the flow wrote some of it")
        if way is ReadWay.NOTHING:
            continue
        window = batch.windows[name]
        pins = tuple((one, _number(batch.windows[one].upto)) for one in pinned)
        if found and way is not ReadWay.SNAPSHOT and _number(window.after) > _number(found[-1].window.upto):
            found.append(AppendStep(Window(found[-1].window.upto, window.after), ReadWay.FEED, pins))
        found.append(AppendStep(window, way, pins))
    if not found:
        raise _NotKnownError("no batch of it is in the target's log")
    return found


def _read_batches(proof: DeltaProof) -> list[CommittedBatch]:
    """All batches of the flow, newest first."""
    look = proof.standing.look
    assert look is not None
    batches: list[CommittedBatch] = []
    for batch in committed_batches(look, proof.flow.pipeline, proof.flow.name):
        if isinstance(batch, BatchReach):
            if not batch.whole:
                raise _NotKnownError("the target's log does not reach back to its first batch")
            break
        batches.append(batch)
    return batches


def _are_one(last: AppendStep, step: AppendStep, digests: Mapping[int, str | None]) -> bool:
    """Whether a step can be read together with `last`, the step before it.

    `digests`: by version, a digest of the columns.
    """
    if last.way not in _BY_VERSION or (last.way, last.pins) != (step.way, step.pins):
        return False
    columns = {digests.get(_number(one.window.upto)) for one in (last, step)}
    return last.window.upto == step.window.after and len(columns) == 1 and None not in columns


def _join(proof: DeltaProof, steps: Sequence[AppendStep]) -> list[AppendStep]:
    """Join neighbouring steps that can be read together, and check that all can still be read."""
    part = proof.flow.incremental[0]
    changes = [_number(step.window.after) for step in steps if step.way in _BY_VERSION]
    first = min(changes, default=LATEST)
    location = proof.locations[part.name]
    found = history(location, after=first if first >= 0 else None, storage=part.table.storage)
    if changes and found.earliest > first + 1:
        raise _NotKnownError(f"the log of {part.table} begins at version {found.earliest}")
    digests = {version.number: version.digest for version in found.versions}
    made: list[AppendStep] = []
    for step in steps:
        _check(proof, found, step)
        if made and _are_one(made[-1], step, digests):
            made[-1] = replace(made[-1], window=Window(made[-1].window.after, step.window.upto))
            continue
        made.append(step)
        if len(made) > _STEPS:
            raise _NotKnownError(f"its batches read in more than {_STEPS} ways")
    return made


def _check(proof: DeltaProof, found: DeltaHistory, step: AppendStep) -> None:
    """Raise _NotKnownError if what a step read is not there any more."""
    table = proof.flow.incremental[0].table
    after, upto = _number(step.window.after), _number(step.window.upto)
    for version in found.versions if step.way in _BY_VERSION else ():
        if after < version.number <= upto and (why := explain_unreadable(version, found)):
            raise _NotKnownError(f"version {version.number} of {table} cannot be read any more ({why})")
    for end in {ReadWay.SNAPSHOT: [upto], ReadWay.DIFF: [after, upto]}.get(step.way, []):
        if end < found.latest and not found.readable(end):
            raise _NotKnownError(f"{table} as it was at version {end} cannot be read any more")
    for name, pin in step.pins:
        pinned = proof.histories[name]
        if pin != pinned.latest and not pinned.readable(pin):
            raise _NotKnownError(f"'{name}', as pinned at version {pin}, cannot be read any more")


def _number(position: Position | None) -> int:
    return position.version if isinstance(position, VersionPosition) else -1
