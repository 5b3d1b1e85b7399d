"""A source with no row left, where the output has to follow: a batch that takes everything away."""

from __future__ import annotations

from dataclasses import replace

from tidegauge.compare.deleted_keys import check_limit
from tidegauge.model.batch_data import EmptyTarget, ReadBatch
from tidegauge.model.plan import Batch, Draft, Tag
from tidegauge.model.position import Window
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import TableFlow
from tidegauge.model.table import Layout, SourceTable
from tidegauge.model.watermark import Watermark
from tidegauge.plan.draft import is_whole, start
from tidegauge.sources.keys import keys


def plan_emptying(
    flow: TableFlow,
    made: Draft,
    output: Output,
    source_table: SourceTable,
    mark: Watermark | None,
    *,
    refreshing: bool,
    confirmed: bool,
) -> Draft:
    """The draft with that batch, if there is need for it. Reads only.

    `refreshing`: a full refresh is to take away what is there, which needs no further question. A flow that
    overwrites asks first, as everything does that deletes.
    """
    if made.batches or not (refreshing or is_whole(flow)):
        return made
    begin = start(flow, source_table, None)
    if any(block.num_rows for block in keys(flow.source, source_table, after=begin, rows=1)):
        return made  # rows that are too young to be read, or dated in the future: they come later
    if not refreshing and not _rows(flow, output, mark, confirmed=confirmed):
        return made
    # The watermark stays: there is no row that it could move to.
    last = Batch((Window(begin, begin),), rows=0, again=True, empties=True)
    inputs = tuple(replace(part, window=part.window or last.windows[0]) for part in made.inputs)
    note = f"the source has no row, and {output.place} is left with none"
    return replace(made, inputs=inputs, batches=(last,), notes=(*made.notes, note))


def check_emptied(
    flow: TableFlow, made: Draft, read_batch: ReadBatch, output: Output, *, confirmed: bool
) -> None:
    """The same question where a lake's last whole copy of the table is empty and would replace a target."""
    replaces = flow.options.mode.facts.replaces_all
    if replaces and made.batches and not read_batch(made.batches[-1]).rows:
        _rows(flow, output, None, confirmed=confirmed)


def _rows(flow: TableFlow, output: Output, mark: Watermark | None, *, confirmed: bool) -> int:
    """How many would go; raises MassDelete. A lake keeps its files, so nothing has to be asked there."""
    if (table := output.capabilities.table) is not None:
        rows = table.count()
        check_limit(flow.name, rows, rows, limit=flow.options.deletes_limit, confirmed=confirmed)
        return rows
    last = output.receipt(Tag(flow.pipeline, flow.name, mark.epoch, mark.seq)) if mark and mark.seq else None
    return last.rows if last else 0


def empty_batch_data(layout: Layout) -> EmptyTarget:
    """What such a batch brings: nothing, and the output is emptied."""
    return EmptyTarget(layout)
