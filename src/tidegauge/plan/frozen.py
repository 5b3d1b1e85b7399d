"""Check that the Delta versions that a frozen plan is to read are still there. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.errors import TableReplaced, VersionsMissing
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.plan import Draft, InputPlan, ReadWay
from tidegauge.model.position import Position, VersionPosition, Window
from tidegauge.model.versions import LATEST, DeltaHistory
from tidegauge.plan.missing import explain_unreadable

_BY_VERSION = (ReadWay.FEED, ReadWay.FILES)


def find_first_versions(draft: Draft, done: int = 0) -> dict[str, int | None]:
    """For each input, the version after which `check_frozen_versions` needs the history, for the batches that
    are not done; None: from the beginning."""
    wanted: dict[str, int | None] = {}
    for index, part in enumerate(draft.inputs):
        starts = [
            _number(batch.windows[index].after)
            for batch in draft.batches[done:]
            if batch.ways[index] in _BY_VERSION
        ]
        first = min(starts, default=LATEST)
        wanted[part.input] = first if first >= 0 else None
    return wanted


def find_end(part: InputPlan) -> int:
    """The version that an input is read up to once its plan is done."""
    return _number(part.window.upto if part.window else None)


def check_frozen_versions(
    flow: DeltaFlow, draft: Draft, found: Mapping[str, DeltaHistory], done: int = 0
) -> None:
    """Check the inputs of a plan before anything is read: a frozen plan cannot avoid versions that vanished.

    `done` is how many of its batches are done. Raises TableReplaced and VersionsMissing.
    """
    for part in draft.inputs:
        check_frozen_input(flow, draft, part.input, found[part.input], done)


def check_frozen_input(
    flow: DeltaFlow, draft: Draft, name: str, history: DeltaHistory, done: int = 0
) -> None:
    """Check one input of a plan, as `check_frozen_versions` does."""
    [(index, part)] = [(place, one) for place, one in enumerate(draft.inputs) if one.input == name]
    if history.table_id != part.source_id:
        raise TableReplaced(
            f"{flow.name}: the table of its input '{name}' was made anew since its plan was made"
            f" (table id then {part.source_id}, now {history.table_id})",
            hint=_hint(flow),
        )
    steps = {(batch.windows[index], batch.ways[index]) for batch in draft.batches[done:]}
    for window, way in sorted(steps, key=lambda step: _number(step[0].upto)):
        if lost := _find_lost(history, window, way):
            raise VersionsMissing(
                f"{flow.name}: its plan is to read '{name}' up to version {_number(window.upto)}, and {lost}",
                hint=_hint(flow),
            )


def _find_lost(history: DeltaHistory, window: Window, way: ReadWay) -> str | None:
    after, upto = _number(window.after), _number(window.upto)
    if upto > history.latest:
        return f"its table is at version {history.latest}: an older copy of it was put back"
    if way in _BY_VERSION:
        if after + 1 < history.earliest:
            return (
                f"version {after + 1} cannot be read any more: the log begins at version {history.earliest}"
            )
        for version in history.versions:
            if after < version.number <= upto and (why := explain_unreadable(version, history)):
                return f"version {version.number} cannot be read any more: {why}"
    # An input that is read by its changes is read whole too, at `upto`: that is there if its changes are.
    ends = {ReadWay.SNAPSHOT: [upto], ReadWay.PINNED: [upto], ReadWay.DIFF: [after, upto]}.get(way, [])
    for end in ends:
        if end < history.latest and not history.readable(end):
            return f"the table as it was at version {end} cannot be read any more"
    return None


def _hint(flow: DeltaFlow) -> str:
    return (
        f"give the plan up and begin again with `tidegauge watermark reset --select {flow.name} --reason …`;"
        " nothing was touched"
    )


def _number(position: Position | None) -> int:
    assert isinstance(position, VersionPosition | None)
    return position.version if position else -1
