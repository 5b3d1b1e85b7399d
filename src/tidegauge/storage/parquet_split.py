"""The rows of a committed Parquet file of a lake, as Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import LakeFile
from tidegauge.model.table import Layout
from tidegauge.storage.store import open_store

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_ROWS = 65_536


@dataclass(frozen=True)
class ParquetSplit:
    """Implements `model.batch_data.Split`. Columns that the file does not have are NULL."""

    file: LakeFile
    layout: Layout

    def batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with self._open() as parquet:
            first, rows, there_are = self.file.first, self.file.rows, parquet.metadata.num_rows
            if there_are < first + rows if first is not None else there_are != rows:
                raise self._changed_error(f"it has {there_are} rows, and its manifest says {rows}")
            schema = schema_of(self.layout)
            there = set(parquet.schema_arrow.names)
            names = [name for name in schema.names if name in there]
            for batch in _pick_rows(parquet, names, first or 0, rows):
                arrays = [
                    batch.column(field.name).cast(field.type)
                    if field.name in there
                    else pa.nulls(batch.num_rows, field.type)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _open(self) -> pq.ParquetFile:
        import pyarrow as pa
        import pyarrow.parquet as pq

        lake = self.file.lake
        source: pa.NativeFile | Path
        if lake.on_s3 and self.file.first is not None:
            # A small part of a large file: fetch only what is read.
            ranged = open_store(lake).open_ranged(self.file.path)  # type: ignore[attr-defined]
            size = None if ranged is None else ranged.size
            source = pa.PythonFile(ranged, mode="r") if ranged else pa.BufferReader(b"")
        elif lake.on_s3:
            body = open_store(lake).get(self.file.path)
            size = None if body is None else len(body)
            source = pa.BufferReader(body or b"")
        else:
            source = Path(lake.path, self.file.path)
            size = source.stat().st_size if source.is_file() else None
        if size is None:
            raise self._changed_error("it is gone")
        if size != self.file.bytes:
            raise self._changed_error(f"it has {size} bytes, and its manifest says {self.file.bytes}")
        try:
            return pq.ParquetFile(source)
        except pa.ArrowException as error:
            raise self._changed_error("it is not a Parquet file any more") from error

    def _changed_error(self, why: str) -> OutputDisagrees:
        return OutputDisagrees(
            f"{self.file.lake.path}/{self.file.path} was changed after it was committed: {why}",
            hint="put the file back from a backup; or extract again with `tidegauge watermark reset`",
        )


def _pick_rows(parquet: pq.ParquetFile, names: list[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
    """`count` rows from the row `first` on. Only row groups that hold some of them are read."""
    groups: list[int] = []
    begins = start = 0
    for number in range(parquet.metadata.num_row_groups):
        ends = begins + parquet.metadata.row_group(number).num_rows
        if begins < first + count and ends > first:
            start = begins if not groups else start
            groups.append(number)
        begins = ends
    skip = first - start
    for batch in parquet.iter_batches(_ROWS, row_groups=groups, columns=names):
        part = batch.slice(skip, count)
        skip = max(0, skip - batch.num_rows)
        count -= part.num_rows
        if part.num_rows:
            yield part
