"""Arrow batches as the bytes of PostgreSQL's `COPY … (FORMAT binary)`, whole columns at a time.

A row is the number of its fields, and for each field four bytes of length and the value, high byte first.
Values of the same width in every row (numbers, lengths) are put side by side into one block; Arrow then joins
blocks and texts row by row. Numbers travel in binary, so that no value is rounded in a text form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
_ROWS = 1 << 16
_BYTES = 1 << 26
"""Rows and bytes of one block at most, unless a single row is larger."""
_EPOCH_MICROS = 946_684_800_000_000
_EPOCH_DAYS = 10_957
"""PostgreSQL counts time from 2000-01-01: these are its distance from 1970-01-01."""
_NEGATIVE = 0x4000
_GROUP = 4
"""Decimal digits in one group of a numeric."""


def blocks(batch: pa.RecordBatch, ordinal: int) -> Iterator[memoryview]:
    """The rows, with the ordinal as an int4 before the other fields; header and trailer are the caller's."""
    per_row = max(1, batch.nbytes // max(1, batch.num_rows))
    step = max(1, min(_ROWS, _BYTES // per_row))
    for start in range(0, batch.num_rows, step):
        yield _encode(batch.slice(start, step), ordinal)


def _encode(batch: pa.RecordBatch, ordinal: int) -> memoryview:
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = _Parts(batch.num_rows)
    parts.number(">i2", batch.num_columns + 1)
    parts.number(">i4", 4)
    parts.number(">i4", ordinal)
    for column in batch.columns:
        _add(parts, column)
    pieces = parts.done()
    if len(pieces) == 1:
        return memoryview(pieces[0].buffers()[2])
    joined = pc.binary_join_element_wise(
        *pieces, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
    )
    return memoryview(joined.buffers()[2])


class _Parts:
    """Collects the parts of rows in order: blocks of fixed width, and between them values of any width."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._block: list[tuple[str, Any]] = []
        self._pieces: list[pa.Array] = []

    def number(self, form: str, values: np.ndarray[Any, Any] | int) -> None:
        self._block.append((form, values))

    def any_width(self, values: pa.Array) -> None:
        self._close()
        self._pieces.append(values)

    def done(self) -> list[pa.Array]:
        self._close()
        return self._pieces

    def _close(self) -> None:
        import numpy as np

        if not self._block:
            return
        names = [f"f{place}" for place in range(len(self._block))]
        block = np.empty(
            self._rows, np.dtype(list(zip(names, (form for form, _ in self._block), strict=True)))
        )
        for name, (_, values) in zip(names, self._block, strict=True):
            block[name] = values
        self._block = []
        self._pieces.append(_binary(block, None))


def _add(parts: _Parts, column: pa.Array) -> None:
    import numpy as np
    import pyarrow as pa

    valid = column.is_valid() if column.null_count else None
    there = None if valid is None else valid.to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        offsets = np.frombuffer(column.buffers()[1], np.int32)[
            column.offset : column.offset + len(column) + 1
        ]
        lengths = np.diff(offsets)
        parts.number(">i4", lengths if there is None else np.where(there, lengths, -1))
        parts.any_width(column.cast(pa.binary()))
        return
    fields = _fields(column)
    width = sum(np.dtype(form).itemsize for form, _ in fields)
    if there is None or valid is None:
        parts.number(">i4", width)
        for form, values in fields:
            parts.number(form, values)
        return
    parts.number(">i4", np.where(there, np.int32(width), np.int32(-1)))
    names = [f"f{place}" for place in range(len(fields))]
    block = np.empty(len(column), np.dtype(list(zip(names, (form for form, _ in fields), strict=True))))
    for name, (_, values) in zip(names, fields, strict=True):
        block[name] = values
    parts.any_width(_binary(block, valid.buffers()[1]))


def _binary(block: np.ndarray[Any, Any], validity: pa.Buffer | None) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    offsets = np.arange(0, (len(block) + 1) * block.itemsize, block.itemsize, dtype=np.int32)
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(block.view(np.uint8))]
    return pa.Array.from_buffers(pa.binary(), len(block), buffers)


def _fields(column: pa.Array) -> list[tuple[str, Any]]:
    """The numbers that make up a value of fixed width, each with its NumPy type; under a NULL they can be
    anything."""
    import numpy as np
    import pyarrow as pa

    kind = column.type
    if pa.types.is_boolean(kind):
        return [("u1", column.fill_null(False).cast(pa.uint8()).to_numpy())]
    if pa.types.is_decimal128(kind):
        words = _values(column, np.dtype("<u8"), 2).reshape(-1, 2)
        return _numeric(words, kind.precision, kind.scale)
    if pa.types.is_int8(kind):
        return [(">i2", _values(column, np.dtype("i1")))]
    if pa.types.is_date32(kind):
        return [(">i4", _values(column, np.dtype("<i4")) - _EPOCH_DAYS)]
    if pa.types.is_timestamp(kind):
        return [(">i8", _values(column, np.dtype("<i8")) - _EPOCH_MICROS)]
    if pa.types.is_floating(kind):
        # The bits are copied: nothing is computed, so that nothing is rounded and no NaN becomes another.
        size = kind.bit_width // 8
        return [(f">u{size}", _values(column, np.dtype(f"<u{size}")))]
    plain = np.dtype(kind.to_pandas_dtype())
    return [(plain.newbyteorder(">").str, _values(column, plain))]


def _values(column: pa.Array, form: np.dtype[Any], words: int = 1) -> np.ndarray[Any, Any]:
    import numpy as np

    first = column.offset * words
    return np.frombuffer(column.buffers()[1], form)[first : first + len(column) * words]


def _numeric(words: np.ndarray[Any, Any], precision: int, scale: int) -> list[tuple[str, Any]]:
    """The parts of a numeric: its header, and always all groups of four digits that the type may need. The
    server strips zeros by itself."""
    import numpy as np

    low, high = words[:, 0], words[:, 1]
    negative = high >> np.uint64(63) != 0
    whole = -(-(precision - scale) // _GROUP)
    fraction = -(-scale // _GROUP)
    odd = scale % _GROUP or _GROUP
    divisors = [10**odd if group == 0 and fraction else 10**_GROUP for group in range(whole + fraction)]
    if precision <= 18 or bool(np.all(high == (low.view(np.int64) >> 63).view(np.uint64))):
        groups = _divide(np.where(negative, ~low + np.uint64(1), low), divisors)
    else:
        groups = _divide_wide(low, high, negative, divisors)
    if fraction and odd != _GROUP:
        groups[0] = groups[0] * 10 ** (_GROUP - odd)
    head: list[tuple[str, Any]] = [
        (">i2", len(groups)),
        (">i2", whole - 1),
        (">u2", np.where(negative, np.uint16(_NEGATIVE), np.uint16(0))),
        (">i2", scale),
    ]
    return head + [(">i2", group) for group in reversed(groups)]


def _divide(value: np.ndarray[Any, Any], divisors: list[int]) -> list[Any]:
    """The remainders by each divisor in turn, lowest first."""
    import numpy as np

    groups = []
    for divisor in divisors:
        rest = value // np.uint64(divisor)
        groups.append((value - rest * np.uint64(divisor)).astype(np.int32))
        value = rest
    return groups


def _divide_wide(
    low: np.ndarray[Any, Any], high: np.ndarray[Any, Any], negative: np.ndarray[Any, Any], divisors: list[int]
) -> list[Any]:
    """Like `_divide`, for values beyond 64 bits: long division in four parts of 32 bits."""
    import numpy as np

    down = ~low + np.uint64(1)
    borrowed = (low == 0).astype(np.uint64)
    low, high = np.where(negative, down, low), np.where(negative, ~high + borrowed, high)
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    limbs = [high >> half, high & mask, low >> half, low & mask]
    groups = []
    for divisor in divisors:
        by = np.uint64(divisor)
        rest = np.zeros_like(low)
        for place, limb in enumerate(limbs):
            value = (rest << half) | limb
            limbs[place] = value // by
            rest = value - limbs[place] * by
        groups.append(rest.astype(np.int32))
    return groups
