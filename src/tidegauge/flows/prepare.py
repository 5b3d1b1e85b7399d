"""Find out what is new for one flow, after making sure that ledger and output tell the same story."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tidegauge.errors import OutputDisagrees, OutputNotEmpty
from tidegauge.flows.deletes import Deleting
from tidegauge.flows.drift import decide_drift
from tidegauge.flows.emptied import check_emptied, emptied, nothing
from tidegauge.flows.load import prepare_load, recall_load
from tidegauge.model.batch_data import ReadBatch
from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.plan import Draft, Plan, Tag
from tidegauge.model.position import RowPosition
from tidegauge.model.protocols.output import Output
from tidegauge.model.protocols.source import Reader, Source
from tidegauge.model.spec import Deletes, LakeTable, Read, TableFlow
from tidegauge.model.table import SourceTable
from tidegauge.model.watermark import Watermark
from tidegauge.outputs.lake.splits import FEW
from tidegauge.plan.backfill import limited
from tidegauge.plan.draft import (
    batch_step,
    check_history,
    check_identity,
    draft,
    is_whole,
    start,
    with_nothing,
)
from tidegauge.plan.drift import narrow
from tidegauge.sources.direct import check as check_direct


@dataclass(frozen=True)
class Ends:
    """The two ends of a hop, and what the ledger knows of them."""

    source: Callable[[], Source]
    """Not asked by a flow that finds its rows in a lake: the database may be down."""
    reader: Reader
    output: Output
    mark: Watermark | None
    upstream: Watermark | None
    """Of the flow whose output it reads."""


@dataclass(frozen=True)
class Prepared:
    """What a plan of a flow would be, and how its rows are had."""

    draft: Draft
    read_batch: ReadBatch
    changes: tuple[str, ...] = ()
    """What of the output's columns would change."""
    by_spark: bool = True
    """Whether a batch of it is work for Spark, as far as that can be foreseen."""
    by_jdbc: bool = False
    """Whether its rows go through Java."""


@dataclass(frozen=True)
class Approach:
    """How a runner comes at one flow, of whatever kind it is."""

    output: Output
    mark: Watermark | None
    """Of one of its inputs: epoch and batch are the same for all."""
    prepare: Callable[[], Prepared]
    recall: Callable[[Plan], Prepared]


def prepare(flow: TableFlow, ends: Ends, *, limit: int | None = None, confirmed: bool = False) -> Prepared:
    """Reads only. A `limit` of rows cuts a plan over a table; one over a lake has only whole batches.

    `confirmed`: as many rows may be deleted as the source says.
    """
    mark = ends.mark
    agree(flow, ends.output, mark)
    pending = mark is not None and mark.epoch > 0 and not mark.seq and ends.output.is_pending(mark.epoch)
    by_jdbc = False
    if flow.reads is not None:
        made, read_batch, changes = prepare_load(flow, ends.output, mark, ends.upstream)
        if not pending:
            check_emptied(flow, made, read_batch, ends.output, confirmed=confirmed)
    else:
        source = ends.source()
        source_table, changes = describe_for_output(flow, source, ends)
        check_identity(flow, source_table, mark.source_id if mark else None)
        check_history(flow, source_table.layout)
        position = mark.position if mark else None
        assert position is None or isinstance(position, RowPosition)
        if is_whole(flow):
            limit = None  # a part of the table would take the place of all of it
        after = start(flow, source_table, position)
        step = batch_step(flow) if limit is None else min(batch_step(flow), limit)
        survey = source.survey(source_table, after, step, mark.pending if mark else None)
        made = draft(flow, source_table, after, survey, watermark=position)
        if limit is not None:
            below = position if after != position else None
            made = limited(made, limit, step=step, watermark=below)
        made = emptied(flow, made, ends.output, source_table, mark, pending=pending, confirmed=confirmed)
        slower = check_direct(source_table, flow.source)
        if slower is not None:
            made = replace(made, notes=(*made.notes, f"read through JDBC: {slower}"))
        read_batch = _of_table(ends.reader, source_table)
        by_jdbc = _by_jdbc(flow, slower)
        first = not (made.batches or position or pending or (mark and mark.seq))
        if first and ends.output.layout() is None:
            made = with_nothing(made)
    deleting = Deleting(flow, ends.output, confirmed=confirmed, reached=_reached(ends))
    if flow.options.deletes is not Deletes.NONE and ends.output.capabilities.deletes_keys and not pending:
        made = deleting.planned(made, ends.source, mark.position if mark else None)
    seen = (mark.epoch, mark.seq) if mark else (0, 0)
    made = replace(made, seen=seen, notes=(*made.notes, *changes))
    # What was decided in an earlier plan is worth a note in this one, and no news for the history.
    news = mark is not None and mark.fingerprint != made.inputs[0].fingerprint
    many = any(batch.rows is None or batch.rows > FEW for batch in made.batches)
    return Prepared(
        made, _with_deletes(read_batch, deleting), changes if news else (), by_jdbc or many, by_jdbc
    )


