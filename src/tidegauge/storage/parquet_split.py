"""The rows of a committed Parquet file, as Arrow, for whoever loads them on."""

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
            if parquet.metadata.num_rows != self.file.rows:
                raise self._changed_error(
                    f"it has {parquet.metadata.num_rows} rows, and its manifest says {self.file.rows}"
                )
            schema = schema_of(self.layout)
            there = set(parquet.schema_arrow.names)
            names = [name for name in schema.names if name in there]
            for batch in parquet.iter_batches(_ROWS, columns=names):
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
        if lake.on_s3:
            body = open_store(lake).get(self.file.path)
            size = None if body is None else len(body)
            source: pa.BufferReader | Path = pa.BufferReader(body or b"")
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
