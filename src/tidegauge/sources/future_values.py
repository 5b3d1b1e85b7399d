"""A cursor value far too high for now: once read, it would move the watermark past all other rows.

Only its size gives it away, so it becomes a note in the plan, and an error only under
`future_guard: fail`. It costs nothing while nothing looks odd, and then a statement that goes along the
cursor's index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from tidegauge.model.epoch_numbers import moment_of, number_of, unit_of
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.table import SourceTable
from tidegauge.sources import sql

_SOON = timedelta(days=1)
"""Clocks differ, and zones."""
_TIMES = 10
"""So many times as far from the next as all others lie apart."""
_FAR = 10**6
"""Nearer than this is no jump, however close the others are."""

Rows = Callable[[str], list[tuple[Any, ...]]]


def find_odd_number(
    rows: Rows,
    literal: sql.Literal,
    source_table: SourceTable,
    table: str,
    highest: Sequence[Value],
    clock: datetime,
) -> str | None:
    """A sentence about the highest value, where it seems to be none that a row should have by now.

    `highest` are the highest values that are new and the watermark's own, as far as there are any.
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
            if unit_of(below) is epoch and (above - below) * epoch.unit > _SOON:
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
