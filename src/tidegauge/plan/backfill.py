"""Plan backfills, which read again below the watermark, and limit plans to a number of rows. Pure."""

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
from tidegauge.plan.draft import draft_table, find_window_start, mark_read_again

_DATE_OR_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:([ T])(\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?)?(Z|\+00:00)?", re.ASCII
)

Count = Callable[[RowPosition | None, RowPosition], int]
"""Counts the rows in `(after, upto]`, as `Source.count` does for a table."""


@dataclass(frozen=True)
class BackfillWindow:
    """The window of a backfill, before its rows are counted."""

    after: RowPosition | None
    upto: RowPosition | None
    """None: nothing has been read yet, so there is nothing to read again."""
    notes: tuple[str, ...] = ()


def find_backfill_window(
    flow: TableFlow,
    source_table: SourceTable,
    watermark: RowPosition | None,
    first: RowPosition | None,
    last: RowPosition | None,
    *,
    count: Count,
) -> BackfillWindow:
    """The window from `first` to `last`, both included, and never past the watermark.

    Without `first` it begins where the flow itself began; without `last` it ends at the watermark. `count` is
    only called for a cursor of text, whose order only the database knows.
    """
    if watermark is None:
        return BackfillWindow(None, None, ("nothing has been read yet, so there is nothing to read again",))
    after = find_window_start(flow, source_table, None) if first is None else step_below(source_table, first)
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
    return BackfillWindow(after, upto, tuple(notes))


def step_below(source_table: SourceTable, position: RowPosition) -> RowPosition:
    """The position just before every row of this cursor value; the position itself where there is none lower.

    A position with a key stays as it is: it is one row, and the window begins after that row.
    """
    if position.key:
        return position
    value = position.cursor
    try:
        if value.kind is ValueKind.TEXT and source_table.cursor_kind == "timestamp":
            return RowPosition(Value(ValueKind.TEXT, _step_text_down(value.text)))
        return RowPosition(step_down(value, source_table.cursor.scale))
    except PositionError:
        return position


def draft_backfill(
    flow: TableFlow,
    source_table: SourceTable,
    span: BackfillWindow,
    cuts: tuple[Cut, ...],
    *,
    pending: str | None = None,
) -> Draft:
    """Make the plan that reads a span again. Its batches leave the watermark where it is.

    `cuts` are the cuts of the span (`Source.cuts`); `pending` is what the ledger keeps beside the watermark,
    and is kept as it is.
    """
    survey = Survey(span.upto, cuts if span.upto is not None else (), pending=pending, notes=span.notes)
    if not survey.cuts:
        # Without a window: an empty backfill must not change how far the ledger says the source was checked.
        part = InputPlan(
            input=flow.input,
            cursor=source_table.cursor_kind,
            window=None,
            source_id=identify(source_table),
            fingerprint=source_table.fingerprint,
            pending=pending,
        )
        return Draft(flow.pipeline, flow.name, (part,), (), notes=(*source_table.notes, *span.notes))
    made = draft_table(flow, source_table, span.after, survey)
    # A backfill ends where the user said, so its end does not tell how far the source was checked.
    inputs = tuple(replace(part, checked=None) for part in made.inputs)
    return replace(made, inputs=inputs, batches=tuple(replace(batch, rereads=True) for batch in made.batches))


def fit_batches_to_limit(flow: TableFlow, rows: int) -> TableFlow:
    """The flow with a batch size that lets whole batches come as near to the limit as they can."""
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
    """Keep the plan's first batches, up to `rows` rows; the plan then ends where the last of them ends.

    `step` is the number of rows in each split of the plan: with it a batch that is too large is cut between
    two of its splits. `watermark` is needed for a plan that begins below it (`lookback`).
    """
    kept: list[Batch] = []
    left = rows
    for batch in made.batches:
        if batch.rows is None or batch.rows > left:
            if step is not None and (part := _take_first_splits(batch, left // step, step)):
                kept.append(part)
            break
        kept.append(batch)
        left -= batch.rows
    if tuple(kept) == made.batches:
        return made
    if not kept:
        first = made.batches[0]
        made = _add_limit_note(made, f"the first batch has {first.rows} rows, more than the limit of {rows}")
        # Without a window: the ledger must not say that the source was checked that far and had nothing new.
        blank = tuple(replace(part, window=None, checked=None) for part in made.inputs)
        return replace(made, inputs=blank, batches=())
    made = _add_limit_note(
        made, f"stops at the limit: {sum(batch.rows or 0 for batch in kept)} of {made.rows} rows"
    )
    if watermark is not None:
        kept = mark_read_again(watermark, kept, made.inputs[0].cursor)
        if kept[-1].rereads:
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


def _take_first_splits(batch: Batch, splits: int, step: int) -> Batch | None:
    """The batch cut down to its first `splits` splits; each has `step` rows, as all but a plan's last do.
    None where the batch cannot be cut there."""
    if batch.nulls or not 0 < splits <= len(batch.split_points):
        return None
    window, *others = batch.windows
    assert not others
    end = batch.split_points[splits - 1]
    return replace(
        batch,
        windows=(Window(window.after, end),),
        split_points=batch.split_points[: splits - 1],
        rows=splits * step,
    )


def _is_below(source_table: SourceTable, last: RowPosition, watermark: RowPosition, count: Count) -> bool:
    """Whether `last` is proven to lie below the watermark."""
    order = compare(last, watermark, moments=source_table.cursor_kind == "timestamp")
    return count(last, watermark) > 0 if order is None else order == -1


def _step_text_down(text: str) -> str:
    """The date or time one unit earlier, in the same notation. Raises PositionError for other text."""
    match = _DATE_OR_TIME.fullmatch(text)
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
