"""A split of a DuckDB table, which DuckDB itself gives as Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.model.spec import Database
from tidegauge.model.table import SourceTable
from tidegauge.sources.direct_types import ColumnWay, finish_batch
from tidegauge.sources.duckdb.file import open_file, translate

if TYPE_CHECKING:
    import pyarrow as pa

_PIECE = 100_000


@dataclass(frozen=True)
class DuckDBSplit:
    """Implements `model.batch_data.Split`. Only a process on this machine can read it."""

    database: Database
    source_table: SourceTable
    ways: tuple[ColumnWay, ...]
    select: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        import duckdb

        with closing(open_file(self.database)) as file:
            try:
                relation = file.connection.sql(self.select)
                # Before DuckDB 1.5 the method has another name.
                stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
                for batch in stream(_PIECE):
                    if batch.num_rows:
                        yield finish_batch(batch, self.source_table, self.ways)
            except duckdb.Error as error:
                raise translate(self.database, error) from error
