"""Pipelines of WatermarkTrackers in the project's ledger: finds one, and changes it by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tidegauge.errors import ConfigError
from tidegauge.ledger.holder import is_held
from tidegauge.ledger.open import open_ledger
from tidegauge.model.position import Position, RowPosition, VersionPosition, to_json
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.tracker.ledger import TrackerLedger
from tidegauge.tracker.moment import read_moment, to_position, to_utc
from tidegauge.tracker.pipeline_state import SOURCE, TIME, VERSION, PipelineState, kind_of, peek

_LEASE = timedelta(seconds=60)


@dataclass(frozen=True)
class TrackerOverridePreview:
    """What a change by hand would do to a tracker's pipeline."""

    pipeline: str
    kind: str
    """`set` or `reset`."""
    positions: Mapping[str, tuple[Position | None, Position | None]]
    """Old and new position of each input that changes."""
    kept: Mapping[str, Position | None]
    """Positions of the inputs that do not change."""
    supersedes: State | None
    """The state of the plan that the change would end; None: there is none."""
    holder: str | None
    dangers: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "flow": self.pipeline,
            "kind": self.kind,
            "inputs": [
                {"input": name, "from": to_json(before), "to": to_json(after)}
                for name, (before, after) in self.positions.items()
            ],
            "supersedes": self.supersedes.value if self.supersedes else None,
            "holder": self.holder,
            "dangers": list(self.dangers),
        }


def check_pipeline(ledger: LedgerReader, name: str) -> str:
    """Return the name. Raises ConfigError if the ledger has no such pipeline."""
    known = ledger.pipelines()
    if name not in known:
        raise ConfigError(
            f"the ledger has no pipeline '{name}'",
            hint=f"it has: {', '.join(known[:10])}" if known else "it is empty",
        )
    return name


def preview_set(
    project: Project, name: str, tables: Sequence[str], *, timestamp: str | None, position: str | None
) -> TrackerOverridePreview:
    """Preview a set. `timestamp` is for time windows, `position` is a version for the named tables."""
    with open_ledger(project.ledger, create=False) as ledger:
        state = _look(ledger, name)
        kind = kind_of(state) or (TIME if timestamp is not None else VERSION)
        if kind == TIME:
            if timestamp is None or tables:
                raise ConfigError(
                    f"{name} has windows of time", hint="give --timestamp '2025-08-01 00:00:00', and no table"
                )
            given = read_moment(timestamp, what="--timestamp")
            wanted: dict[str, Position | None] = {SOURCE: to_position(given, like=state.position)}
        else:
            wanted = dict.fromkeys(_find_tables(state, tables), _read_version(name, timestamp, position))
        return _preview(state, "set", wanted, ledger.now())


def preview_reset(project: Project, name: str, tables: Sequence[str]) -> TrackerOverridePreview:
    """Preview a reset of all inputs, or of the named tables."""
    with open_ledger(project.ledger, create=False) as ledger:
        state = _look(ledger, name)
        names = _find_tables(state, tables) if tables else list(state.marks)
        return _preview(state, "reset", dict.fromkeys(names), ledger.now())


def carry_out_tracked(project: Project, move: TrackerOverridePreview, *, reason: str) -> int:
    """Make the previewed change; return the new epoch. A tracker has no output, so none has to open it."""
    with open_ledger(project.ledger, create=True) as ledger:
        tracker_ledger = TrackerLedger(ledger, lease=_LEASE, actor=None)
        state = peek(ledger, move.pipeline)
        tracker_ledger.look(move.pipeline, (state and kind_of(state)) or TIME)
        wanted = {name: after for name, (_, after) in move.positions.items()}
        override = ledger.begin_override(
            move.pipeline,
            move.pipeline,
            move.kind,
            {**move.kept, **wanted} if move.kind == "reset" else wanted,
            owner=tracker_ledger.owner,
            reason=reason,
        )
        ledger.end_override(move.pipeline, move.pipeline, epoch=override.epoch)
        return override.epoch


def _look(ledger: LedgerReader, name: str) -> PipelineState:
    found = peek(ledger, check_pipeline(ledger, name))
    if found is None or found.status is None:
        raise ConfigError(
            f"the pipeline '{name}' is a project's, and changing it takes its file",
            hint="name its project with --project, and no --pipeline",
        )
    return found


def _find_tables(state: PipelineState, tables: Sequence[str]) -> list[str]:
    hint = f"it has: {', '.join(list(state.marks)[:10])}"
    if kind_of(state) != VERSION:
        raise ConfigError(f"{state.pipeline} has windows of time, and no tables", hint="leave -t out")
    if not tables:
        raise ConfigError(f"{state.pipeline} has a version for each table", hint=f"name one with -t; {hint}")
    for name in tables:
        if name not in state.marks:
            raise ConfigError(f"{state.pipeline} has no table '{name}'", hint=hint)
    return list(tables)


def _read_version(name: str, timestamp: str | None, position: str | None) -> VersionPosition:
    if timestamp is not None:
        raise ConfigError(
            f"{name} has version ranges, and a tracker does not know where its tables lie",
            hint="name the last version that counts as read: --position 12",
        )
    try:
        version = int(position or "")
        if version < 0:
            raise ValueError
    except ValueError:
        raise ConfigError(f"'{position}' is no version", hint="write --position 12") from None
    return VersionPosition(version)


def _preview(
    state: PipelineState, kind: str, wanted: Mapping[str, Position | None], now: datetime
) -> TrackerOverridePreview:
    before = {name: mark.position for name, mark in state.marks.items()}
    status = state.status
    assert status is not None
    return TrackerOverridePreview(
        pipeline=state.pipeline,
        kind=kind,
        positions={name: (before.get(name), after) for name, after in wanted.items()},
        kept={name: position for name, position in before.items() if name not in wanted},
        supersedes=status.state if status.plan is not None else None,
        holder=status.owner.actor if status.owner is not None and is_held(status, now) else None,
        dangers=tuple(_find_dangers(before, wanted, now)) if kind == "set" else (),
    )


def _find_dangers(
    before: Mapping[str, Position | None], wanted: Mapping[str, Position | None], now: datetime
) -> list[str]:
    found = []
    for name, after in wanted.items():
        old, new = _order(before.get(name)), _order(after)
        if old is not None and new is not None and new < old:
            found.append(f"{name} goes back, and what was processed since comes again")
        if isinstance(after, RowPosition) and new is not None and new > to_utc(now).timestamp():
            found.append(f"{name} goes into the future, and what comes until then is passed over")
    return found


def _order(position: Position | None) -> float | None:
    match position:
        case VersionPosition(version):
            return version
        case RowPosition(cursor, _):
            return to_utc(datetime.fromisoformat(cursor.text)).timestamp()
        case _:
            return None
