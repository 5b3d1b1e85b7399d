"""Windows that are read again below the watermark, and plans that stop at a number of rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegauge.errors import PositionError
from tidegauge.model.identity import identify
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import RowPosition, Value, ValueKind, Window, compare, step_down, to_text
from tidegauge.model.spec import TableFlow
from tidegauge.model.table import Cut, SourceTable, Survey
from tidegauge.plan.draft import again_below, draft, start

_WRITTEN = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:([ T])(\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?)?(Z|\+00:00)?", re.ASCII
)

Count = Callable[[RowPosition | None, RowPosition], int]
"""How many rows lie in `(after, upto]`: what `Source.count` answers for a table."""


@dataclass(frozen=True)
class Span:
    """The window of a backfill, before its rows are counted."""

    after: RowPosition | None
    upto: RowPosition | None
    """None: nothing lies below the watermark yet."""
    notes: tuple[str, ...] = ()


def span(
    flow: TableFlow,
    source_table: SourceTable,
    watermark: RowPosition | None,
    first: RowPosition | None,
    last: RowPosition | None,
    *,
    count: Count,
) -> Span:
    """From the first value that counts to the last, both included, and never past the watermark.

    Without a first one it begins where the flow itself began; without a last one it ends at the watermark.
    `count` is only asked for a cursor of text, whose order is the database's.
    """
    if watermark is None:
        return Span(None, None, ("nothing has been read yet, so there is nothing to read again",))
    after = start(flow, source_table, None) if first is None else below(source_table, first)
    notes: list[str] = []
    if first is not None and after == first and not first.key:
        notes.append(
            f"rows whose {source_table.cursor.name} is {to_text(first)} itself are left out: there is no"
            " next lower"
            f" {source_table.cursor.kind.value} to begin at"
        )
    upto = watermark
    if last is not None:
        if _is_below(source_table, last, watermark, count):
            upto = last
        elif last != watermark:
            notes.append(
                f"the window ends at the watermark, {to_text(watermark)}: what lies past it is the next run's"
            )
    return Span(after, upto, tuple(notes))


def below(source_table: SourceTable, position: RowPosition) -> RowPosition:
    """The point just before every row of this cursor value; the point itself where there is no such point.

    A position with a key is a row's own, and a window that begins there goes on behind that row.
    """
    if position.key:
        return position
    value = position.cursor
    try:
        if value.kind is ValueKind.TEXT and source_table.cursor_kind == "timestamp":
            return RowPosition(Value(ValueKind.TEXT, _text_below(value.text)))
        return RowPosition(step_down(value, source_table.cursor.scale))
    except PositionError:
        return position


def backfill(
    flow: TableFlow,
    source_table: SourceTable,
    span: Span,
    cuts: tuple[Cut, ...],
    *,
    pending: str | None = None,
) -> Draft:
    """The plan that reads a span again. Its batches leave the watermark where it is.

    `cuts` are the span's own (`Source.cuts`); `pending` is what the watermark remembers, and has to go on
    remembering.
    """
    survey = Survey(span.upto, cuts if span.upto is not None else (), pending=pending, notes=span.notes)
    if not survey.cuts:
        # No window: a plan that finds nothing must not change how far the ledger says we looked.
        part = InputPlan(
            input=flow.input,
            cursor=source_table.cursor_kind,
            window=None,
            source_id=identify(source_table),
            fingerprint=source_table.fingerprint,
            pending=pending,
        )
        return Draft(flow.pipeline, flow.name, (part,), (), notes=(*source_table.notes, *span.notes))
    made = draft(flow, source_table, span.after, survey)
    # Not how far the source was looked at: it ends where it does because somebody said so.
    inputs = tuple(replace(part, checked=None) for part in made.inputs)
    return replace(made, inputs=inputs, batches=tuple(replace(batch, again=True) for batch in made.batches))


def under_limit(flow: TableFlow, rows: int) -> TableFlow:
    """The flow with batches of such a size that whole ones come as near to the limit as they can."""
    options = flow.options
    many = -(-rows // options.batch_rows)
    parallel = min(options.parallel, max(1, rows // many))
    return replace(
        flow,
        options=replace(options, batch_rows=rows // many // parallel * parallel, parallel=parallel),
    )


def limit_rows(
    made: Draft, rows: int, *, step: int | None = None, watermark: RowPosition | None = None
) -> Draft:
    """The plan's first batches, no more rows than the limit; it ends where the last of them does.

    `step` is the size of the splits that the plan was cut with: then a batch that is too large is cut
    between two of its readers. `watermark` is for a plan that begins below it (`lookback`).
    """
    kept: list[Batch] = []
    left = rows
    for batch in made.batches:
        if batch.rows is None or batch.rows > left:
            if step is not None and (part := _head(batch, left // step, step)):
                kept.append(part)
            break
        kept.append(batch)
        left -= batch.rows
    if tuple(kept) == made.batches:
        return made
    if not kept:
        first = made.batches[0]
        made = _add_limit_note(made, f"the first batch has {first.rows} rows, more than the limit of {rows}")
        # Without a window: the ledger must not say that we looked so far and found nothing.
        blank = tuple(replace(part, window=None, checked=None) for part in made.inputs)
        return replace(made, inputs=blank, batches=())
    made = _add_limit_note(
        made, f"stops at the limit: {sum(batch.rows or 0 for batch in kept)} of {made.rows} rows"
    )
    if watermark is not None:
        kept = again_below(watermark, kept, made.inputs[0].cursor)
        if kept[-1].again:
            made = _add_limit_note(
                made, "all of them lie within the lookback: a larger limit gets past the watermark"
            )
    inputs = tuple(
        replace(part, window=Window(part.window.after if part.window else None, window.upto), checked=None)
        for part, window in zip(made.inputs, kept[-1].windows, strict=True)
    )
    return replace(made, inputs=inputs, batches=tuple(kept))


def _add_limit_note(made: Draft, note: str) -> Draft:
    return replace(made, notes=(*made.notes, note), limit_notes=(*made.limit_notes, note))


def _head(batch: Batch, splits: int, step: int) -> Batch | None:
    """The first splits of a batch; every one but a plan's last has just `step` rows."""
    if batch.nulls or not 0 < splits <= len(batch.splits):
        return None
    window, *others = batch.windows
    assert not others
    end = batch.splits[splits - 1]
    return replace(
        batch,
        windows=(Window(window.after, end),),
        splits=batch.splits[: splits - 1],
        rows=splits * step,
    )


def _is_below(source_table: SourceTable, last: RowPosition, watermark: RowPosition, count: Count) -> bool:
    """Whether a window that ends at `last` stays below the watermark; no, where that cannot be proven."""
    order = compare(last, watermark, moments=source_table.cursor_kind == "timestamp")
    return count(last, watermark) > 0 if order is None else order == -1


def _text_below(text: str) -> str:
    """One unit earlier, in the same notation."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise PositionError(f"'{text}' is not a moment")
    day, between, minutes, seconds, fraction, zone = match.groups()
    zone = zone or ""
    if between is None:
        return (datetime.fromisoformat(day) - timedelta(days=1)).date().isoformat() + zone
    if seconds is None:
        earlier = datetime.fromisoformat(f"{day} {minutes}") - timedelta(minutes=1)
        return earlier.isoformat(sep=between, timespec="minutes") + zone
    plain = f"{day} {minutes}{seconds}" + (f".{fraction}" if fraction else "")
    down = step_down(Value(ValueKind.TIMESTAMP, plain), len(fraction or ""))
    return down.text.replace(" ", between) + zone
