"""Arrow batches as the text that MySQL's `LOAD DATA` reads, whole columns at a time; or as rows of an INSERT.

Every value is written so that the server reads the very same one: floats by their shortest exact text,
decimals and times digit for digit, bytes in hexadecimal, and text with a backslash before special characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tidegauge.outputs.warehouse.warehouse import ValueRejected

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'"
_NULL = b"\\N"
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\0", "\\0"))
"""The backslash comes first, because the other replacements add backslashes."""
_ROWS = 1 << 15
_BYTES = 1 << 25
_HEX = b"0123456789abcdef"


def is_hex(kind: pa.DataType) -> bool:
    """Whether a column travels in hexadecimal, which the statement has to turn back into bytes."""
    import pyarrow as pa

    return bool(pa.types.is_binary(kind))


def blocks(batch: pa.RecordBatch, ordinal: int, key: Sequence[str]) -> Iterator[memoryview]:
    """The rows as text for LOAD DATA, with the ordinal before the other fields."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for part in _cut(batch):
        columns = [
            _text(column, name, part, key)
            for name, column in zip(part.schema.names, part.columns, strict=True)
        ]
        columns = [pc.fill_null(column, _NULL) if column.null_count else column for column in columns]
        first = pa.repeat(pa.scalar(str(ordinal).encode(), pa.binary()), part.num_rows)
        tab, end = pa.scalar(b"\t", pa.binary()), pa.repeat(pa.scalar(b"\n", pa.binary()), part.num_rows)
        joined = pc.binary_join_element_wise(first, *columns, tab)
        yield memoryview(pc.binary_join_element_wise(joined, end, pa.scalar(b"", pa.binary())).buffers()[2])


def tuples(batch: pa.RecordBatch, ordinal: int, key: Sequence[str]) -> Iterator[bytes]:
    """Each row as `(0,17,'…')`, for servers that do not take LOAD DATA from their clients."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def quoted(column: pa.Array, before: bytes) -> pa.Array:
        many = [pa.repeat(pa.scalar(word, pa.binary()), len(column)) for word in (before, b"'")]
        return pc.binary_join_element_wise(many[0], column, many[1], pa.scalar(b"", pa.binary()))

    for part in _cut(batch):
        columns = []
        for name, column in zip(part.schema.names, part.columns, strict=True):
            if pa.types.is_string(column.type):
                text = quoted(_hex(column.cast(pa.binary())), b"_utf8mb4 X'")
            else:
                text = _text(column, name, part, key)
                if is_hex(column.type):
                    text = quoted(text, b"X'")
                elif pa.types.is_temporal(column.type):
                    text = quoted(text, b"'")
            columns.append(pc.fill_null(text, b"NULL") if text.null_count else text)
        first = pa.repeat(pa.scalar(b"(%d" % ordinal, pa.binary()), part.num_rows)
        joined = pc.binary_join_element_wise(first, *columns, pa.scalar(b",", pa.binary()))
        for row in joined:
            yield row.as_py() + b")"


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    per_row = max(1, batch.nbytes // max(1, batch.num_rows))
    step = max(1, min(_ROWS, _BYTES // per_row))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _text(column: pa.Array, name: str, batch: pa.RecordBatch, key: Sequence[str]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.uint8()).cast(pa.string()).cast(pa.binary())
    if pa.types.is_floating(kind):
        odd = pc.index(pc.fill_null(pc.is_finite(column), True), False).as_py()
        if odd >= 0:
            which = ", ".join(f"{part} = {batch.column(part)[odd].as_py()}" for part in key)
            raise ValueRejected(
                f"column {name} of the row with {which or 'no key'} is {column[odd].as_py()}, which MySQL's"
                " numbers never are",
                hint="mend the row at the source, or read the column as `string` with `types:`",
            )
        # Read as a double, a float's shortest text is another number, which may even be beyond all floats.
        column = column.cast(pa.float64())
    if is_hex(kind):
        return _hex(column)
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us"))  # The same moment in UTC, written without the letter Z.
    text = column.cast(pa.string())
    if pa.types.is_string(kind):
        text = _escape(text)
    return text.cast(pa.binary())


def _escape(column: pa.Array) -> pa.Array:
    """Escape special characters. Looks at the bytes first: most columns hold nothing to escape."""
    import numpy as np
    import pyarrow.compute as pc

    _, ends, data = column.buffers()
    if data is None or not len(column):
        return column
    offsets = np.frombuffer(ends, np.int32)
    first, last = offsets[column.offset], offsets[column.offset + len(column)]
    found = np.bincount(np.frombuffer(data, np.uint8)[first:last], minlength=256)
    for char, word in _ESCAPES:
        if found[ord(char)]:
            column = pc.replace_substring(column, char, word)
    return column


def _hex(column: pa.Array) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    validity, ends, data = column.buffers()
    offsets = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    digits = np.frombuffer(_HEX, np.uint8)
    raw = (
        np.frombuffer(data, np.uint8)[first:last]
        if data is not None and last > first
        else np.empty(0, np.uint8)
    )
    pairs = np.empty((len(raw), 2), np.uint8)
    pairs[:, 0] = digits[raw >> 4]
    pairs[:, 1] = digits[raw & 15]
    valid = column.is_valid().buffers()[1] if validity is not None and column.null_count else None
    doubled = ((offsets - first) * 2).astype(np.int32)
    buffers = [valid, pa.py_buffer(doubled), pa.py_buffer(pairs.reshape(-1))]
    return pa.Array.from_buffers(pa.binary(), len(column), buffers)
