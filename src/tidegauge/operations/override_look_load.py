"""A change by hand to a flow that reads a lake."""

from __future__ import annotations

from dataclasses import replace

from tidegauge.errors import ConfigError, OutputError
from tidegauge.flows.load import rows_between
from tidegauge.model.position import FilesPosition, Position
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import TableFlow
from tidegauge.model.watermark import Watermark
from tidegauge.operations.override import Import, OverridePreview, OverrideRequest, Reset, SetTo
from tidegauge.operations.override_look import OverrideLook, shown_rows


class LoadOverrideLook(OverrideLook):
    """A flow that reads a lake: its positions are counts of committed batches."""

    _flow: TableFlow

    def __init__(
        self, flow: TableFlow, status: FlowStatus | None, mark: Watermark | None, upstream: Watermark | None
    ) -> None:
        super().__init__(flow, status, mark)
        self._upstream = upstream

    def named(self, request: OverrideRequest, before: Position | None) -> tuple[Position | None, list[str]]:  # noqa: ARG002
        match request:
            case SetTo(None, str(text)):
                if text.strip() in ("null", "0"):
                    return None, []
                if text.strip().isascii() and text.strip().isdigit():
                    return FilesPosition(int(text)), []
                raise ConfigError(
                    f"{self._flow.name}: '{text}' is not a number of batches",
                    hint="how many batches of the lake count as loaded: --position 7",
                )
            case SetTo():
                raise ConfigError(
                    f"{self._flow.name} counts batches of the lake, and no timestamps",
                    hint="set the stage `extract` by --timestamp, and this one by --position",
                )
            case Import(marks, shown):
                there = marks[self._flow.name].position
                if there is None or isinstance(there, FilesPosition):
                    return there, []
                raise ConfigError(f"{self._flow.name}: {shown} holds no count of batches for it")
            case _:
                raise ConfigError(
                    f"{self._flow.name}: a count of batches means something only in its own lake",
                    hint="set it with `watermark set --position`",
                )

    def counted(self, move: OverridePreview) -> OverridePreview:
        low, high = sorted((_batches(move.before), _batches(move.after)))
        try:
            rows = rows_between(self._flow, self._upstream, low, high)
        except OutputError as error:
            return replace(move, skipped=None, again=None, unknown=f"the lake could not be asked: {error}")
        back = _batches(move.after) < _batches(move.before)
        return replace(move, skipped=0 if back else rows, again=rows if back else 0)

    def dangers(self, move: OverridePreview) -> list[str]:
        there = self._upstream.seq if self._upstream else 0
        if move.again and self._flow.options.mode.facts.only_adds:
            return [f"{shown_rows(move.again)} are appended a second time"]
        if move.skipped:
            return [f"{shown_rows(move.skipped)} never reach {self._flow.output}"]
        if move.skipped is not None and _batches(move.after) > _batches(move.before) and not there:
            return ["the lake does not have so many batches yet: those that come are skipped"]
        return []

    def notes(self, request: OverrideRequest) -> list[str]:
        notes = super().notes(request)
        if isinstance(request, Reset):
            notes.append("the next run loads all that is in the lake again, over what is in the target")
        return notes


def _batches(position: Position | None) -> int:
    return position.sequence if isinstance(position, FilesPosition) else 0
