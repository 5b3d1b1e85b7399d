"""The footer of a Parquet file in a store: its rows and its schema, from the file's end alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees
from tidegauge.storage.store import Store

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_MOST = 64 * 1024
"""Bytes that are read at first: most footers are shorter."""


def read_footer(store: Store, path: str, size: int) -> pq.FileMetaData:
    """The footer of a file of so many bytes. Raises OutputDisagrees where it is no whole Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        tail = store.tail(path, _MOST)
        needed = int.from_bytes(tail[-8:-4], "little") + 8
        if len(tail) < needed <= size:
            tail = store.tail(path, needed)
        return pq.read_metadata(pa.BufferReader(tail))
    except pa.ArrowException as error:
        raise OutputDisagrees(
            f"{store.place}/{path} is not a whole Parquet file",
            hint="somebody changed it, or the disk did; if no batch has it yet, run again to write it anew",
        ) from error
