"""Plan a table without a cursor: each run reads it whole and commits what differs.

The first run, and a run after the columns have changed, writes all rows to the target, cut by key. Other runs
write only the rows that a comparison by key and row hash finds missing or different. A lake gets the whole
table, unless it is equal to the newest copy there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegauge.compare.rows import compare_rows
from tidegauge.errors import ConfigError
from tidegauge.flows.table.repaired_rows import refuse_spark
from tidegauge.flows.verify.table_pair import TablePair
from tidegauge.flows.verify.warehouse import compare_pair
from tidegauge.model.arrow import schema_of
from tidegauge.model.plan import Batch, Draft
from tidegauge.model.position import Window
from tidegauge.model.protocols.output import Output
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Execution, LakeTable, ReadMethod, TableFlow
from tidegauge.model.table import EVERY_ROW, Cut, SourceTable
from tidegauge.model.watermark import Watermark
from tidegauge.outputs.lake.table import lake_files, load_committed
from tidegauge.plan.draft import batch_step, draft_table, is_whole
from tidegauge.sources.direct import DirectReader, direct_reason
from tidegauge.storage.parquet_split import ParquetSplit

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SnapshotPlan:
    draft: Draft
    unlike: pa.Table | None = None
    """The keys of the rows to write, if a comparison has found them; None: not compared."""
    may_have_more: bool = True
    """Whether the target may have rows that the source does not have."""


def plan_snapshot(
    flow: TableFlow,
    source: Source,
    source_table: SourceTable,
    output: Output,
    mark: Watermark | None,
    *,
    refreshing: bool,
) -> SnapshotPlan:
    """Plan the table, by comparison with the output where that is possible. Reads only."""
    if not flow.output.in_lake and flow.options.mode.facts.only_adds:
        raise ConfigError(
            f"{flow.name} has no cursor, and mode append would add a changed row beside what it was before",
            hint="use `mode: merge`, or name its cursor",
            place=flow.options.place,
        )
    if mark is not None and not refreshing and _can_compare(flow, source_table, output, mark):
        if not isinstance(flow.output, LakeTable):
            return _plan_difference(flow, source, source_table, output, mark)
        if _is_like_newest(flow, flow.output, source_table):
            return SnapshotPlan(_add_cost_note(_make_empty_draft(flow, source_table, source, mark), None))
    survey = source.survey_whole(source_table, batch_step(flow))
    made = draft_table(flow, source_table, None, survey)
    # The watermark is the time at which the table was read, so only the last batch may move it.
    batches = [replace(batch, rereads=True) for batch in made.batches[:-1]]
    return SnapshotPlan(
        _add_cost_note(replace(made, batches=(*batches, *made.batches[-1:])), sum_rows(survey.cuts))
    )


def _can_compare(flow: TableFlow, source_table: SourceTable, output: Output, mark: Watermark) -> bool:
    """Whether source and output can be compared here. The output must have batches with the same columns."""
    if not mark.seq or mark.fingerprint != source_table.fingerprint or output.layout() is None:
        return False
    if flow.options.execute is Execution.DATABASE:
        return False  # the merge inside the database compares
    if flow.options.read is ReadMethod.JDBC or direct_reason(source_table, flow.source):
        return False
    # With expectations every row has to be checked again, also rows that have not changed.
    return not flow.options.expect and (flow.output.in_lake or not is_whole(flow))


def sum_rows(cuts: Sequence[Cut]) -> int:
    return sum(cut.rows for cut in cuts)


def _make_empty_draft(flow: TableFlow, source_table: SourceTable, source: Source, mark: Watermark) -> Draft:
    """Make a draft without batches that leaves the watermark where it is. Its `checked` is the time now."""
    made = draft_table(flow, source_table, None, source.survey_whole(source_table, None))
    (part,) = made.inputs
    return replace(made, inputs=(replace(part, window=Window(mark.position, mark.position)),))


def _plan_difference(
    flow: TableFlow, source: Source, source_table: SourceTable, output: Output, mark: Watermark
) -> SnapshotPlan:
    made = _make_empty_draft(flow, source_table, source, mark)
    found = compare_pair(TablePair(flow, source, output, None, refuse_spark), name_all=True)
    moved = found.missing + found.different
    (part,) = made.inputs
    unlike = None
    if moved:
        import pyarrow as pa

        assert found.unlike is not None
        unlike = pa.concat_tables([found.unlike[word] for word in ("missing", "different")])
        window = Window(mark.position, part.checked)
        batch = Batch((window,), rows=moved, repairs=Window(None, part.checked))
        made = replace(made, inputs=(replace(part, window=window),), batches=(batch,))
    return SnapshotPlan(_add_cost_note(made, found.source_rows), unlike, may_have_more=found.extra > 0)


def _add_cost_note(made: Draft, rows: int | None) -> Draft:
    """Add the note that the table is read whole, with its number of rows."""
    note = "no cursor: read whole in each run" + ("" if rows is None else f", {rows:,} rows")
    return replace(made, notes=(*made.notes, note))


def _is_like_newest(flow: TableFlow, table: LakeTable, source_table: SourceTable) -> bool:
    """Whether the newest copy in the lake has exactly the rows that the source has."""
    manifests = load_committed(table.lake, table.folder)
    if not manifests or not source_table.key or manifests[-1].schema != source_table.layout.fields:
        return False
    newest = manifests[-1]
    reader, layout = DirectReader(flow.source), source_table.layout
    whole = reader.batch_data(source_table, Batch((Window(None, EVERY_ROW),)))

    def here() -> Iterator[pa.RecordBatch]:
        for split in whole.splits:
            yield from split.batches()

    def there() -> Iterator[pa.RecordBatch]:
        for file in lake_files(table.lake, table.folder, [newest]):
            yield from ParquetSplit(file, layout).batches()

    return compare_rows(here(), there(), schema_of(layout), key=layout.key).equal
