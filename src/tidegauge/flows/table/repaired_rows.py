"""The rows that a repair moves: found by a comparison when the batch is written, and read by their keys.

The flow is claimed by then, so nobody else writes to the target between comparison and commit. A retry
compares again, and reads rows as they are then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegauge.compare.blocks.engines import WORDS
from tidegauge.compare.blocks.search import MOST
from tidegauge.compare.blocks.words import HashedColumn
from tidegauge.errors import ConfigError
from tidegauge.flows.verify.table_pair import TablePair
from tidegauge.flows.verify.warehouse import compare_pair
from tidegauge.model.batch_data import BatchRows, Split
from tidegauge.model.canonical import form_of, hash_row
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Window
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import TableFlow
from tidegauge.sources.connections import SourceConnections

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RepairedRows:
    """Reads the rows of a batch that repairs the target."""

    flow: TableFlow
    output: Output
    known: pa.Table | None = None
    """The keys to repair, if planning has found them already. They still hold: the plan keeps others from
    writing to the target."""

    def batch_data(self, batch: Batch) -> BatchRows:
        import pyarrow as pa

        assert batch.repairs is not None
        position = batch.repairs.upto
        assert position is None or isinstance(position, RowPosition)
        with SourceConnections() as sources:  # this thread's own: another thread may have planned
            source = sources.of(self.flow.source)
            pair = TablePair(self.flow, source, self.output, position, refuse_spark)
            if self.known is not None:
                return read_keys(pair, self.known)
            found = compare_pair(pair, name_all=True).unlike or {}
        return read_keys(pair, pa.concat_tables([found[word] for word in ("missing", "different") if found]))


def read_keys(pair: TablePair, keys: pa.Table) -> BatchRows:
    """Read the rows that have these keys now, up to the pair's position."""
    condition = _key_condition(pair, keys)
    source_table = replace(pair.source_table, only=condition)
    first = Batch((Window(None, pair.position),), rows=keys.num_rows, creates_output=pair.position is None)
    found = [pair.reader.batch_data(source_table, one) for one in (first, *pair.batches[1:])]
    splits = tuple(KeptRows(split, keys) for one in found for split in one.splits)
    return BatchRows(pair.source_table.layout, keys.num_rows, splits=splits)


@dataclass(frozen=True)
class KeptRows:
    """A `Split` that keeps, of another split's rows, those with one of the keys."""

    split: Split
    keys: pa.Table

    def batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        names = self.keys.column_names
        wanted = {tuple(key.values()) for key in self.keys.to_pylist()}
        for batch in self.split.batches():
            rows = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
            yield batch.filter(pa.array([row in wanted for row in rows], pa.bool_()))


def _key_condition(pair: TablePair, keys: pa.Table) -> str:
    """The source's SQL that is true for rows with these keys, and maybe for others. Empty: read all rows."""
    if not keys.num_rows:
        return "1 = 0"
    words = WORDS.get(pair.flow.source.engine)
    if words is None or keys.num_rows > MOST:
        return ""
    columns = {one.name: one for one in pair.source_table.columns}
    hashed: list[HashedColumn] = []
    for name in pair.key:
        column = columns[name]
        form = form_of(column.arrives, column.arrives)
        parsed = column.wire == "string" and column.arrives != "string"
        if form is None or (parsed and not words.in_process):
            return ""
        hashed.append(HashedColumn(column.select, column.wire, form))
    forms = [one.form for one in hashed]
    hashes = sorted(hash_row(forms, list(key.values())) for key in keys.to_pylist())
    return f"{words.hash(hashed)} IN ({', '.join(map(str, hashes))})"


def refuse_spark() -> SparkSession:
    """Stands in for the start of Spark where a comparison must do without it."""
    raise ConfigError(
        "a table that can only be read through JDBC cannot be repaired key by key",
        hint="`tidegauge backfill` reads a window of it again",
    )
