"""Plan a repair: a batch for rows that are missing or different, and one for rows that are too many."""

from __future__ import annotations

from dataclasses import dataclass

from tidegauge.compare.frames import Difference
from tidegauge.errors import ConfigError, NotCompared
from tidegauge.flows.agreement import check_agreement
from tidegauge.flows.flow import Flow, PlannedWork
from tidegauge.flows.table.base import TableFlowBase
from tidegauge.flows.table.repaired_rows import refuse_spark
from tidegauge.flows.verify.lost_columns import mark_lost_columns
from tidegauge.flows.verify.table_pair import TablePair
from tidegauge.flows.verify.warehouse import compare_pair
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import RowPosition, Window
from tidegauge.model.spec import ReadMethod
from tidegauge.plan.draft import is_whole
from tidegauge.sources.direct import direct_reason
from tidegauge.spark.on_demand import are_few


@dataclass(frozen=True)
class RepairComparison:
    """What a comparison found, and the watermark at that time."""

    difference: Difference
    position: RowPosition | None
    """The position up to which the source was compared."""
    seen: tuple[int, int]
    """Epoch and batch of the flow's watermark."""


def compare_for_repair(flow: TableFlowBase) -> RepairComparison:
    """Compare source and target. Raises ConfigError if there is no repair for the flow, NotCompared if it has
    not run yet."""
    spec, mark = flow.spec, flow.mark
    check_repairable(flow)
    compared = flow.find_compared({one.flow: one for one in (flow.mark, flow.upstream) if one is not None})
    if mark is None or compared is None or not (compared.seq or isinstance(compared.position, RowPosition)):
        raise NotCompared(
            f"{spec.name} has no watermark yet, so there is nothing to repair", hint="run it first"
        )
    position = compared.position
    assert position is None or isinstance(position, RowPosition)
    pair = TablePair(spec, flow.source(), flow.output, position, refuse_spark)
    if spec.options.read is ReadMethod.JDBC or direct_reason(pair.source_table, spec.source):
        refuse_spark()
    found = mark_lost_columns(pair, compare_pair(pair, name_all=False), known=compared.fingerprint)
    return RepairComparison(found, position, (mark.epoch, mark.seq))


def check_repairable(flow: TableFlowBase) -> None:
    """Raise ConfigError if the flow cannot be repaired key by key."""
    spec = flow.spec
    hint = f"`tidegauge backfill -t {spec.table}` reads a window again"
    if spec.output.in_lake:
        raise ConfigError(f"{spec.name} ends in a lake, whose files are never changed", hint=hint)
    if spec.uses_delta:
        raise ConfigError(f"{spec.name} ends in a Delta table, which is not repaired key by key", hint=hint)
    if is_whole(spec) or spec.options.snapshot:
        raise ConfigError(
            f"{spec.name}: each of its runs looks at the whole table, not at a window,"
            " so there is none to repair",
            hint=f"`tidegauge run -t {spec.table}`",
        )


def plan_repair(flow: Flow, *, shown: dict[str, RepairComparison], deletes: bool) -> PlannedWork:
    """Plan the repair of one flow. `deletes`: also delete rows that the source does not have.

    `shown`: by flow, the differences that a person has agreed to repair. They are compared again if a batch
    has been committed since.
    """
    assert isinstance(flow, TableFlowBase)
    mark = flow.mark
    assert mark is not None
    check_agreement(flow.spec, flow.output, mark)
    unlike = shown[flow.spec.name]
    if unlike.seen != (mark.epoch, mark.seq):
        unlike = compare_for_repair(flow)
    found = unlike.difference
    stays, compared = Window(mark.position, mark.position), Window(None, unlike.position)
    batches = []
    if moved := found.missing + found.different:
        batches.append(Batch((stays,), rows=moved, rereads=True, repairs=compared))
    if deletes and found.extra:
        batches.append(Batch((stays,), rows=found.extra, rereads=True, deletes=True, repairs=compared))
    part = InputPlan(
        input=mark.input,
        cursor=mark.cursor,
        window=stays if batches else None,
        source_id=mark.source_id or "",
        fingerprint=mark.fingerprint or "",
        pending=mark.pending,
    )
    spec = flow.spec
    draft = Draft(spec.pipeline, spec.name, (part,), tuple(batches), seen=(mark.epoch, mark.seq))
    return PlannedWork(draft, flow.read_repair, by_spark=not are_few(moved))
