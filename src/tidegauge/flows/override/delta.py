"""Preview overrides of a flow between Delta tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tidegauge.errors import ConfigError
from tidegauge.flows.override.preview import (
    CopyOf,
    Import,
    OverridePreview,
    OverridePreviewer,
    OverrideRequest,
    Refresh,
    Reset,
    SetTo,
    UndoLast,
)
from tidegauge.model.delta_flow import DataFlow, DeltaFlow, DeltaInput
from tidegauge.model.position import Position, VersionPosition
from tidegauge.model.run import FlowStatus
from tidegauge.model.watermark import Watermark


class DeltaOverridePreviewer(OverridePreviewer):
    """Previews overrides of a flow whose positions are table versions, one for each input."""

    emptied_when = ""

    def __init__(
        self,
        flow: DeltaFlow,
        status: FlowStatus | None,
        marks: Sequence[Watermark],
        *,
        version_at: Callable[[DeltaInput, str], int],
    ) -> None:
        """`version_at`: finds the version that an input had at a time."""
        self._delta_flow = flow
        self._version_at = version_at
        self._marks = {mark.input: mark for mark in marks}
        self._others: dict[str, Position | None] = {}
        self._at: dict[str, dict[str, Position | None]] = {}
        super().__init__(flow, status, self._marks.get(flow.incremental[0].name))

    def preview(self, request: OverrideRequest, every: Sequence[DataFlow]) -> OverridePreview:
        others = {part.name for part in self._delta_flow.inputs} - {self._flow.input}
        found = self._find_positions(request)
        self._others = {name: one for name, one in found.items() if name in others}
        made = super().preview(request, every)
        there = all(self._position_of(name) == one for name, one in self._others.items())
        return replace(made, others=self._others, unchanged=made.unchanged and there)

    def _find_positions(self, request: OverrideRequest) -> Mapping[str, Position | None]:
        """By input, the position that the request gives it. Inputs that stay where they are left out."""
        names = [part.name for part in self._delta_flow.inputs]
        match request:
            case Reset() | Refresh():
                return dict.fromkeys(names)
            case SetTo(None, str(text)):
                return self._versions(text)
            case SetTo(str(timestamp), None):
                return self._versions_at(timestamp)
            case Import(marks, _):
                there = marks[self._delta_flow.name].inputs
                # Not the snapshots: the next plan pins them again.
                incremental = [part.name for part in self._delta_flow.incremental]
                return {name: there[name] for name in incremental if name in there}
            case UndoLast():
                undo = self._status.undo if self._status else None
                return {name: undo.positions.get(name) for name in names} if undo else {}
            case _:
                return {}

    def _position_of(self, name: str) -> Position | None:
        return self._marks[name].position if name in self._marks else None

    def find_position(
        self, request: OverrideRequest, before: Position | None
    ) -> tuple[Position | None, list[str]]:
        match request:
            case SetTo(None, str(text)):
                return self._versions(text).get(self._flow.input, before), []
            case SetTo(str(timestamp), None):
                return self._versions_at(timestamp).get(self._flow.input, before), []
            case SetTo():
                raise AssertionError(f"{request} names no position")
            case Import(marks, shown):
                there = marks[self._delta_flow.name].inputs
                if all(
                    isinstance(there.get(part.name, ""), VersionPosition | None)
                    for part in self._delta_flow.incremental
                ):
                    return there[self._flow.input], []
                raise ConfigError(
                    f"{self._delta_flow.name}: {shown} does not hold the version of each of its inputs",
                    hint="`tidegauge ledger rebuild` brings them back from the output",
                )
            case CopyOf():
                raise ConfigError(
                    f"{self._delta_flow.name}: a version means something only in its own table",
                    hint="set it with `watermark set --position`",
                )
            case Reset() | Refresh() | UndoLast():
                raise AssertionError(f"{request} names no position")

    def count_rows(self, preview: OverridePreview) -> OverridePreview:
        return replace(preview, skipped=None, again=None, unknown="versions are not counted in rows")

    def find_dangers(self, preview: OverridePreview) -> list[str]:
        moves = [(_version(preview.before), _version(preview.after))]
        moves += [(_version(self._position_of(name)), _version(one)) for name, one in self._others.items()]
        if self._delta_flow.appends and any(after < before for before, after in moves):
            return [f"what is read again is appended to {self._delta_flow.output.table} a second time"]
        return [
            f"changes up to version {after} never reach {self._delta_flow.output.table}"
            for before, after in moves
            if after > before
        ]

    def _versions_at(self, timestamp: str) -> dict[str, Position | None]:
        """By incremental input, its version at that time: what was committed up to then counts as read."""
        if not self._at.get(timestamp):
            self._at[timestamp] = {
                part.name: VersionPosition(self._version_at(part, timestamp))
                for part in self._delta_flow.incremental
            }
        return self._at[timestamp]

    def _versions(self, text: str) -> dict[str, Position | None]:
        """Parse `12`, for a flow with one incremental input, or `{"orders": 12, "customers": 3}`."""
        names = [part.name for part in self._delta_flow.incremental]
        wrong = ConfigError(
            f"{self._delta_flow.name}: '{text}' does not say which version counts as read",
            hint="write --position 12"
            if len(names) == 1
            else f"write --position '{{\"{names[0]}\": 12, …}}'",
        )
        try:
            body = json.loads(text)
        except ValueError:
            raise wrong from None
        if not isinstance(body, dict):
            if len(names) != 1:
                raise wrong
            body = {names[0]: body}
        found: dict[str, Position | None] = {}
        for name, version in body.items():
            if name not in names or not (version is None or (type(version) is int and version >= 0)):
                raise wrong
            found[name] = None if version is None else VersionPosition(version)
        return found


def _version(position: Position | None) -> int:
    return position.version if isinstance(position, VersionPosition) else -1
