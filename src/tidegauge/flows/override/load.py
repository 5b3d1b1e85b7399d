"""Preview overrides of a flow that reads a lake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegauge.errors import ConfigError, OutputError
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
    show_rows,
)
from tidegauge.model.position import FilesPosition, Position
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import TableFlow
from tidegauge.model.watermark import Watermark


class LoadOverridePreviewer(OverridePreviewer):
    """Previews overrides of a flow whose positions are counts of the lake's committed batches."""

    _flow: TableFlow

    def __init__(
        self,
        flow: TableFlow,
        status: FlowStatus | None,
        mark: Watermark | None,
        upstream: Watermark | None,
        count: Callable[[int, int], int],
    ) -> None:
        """`count`: counts the rows in the lake's batches after one number, up to another.

        `upstream`: the watermark of the extract.
        """
        super().__init__(flow, status, mark)
        self._count = count
        self._upstream = upstream

    def find_position(
        self,
        request: OverrideRequest,
        before: Position | None,  # noqa: ARG002
    ) -> tuple[Position | None, list[str]]:
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
            case CopyOf():
                raise ConfigError(
                    f"{self._flow.name}: a count of batches means something only in its own lake",
                    hint="set it with `watermark set --position`",
                )
            case Reset() | Refresh() | UndoLast():
                raise AssertionError(f"{request} names no position")

    def count_rows(self, preview: OverridePreview) -> OverridePreview:
        low, high = sorted((_batches(preview.before), _batches(preview.after)))
        try:
            rows = self._count(low, high)
        except OutputError as error:
            return replace(
                preview, skipped=None, again=None, unknown=f"the lake could not be asked: {error.sentence}"
            )
        back = _batches(preview.after) < _batches(preview.before)
        return replace(preview, skipped=0 if back else rows, again=rows if back else 0)

    def find_dangers(self, preview: OverridePreview) -> list[str]:
        there = self._upstream.seq if self._upstream else 0
        if preview.again and self._flow.options.mode.facts.only_adds:
            return [f"{show_rows(preview.again)} are appended a second time"]
        if preview.skipped:
            return [f"{show_rows(preview.skipped)} never reach {self._flow.output}"]
        if preview.skipped is not None and _batches(preview.after) > _batches(preview.before) and not there:
            return ["the lake does not have so many batches yet: those that come are skipped"]
        return []

    def find_notes(self, request: OverrideRequest) -> list[str]:
        notes = super().find_notes(request)
        if isinstance(request, Reset):
            notes.append("the next run loads all that is in the lake again, over what is in the target")
        return notes


def _batches(position: Position | None) -> int:
    return position.sequence if isinstance(position, FilesPosition) else 0
