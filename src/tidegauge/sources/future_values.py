"""Finds a cursor value that is far too high: once read, it moves the watermark past all other rows.

Its size is the only sign, so it becomes a note in the plan, and an error only under `future_guard: fail`.
The check costs nothing while no value looks odd, and else one query along the cursor's index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from tidegauge.model.position import Value, ValueKind
from tidegauge.model.table import SourceTable
from tidegauge.model.unix_times import moment_of, number_of, unit_of
from tidegauge.sources import sql

_SOON = timedelta(days=1)
"""How far past the clock a time may lie, because clocks and zones differ."""
_TIMES = 10
"""A value jumps if it lies this many times as far from the next as all others lie apart."""
_FAR = 10**6
"""A smaller distance is no jump, however close together the others are."""

Rows = Callable[[str], list[tuple[Any, ...]]]


def find_odd_number(
    rows: Rows,
    literal: sql.Literal,
    source_table: SourceTable,
    table: str,
    highest: Sequence[Value],
    clock: datetime,
) -> str | None:
    """A sentence about the highest value if it looks too high for a row to have by now; None if it does not.

    `highest`: the highest new values and the watermark's own value, as far as there are any.
    """
    if source_table.cursor.kind is not ValueKind.INT or not highest:
        return None
    numbers = sorted((int(value.text) for value in highest), reverse=True)
    top = numbers[0]
    epoch = unit_of(top)
    if epoch is not None and (edge := number_of(clock + _SOON, epoch)) < top:
        ((_, below_text, above_text),) = rows(sql.around(source_table, table, literal(_value(edge))))
        if below_text is not None and above_text is not None:
            below, above = int(below_text), int(above_text)
            if unit_of(below) is epoch and (above - below) * epoch.step > _SOON:
                return (
                    f"{source_table.cursor.name} {top} lies past the clock if it is a time"
                    f" ({moment_of(str(top)):%Y-%m-%d %H:%M:%S}; the last one before the clock is"
                    f" {moment_of(str(below)):%Y-%m-%d %H:%M:%S}): rows that come after it with lower"
                    f" numbers are not read; if it is a time, say"
                    f" `cursor: {{column: {source_table.cursor.name}, epoch: {epoch.value}}}`"
                )
    if len(numbers) > 1 and (gap := top - numbers[1]) > _FAR:
        ((lowest, _, _),) = rows(sql.around(source_table, table, literal(_value(numbers[1]))))
        if lowest is not None and _TIMES * (numbers[1] - int(lowest)) in range(1, gap):
            return (
                f"{source_table.cursor.name} jumps from {numbers[1]} to {top}, far beyond all others:"
                " rows that come"
                " after it with lower numbers are not read"
            )
    return None


def _value(number: int) -> Value:
    return Value(ValueKind.INT, str(number))
