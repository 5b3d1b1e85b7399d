"""Cut the new rows of a table into frozen batches. Pure: all facts come in as arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from tidegauge.errors import ConfigError, PositionError
from tidegauge.model.identity import identify
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import RowPosition, Value, ValueKind, Window, compare, step_down
from tidegauge.model.spec import NullCursor, TableFlow
from tidegauge.model.table import Cut, Layout, SourceTable, Survey
from tidegauge.model.unix_times import UnixUnit, number_of

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)([ T])(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z?)")
_NANOSECONDS = 9


def find_window_start(
    flow: TableFlow, source_table: SourceTable, watermark: RowPosition | None
) -> RowPosition | None:
    """Where the next window begins: at `initial` the first time, `lookback` below the watermark later; None:
    at the first row."""
    if flow.options.snapshot:
        return None
    if watermark is None or is_whole(flow):
        return (
            None if flow.options.initial is None else _read_initial(flow, source_table, flow.options.initial)
        )
    if not flow.options.lookback:
        return watermark
    if source_table.cursor_kind != "timestamp":
        raise ConfigError(
            f"{flow.name}: lookback needs a cursor of dates or timestamps;"
            f" '{flow.options.cursor}' is not one",
            hint="leave lookback out for this table",
            place=flow.options.place,
        )
    return RowPosition(_move_back(watermark.cursor, flow.options.lookback, source_table.cursor.unix_unit))


def is_whole(flow: TableFlow) -> bool:
    """Whether each batch is the whole table and replaces the batches before it.

    A lake on the way to such a warehouse table gets whole copies too, so that rows deleted in the source are
    missing from the newest copy. A table without a cursor also goes through a lake as whole copies, and the
    load takes the newest one.
    """
    copied = flow.options.snapshot and (flow.output.in_lake or flow.reads is not None)
    return copied or flow.options.mode.facts.replaces_all


def batch_step(flow: TableFlow) -> int:
    """How many rows one reader takes: a batch is `parallel` such splits."""
    return -(-flow.options.batch_rows // flow.options.parallel)


def draft_table(
    flow: TableFlow,
    source_table: SourceTable,
    after: RowPosition | None,
    survey: Survey,
    *,
    watermark: RowPosition | None = None,
) -> Draft:
    """Make the plan of one flow; without batches there is nothing new.

    The last batch ends at the last row that the survey found, and so will the watermark; how far the survey
    looked is `checked`. `watermark` is where the flow stands, which a `lookback` begins below.
    """
    batches: list[Batch] = []
    if any(cut.rows for cut in survey.cuts):
        # A whole copy has to be one batch: a second batch would replace the first.
        splits = len(survey.cuts) if is_whole(flow) else flow.options.parallel
        batches = _batches(after, survey.cuts, splits)
    end = batches[-1].windows[0].upto if batches else after
    if watermark is not None and flow.options.lookback:
        batches = mark_read_again(watermark, batches, source_table.cursor_kind)
        end = watermark if not batches or batches[-1].rereads else end
    if survey.rows_null and flow.options.null_cursor is NullCursor.INCLUDE:
        batches.append(Batch((Window(end, end),), rows=survey.rows_null, nulls=True))
    part = InputPlan(
        input=flow.input,
        cursor=source_table.cursor_kind,
        window=Window(after, end) if survey.upto is not None or batches else None,
        source_id=identify(source_table),
        fingerprint=source_table.fingerprint,
        pending=survey.pending,
        checked=survey.upto,
    )
    return Draft(
        pipeline=flow.pipeline,
        flow=flow.name,
        inputs=(part,),
        batches=tuple(batches),
        rows_null=survey.rows_null,
        rows_waiting=survey.rows_waiting,
        notes=(*source_table.notes, *survey.notes),
    )


def mark_read_again(watermark: RowPosition, batches: Sequence[Batch], cursor: str) -> list[Batch]:
    """Mark the batches of a plan that begins below the watermark: only the last may move it, and only up.

    Where its end cannot be compared with the watermark here (one cursor value, keys of text) the watermark
    stays: the lookback reads that value again in any case.
    """
    if not batches:
        return []
    end = batches[-1].windows[0].upto
    assert isinstance(end, RowPosition | None)
    past = compare(end, watermark, moments=cursor == "timestamp") == 1
    return [
        *(replace(batch, rereads=True) for batch in batches[:-1]),
        replace(batches[-1], rereads=not past),
    ]


def add_empty_batch(made: Draft) -> Draft:
    """The first plan of a table that has no rows to read yet: one empty batch creates the output with its
    columns, so that queries find it. The watermark stays at the beginning."""
    nothing = Window(None, None)
    inputs = tuple(replace(part, window=part.window or nothing) for part in made.inputs)
    return replace(made, inputs=inputs, batches=(Batch((nothing,), rows=0, creates_output=True),))


def check_scd2_cursor(flow: TableFlow, layout: Layout) -> None:
    """Raise ConfigError where mode scd2 has no cursor column that says when a row became valid."""
    if flow.output.in_warehouse and flow.options.mode.facts.keeps_history and layout.cursor_column is None:
        raise ConfigError(
            f"{flow.name}: mode scd2 needs a column as its cursor; {flow.options.cursor or 'the table'} "
            + ("has none" if flow.options.snapshot else "is none"),
            hint="name the column that says when a row changed",
            place=flow.options.place,
        )


def _batches(after: RowPosition | None, cuts: tuple[Cut, ...], parallel: int) -> list[Batch]:
    batches = []
    rest = iter(cuts)
    while splits := tuple(islice(rest, parallel)):
        upto = splits[-1].position
        batches.append(
            Batch(
                windows=(Window(after, upto),),
                split_points=tuple(split.position for split in splits[:-1]),
                rows=sum(split.rows for split in splits),
            )
        )
        after = upto
    return batches


def _read_initial(flow: TableFlow, source_table: SourceTable, text: str) -> RowPosition:
    """The position just below `initial`, which is the first value to read."""
    kind = source_table.cursor.kind
    moment = _MOMENT.fullmatch(text)
    try:
        if source_table.cursor.unix_unit is not None and not text.lstrip("-").isdigit():
            day, _, clock, fraction, _ = moment.groups() if moment else (text, "", "00:00:00", "", "")
            exact = datetime.fromisoformat(f"{day} {clock}.{(fraction or '')[:6]:0<6}")
            number = number_of(exact - timedelta(microseconds=1), source_table.cursor.unix_unit)
            return RowPosition(Value(ValueKind.INT, str(number)))
        if kind in (ValueKind.TIMESTAMP, ValueKind.TIMESTAMPTZ):
            text = text if moment else f"{text} 00:00:00"
            return RowPosition(step_down(Value(kind, text.replace("T", " ")), source_table.cursor.scale))
        if kind is ValueKind.TEXT and source_table.cursor_kind == "timestamp":
            if moment is None:
                return RowPosition(Value(kind, text))
            day, between, clock, fraction, zone = moment.groups()
            plain = f"{day} {clock}" + (f".{fraction}" if fraction else "")
            below = step_down(Value(ValueKind.TIMESTAMP, plain), _NANOSECONDS)
            return RowPosition(Value(kind, below.text.replace(" ", between) + zone))
        if kind in (ValueKind.INT, ValueKind.DATE):
            return RowPosition(step_down(Value(kind, text), 0))
        return RowPosition(Value(kind, text))
    except (PositionError, ValueError):
        raise ConfigError(
            f"{flow.name}: initial '{text}' is not a {kind.value}, as its cursor '{flow.options.cursor}' is",
            hint="write it as the database shows the column, such as 2025-01-01 00:00:00",
            place=flow.options.place,
        ) from None


def _move_back(value: Value, by: timedelta, epoch: UnixUnit | None) -> Value:
    """Move a moment back by `by`, in the same notation, rounded down and never up."""
    if epoch is not None:
        return Value(ValueKind.INT, str(int(value.text) - -(-by // epoch.step)))
    if value.kind is ValueKind.DATE:
        days = -(-by // timedelta(days=1))
        return Value(
            ValueKind.DATE, (datetime.fromisoformat(value.text) - timedelta(days=days)).date().isoformat()
        )
    moment = _MOMENT.fullmatch(value.text)
    if moment is None:
        raise PositionError(f"'{value.text}' is not a moment that lookback can go back from")
    day, between, clock, fraction, zone = moment.groups()
    whole = datetime.fromisoformat(f"{day} {clock}") - timedelta(seconds=-(-by // timedelta(seconds=1)))
    tail = f".{fraction}" if fraction else ""
    return Value(value.kind, whole.isoformat(sep=between) + tail + zone)
