"""Preview overrides of a flow that reads a table by a column."""

from __future__ import annotations

from dataclasses import replace

from tidegauge.errors import ConfigError, PositionError
from tidegauge.flows.override.preview import (
    CopyOf,
    Import,
    OverridePreview,
    OverridePreviewer,
    OverrideRequest,
    SetTo,
)
from tidegauge.model.position import Position, RowPosition, Value


class ColumnOverridePreviewer(OverridePreviewer):
    """Previews overrides of a flow whose position is a value of a column."""

    emptied_when = ""

    def find_position(
        self, request: OverrideRequest, before: Position | None
    ) -> tuple[Position | None, list[str]]:
        name = self._flow.name
        match request:
            case SetTo(timestamp, position) if isinstance(before, RowPosition):
                text = (timestamp or position or "").replace("T", " ").removesuffix("Z")
                try:
                    return RowPosition(Value(before.cursor.kind, text)), []
                except PositionError as error:
                    raise ConfigError(
                        f"{name}: {error.message}", hint=f"write it like {before.cursor.text}"
                    ) from None
            case SetTo():
                raise ConfigError(f"{name} has no watermark that could be set", hint="run it first")
            case Import(marks, _):
                return marks[name].position, []
            case CopyOf():
                raise ConfigError(
                    f"{name}: a position means something only in its own table",
                    hint="set it with `watermark set`",
                )
            case _:
                raise AssertionError(f"{request} names no position")

    def count_rows(self, preview: OverridePreview) -> OverridePreview:
        return replace(preview, skipped=None, again=None, unknown="rows are counted by the next plan")

    def find_dangers(self, preview: OverridePreview) -> list[str]:
        before, after = preview.before, preview.after
        if isinstance(before, RowPosition) and isinstance(after, RowPosition) and before < after:
            return [f"rows up to {after.cursor.text} that were not read yet never reach {self._flow.target}"]
        return []
