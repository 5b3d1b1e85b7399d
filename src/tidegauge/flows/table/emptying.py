"""Plan the batch that empties an output whose source has no rows any more."""

from __future__ import annotations

from dataclasses import replace

from tidegauge.compare.deleted_keys import check_limit
from tidegauge.model.batch_data import ReadBatch, TruncateTarget
from tidegauge.model.plan import Batch, Draft, Tag
from tidegauge.model.position import Window
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import TableFlow
from tidegauge.model.table import Layout, SourceTable
from tidegauge.model.watermark import Watermark
from tidegauge.plan.draft import find_window_start, is_whole
from tidegauge.sources.keys import read_keys


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
    """Return the draft, with a batch that empties the output if the source has no rows left. Reads only.

    Only for a flow that replaces the whole target, or `refreshing`: a full refresh was begun. Without a full
    refresh, MassDelete is raised where more rows would go than `deletes_limit` allows, unless `confirmed`.
    """
    if made.batches or not (refreshing or is_whole(flow)):
        return made
    begin = find_window_start(flow, source_table, None)
    if any(block.num_rows for block in read_keys(flow.source, source_table, after=begin, rows=1)):
        return made  # there are rows, too young to be read or dated in the future: a later run reads them
    if not refreshing and not _rows(flow, output, mark, confirmed=confirmed):
        return made
    # The watermark stays: there is no row that it could move to.
    last = Batch((Window(begin, begin),), rows=0, rereads=True, empties_output=True)
    inputs = tuple(replace(part, window=part.window or last.windows[0]) for part in made.inputs)
    note = f"the source has no row, and {output.place} is left with none"
    return replace(made, inputs=inputs, batches=(last,), notes=(*made.notes, note))


def check_emptied(
    flow: TableFlow, made: Draft, read_batch: ReadBatch, output: Output, *, confirmed: bool
) -> None:
    """Raise MassDelete if a load's last batch has no rows and would replace too many rows of the target."""
    replaces = flow.options.mode.facts.replaces_all
    if replaces and made.batches and not read_batch(made.batches[-1]).rows:
        _rows(flow, output, None, confirmed=confirmed)


def _rows(flow: TableFlow, output: Output, mark: Watermark | None, *, confirmed: bool) -> int:
    """Count the rows that would go. Raises MassDelete if they are too many and not confirmed.

    For a lake, which keeps its files, the count is that of the last batch, and nothing is refused.
    """
    if (table := output.capabilities.table) is not None:
        rows = table.count()
        check_limit(flow.name, rows, rows, limit=flow.options.deletes_limit, confirmed=confirmed)
        return rows
    last = output.receipt(Tag(flow.pipeline, flow.name, mark.epoch, mark.seq)) if mark and mark.seq else None
    return last.rows if last else 0


def empty_batch_data(layout: Layout) -> TruncateTarget:
    """The data of a batch that empties the output."""
    return TruncateTarget(layout)
