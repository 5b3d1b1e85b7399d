"""Rules for planning a flow that reads a table by a column: lookback, replaced tables, late rows. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from tidegauge.errors import ConfigError, SourceError, TableReplaced
from tidegauge.model.delta_flow import DeltaInput
from tidegauge.model.position import MOMENTS, Position, RowPosition, Value, ValueKind, step_down


@dataclass(frozen=True)
class ColumnReadState:
    """What a flow keeps beside its watermark for its next plan; stored in the field `pending`."""

    state: str | None = None
    """State of the table at the last plan; while it stays the same, nothing is new. None: not known."""
    waiting: int = 0
    """Rows that were too young to read; they become readable without any change of the table."""
    older: tuple[str, int] | None = None
    """The cursor value where the next window begins, and how many rows lie at or below it."""
    transform: str = ""
    """Digest of the flow's transform."""

    @classmethod
    def parse(cls, text: str | None) -> ColumnReadState:
        """Parse the stored text; text that another kind of flow has stored gives an empty value."""
        try:
            body = json.loads(text or "{}")
            older = (str(body["older"][0]), int(body["older"][1])) if body["older"] else None
            return cls(body["state"], int(body["waiting"]), older, body["transform"])
        except (ValueError, TypeError, KeyError, IndexError):
            return cls()

    def __str__(self) -> str:
        return json.dumps(
            {
                "state": self.state,
                "waiting": self.waiting,
                "older": self.older,
                "transform": self.transform,
            }
        )


def go_back(value: Value, lookback: timedelta, scale: int, part: DeltaInput) -> Value:
    """The point just below `value - lookback`, where the next window begins, so that all rows with that value
    are read again. `scale` is the number of decimal places of the column's values."""
    if lookback and value.kind not in MOMENTS:
        raise ConfigError(
            f"lookback needs a cursor of dates or timestamps; the cursor of '{part.name}' is not one",
            hint="leave lookback out: rows with the watermark's own number are read again in any case",
            place=part.place,
        )
    match value.kind:
        case ValueKind.DECIMAL:
            return Value(value.kind, str(Decimal(value.text) - Decimal(1).scaleb(-scale)))
        case ValueKind.DATE:
            days = -(-lookback // timedelta(days=1))
            earlier = date.fromisoformat(value.text) - timedelta(days=days)
            return step_down(Value(value.kind, earlier.isoformat()), scale)
        case ValueKind.TIMESTAMP | ValueKind.TIMESTAMPTZ:
            moment = datetime.fromisoformat(value.text) - lookback
            return step_down(Value(value.kind, moment.isoformat(sep=" ")), scale)
        case _:
            return step_down(value, scale)


def check_same(flow: str, part: DeltaInput, known: str | None, identity: str) -> None:
    """Raise SourceError where the watermark was taken over another table or column."""
    if known is not None and known != identity:
        raise SourceError(
            f"{flow}: its watermark was taken over {known}, and '{part.name}' is {identity} now",
            hint=f"put the old table and cursor back, or begin again with `tidegauge watermark reset --select"
            f" {flow} --reason …`",
            place=part.place,
        )


def check_not_lower(flow: str, part: DeltaInput, mark: Position | None, highest: Value | None) -> None:
    """Raise TableReplaced where the table's highest row lies below the watermark: the table was made anew or
    set back, and its new rows could lie below the watermark too and would never be read."""
    if not isinstance(mark, RowPosition) or highest is None or mark.cursor.kind is not highest.kind:
        return
    if highest < mark.cursor:
        raise TableReplaced(
            f"{flow}: the highest cursor of {part.table} is {highest.text}, and it was read up to"
            f" {mark.cursor.text}: it was made anew or set back",
            hint="if rows were only deleted, `tidegauge watermark set` it to that; to read the table from its"
            f" beginning: `tidegauge watermark reset --select {flow} --reason …`",
        )


def note_late(
    part: DeltaInput, before: tuple[str, int] | None, now: int, after: Value | None
) -> tuple[str, ...]:
    """A note on rows that came too late for the lookback; empty where none are known. `now` rows lie at or
    below `after`, where the window begins; `before` is that point and count from the last plan."""
    if before is None or after is None or before[0] != after.text or now <= before[1]:
        return ()
    return (
        f"{part.name}: {now - before[1]:,} rows came late, dated at or before {after.text}, below the"
        " lookback: they are not read (`watermark set` to before them reads them)",
    )