def recall(flow: TableFlow, plan: Plan, ends: Ends, *, confirmed: bool = False) -> Prepared:
    """The same for a plan that an earlier run has frozen: its windows stay, its rows are read anew."""
    deleting = Deleting(flow, ends.output, confirmed=confirmed, reached=_reached(ends))
    changes: tuple[str, ...] = ()
    by_jdbc = False
    if flow.reads is not None:
        read_batch = recall_load(flow, ends.output, plan)
    else:
        source_table, changes = describe_for_output(flow, ends.source(), ends)
        check_identity(flow, source_table, plan.draft.inputs[0].source_id)
        read_batch = _of_table(ends.reader, source_table)
        by_jdbc = _by_jdbc(flow, check_direct(source_table, flow.source))
        if source_table.fingerprint == plan.draft.inputs[0].fingerprint:
            changes = ()
    return Prepared(plan.draft, _with_deletes(read_batch, deleting), changes, by_jdbc=by_jdbc)


def describe_for_output(flow: TableFlow, source: Source, ends: Ends) -> tuple[SourceTable, tuple[str, ...]]:
    """The table as it shall be read: what the output holds has a say in it (`drift`)."""
    source_table = source.describe(flow.table, flow.options)
    if ends.mark is None or ends.mark.fingerprint == source_table.fingerprint:
        return source_table, ()
    held = ends.output.layout()
    if held is None:
        return source_table, ()
    decision = decide_drift(flow, ends.output, held, source_table.layout)
    return narrow(source_table, [field.name for field in decision.layout.fields]), decision.notes


def _reached(ends: Ends) -> RowPosition | None:
    """Up to where the source itself was looked at."""
    mark = ends.upstream or ends.mark
    reached = mark.checked or mark.position if mark else None
    return reached if isinstance(reached, RowPosition) else None


def _by_jdbc(flow: TableFlow, slower: str | None) -> bool:
    return slower is not None or flow.options.read is Read.JDBC


def _with_deletes(read_batch: ReadBatch, deleting: Deleting) -> ReadBatch:
    return lambda batch: deleting.batch_data() if batch.deletes else read_batch(batch)


def _of_table(reader: Reader, source_table: SourceTable) -> ReadBatch:
    return lambda batch: (
        nothing(source_table.layout) if batch.empties else reader.batch_data(source_table, batch)
    )


def agree(flow: AnyFlow, output: Output, watermark: Watermark | None, *, lost: bool = False) -> None:
    """Refuse when the output holds what the ledger does not know, or lacks what the ledger is sure of.

    `lost`: a target that is gone is made anew, as a person has asked for.
    """
    where = output.place
    epoch, seq = (watermark.epoch, watermark.seq) if watermark else (0, 0)
    if (epoch, seq) == (0, 0) and not output.is_empty():
        raise OutputNotEmpty(
            f"{flow.name}: {where} holds {'batches' if isinstance(flow.output, LakeTable) else 'rows'}, and"
            " the ledger knows nothing of them",
            hint="point `ledger:` at the ledger that wrote them, or bring its watermarks back with `tidegauge"
            " ledger rebuild`; for a fresh start move them away, or leave what it holds behind with"
            " `tidegauge watermark reset`",
        )
    still_there(flow, output, watermark, lost=lost)
    # Also where nothing was committed: asking refuses a ledger that missed the opening of a later epoch.
    if output.receipt(Tag(flow.pipeline, flow.name, epoch, seq + 1)) is not None:
        raise OutputDisagrees(
            f"{flow.name}: {where} holds more batches than the ledger knows ({seq})",
            hint="the ledger is an older copy; bring back the newest one",
        )


def still_there(flow: AnyFlow, output: Output, watermark: Watermark | None, *, lost: bool = False) -> None:
    """Refuse when the output lacks what the ledger is sure of; also while a plan is being walked."""
    where = output.place
    epoch, seq = (watermark.epoch, watermark.seq) if watermark else (0, 0)
    hint = (
        "bring back what is gone, or begin again at the beginning with `tidegauge run --select"
        f" {flow.refresh_name} --full-refresh`"
    )
    if not output.is_open(epoch, kept=not lost):
        raise OutputDisagrees(
            f"{flow.name}: the ledger says that epoch {epoch} was opened, and {where} does not have it",
            hint=hint,
        )
    if seq and output.receipt(Tag(flow.pipeline, flow.name, epoch, seq)) is None:
        raise OutputDisagrees(
            f"{flow.name}: the ledger says batch {seq} was committed, and {where} does not have it",
            hint=hint,
        )
