"""Rows of a Snowflake table, as the connector's Arrow: each task runs a statement of its own or, for many
rows, fetches a part of a result that waits at the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tidegauge.errors import SourceUnreachable, TidegaugeError
from tidegauge.model.batch_data import Split
from tidegauge.model.spec import Database
from tidegauge.model.table import SourceTable
from tidegauge.sources.direct_types import ColumnWay, finish_batch
from tidegauge.sources.snowflake.session import connected, translate

if TYPE_CHECKING:
    import pyarrow as pa

_TASKS = 32
"""The most parts of all results together: a result can have thousands of pieces."""


@dataclass(frozen=True)
class SnowflakeSplit:
    """Implements `model.batch_data.Split`. Holds no connection."""

    database: Database
    source_table: SourceTable
    ways: tuple[ColumnWay, ...]
    select: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        with connected(self.database) as connection:
            yield from _read(self.pieces(connection), self.source_table, self.ways)

    def pieces(self, connection: Any) -> list[Any]:
        """Run the statement; its result, in the connector's own pieces, outlives the connection by hours."""
        try:
            cursor = connection.cursor()
            cursor.execute(self.select)
            return cursor.get_result_batches() or []
        except Exception as error:
            raise translate(self.database, error) from error


@dataclass(frozen=True)
class SnowflakePieces:
    """Implements `model.batch_data.Split`: a part of a result. Needs no login: each piece has an address of
    its own, which is as good as a password and is never shown."""

    source_table: SourceTable
    ways: tuple[ColumnWay, ...]
    pieces: tuple[Any, ...] = field(repr=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from _read(self.pieces, self.source_table, self.ways)


def spread(splits: tuple[Split, ...]) -> tuple[Split, ...]:
    made: list[Split] = []
    for split in splits:
        assert isinstance(split, SnowflakeSplit)
        with connected(split.database) as connection:
            pieces = split.pieces(connection)
        made += [
            SnowflakePieces(split.source_table, split.ways, part)
            for part in _deal(pieces, max(1, _TASKS // len(splits)))
        ]
    return tuple(made)


def _deal(pieces: Sequence[Any], parts: int) -> list[tuple[Any, ...]]:
    """Cut the pieces into up to `parts` parts; neighbours stay together."""
    count = max(1, min(parts, len(pieces)))
    edges = [len(pieces) * number // count for number in range(count + 1)]
    return [tuple(pieces[start:end]) for start, end in pairwise(edges)]


def _read(
    pieces: Sequence[Any], source_table: SourceTable, ways: tuple[ColumnWay, ...]
) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        try:
            table = piece.to_arrow()
        except TidegaugeError:
            raise
        except Exception as error:
            # Without the error's text, which may hold the address of the piece.
            raise SourceUnreachable(
                f"{source_table.table}: a part of the result could not be fetched from Snowflake"
                f" ({type(error).__name__})",
                hint="run again: the same window is read once more",
            ) from None
        if table is None or not table.num_rows:
            continue
        for batch in table.combine_chunks().to_batches():
            yield finish_batch(batch, source_table, ways)
