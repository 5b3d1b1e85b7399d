"""A change by hand to a flow between Delta tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from tidegauge.errors import ConfigError
from tidegauge.flows.override import (
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
from tidegauge.model.delta_flow import AnyFlow, DeltaFlow
from tidegauge.model.position import Position, VersionPosition
from tidegauge.model.run import FlowStatus
from tidegauge.model.watermark import Watermark


class DeltaOverridePreviewer(OverridePreviewer):
    """Its positions are versions, one for each input."""

    emptied_when = ""

    def __init__(self, flow: DeltaFlow, status: FlowStatus | None, marks: Sequence[Watermark]) -> None:
        self._delta_flow = flow
        self._marks = {mark.input: mark for mark in marks}
        super().__init__(flow, status, self._marks.get(flow.moving[0].name))

    def preview(self, request: OverrideRequest, every: Sequence[AnyFlow]) -> OverridePreview:
        made = super().preview(request, every)
        rest = [part for part in self._delta_flow.inputs if part.name != self._flow.input]
        match request:
            case Reset() | Refresh():
                others: dict[str, Position | None] = {part.name: None for part in rest}
            case SetTo(None, str(text)):
                others = {name: one for name, one in self._versions(text).items() if name != self._flow.input}
            case UndoLast():
                undo = self._status.undo if self._status else None
                others = {part.name: undo.positions.get(part.name) for part in rest} if undo else {}
            case SetTo() | CopyOf() | Import():
                others = {}
        return replace(made, others=others)

    def find_position(
        self, request: OverrideRequest, before: Position | None
    ) -> tuple[Position | None, list[str]]:
        match request:
            case SetTo(None, str(text)):
                return self._versions(text).get(self._flow.input, before), []
            case SetTo():
                raise ConfigError(
                    f"{self._delta_flow.name} counts versions, and no timestamps",
                    hint="name the last version that counts as read: --position 12",
                )
            case Import(marks, shown):
                there = marks[self._delta_flow.name].position
                if len(self._delta_flow.moving) == 1 and (
                    there is None or isinstance(there, VersionPosition)
                ):
                    return there, []
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
        back = _version(preview.after) < _version(preview.before)
        if back and self._delta_flow.appends:
            return [f"what is read again is appended to {self._delta_flow.output.table} a second time"]
        if not back and preview.after != preview.before:
            return [
                f"changes up to version {_version(preview.after)} never reach {self._delta_flow.output.table}"
            ]
        return []

    def _versions(self, text: str) -> dict[str, Position | None]:
        """`12` for a flow with one incremental input, `{"orders": 12, "customers": 3}` for any."""
        names = [part.name for part in self._delta_flow.moving]
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
