"""Find the keys that the source no longer has, by comparing the whole sets of keys of both sides.

A key that is in the target and not in the source was deleted at the source, if two things hold that the
caller has to ensure: nobody writes to the target meanwhile, and the source's keys are read in one statement.
Keys that only the source has belong to rows that the next run brings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegauge.compare.scratch import fill, restore, scratch
from tidegauge.errors import MassDelete

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_ONCE = 50_000


@dataclass(frozen=True)
class DeletedKeys:
    """Keys of the target that the source does not have. Usable as a split (`model.batch_data`)."""

    keys: pa.Table
    source_rows: int
    target_rows: int

    @property
    def count(self) -> int:
        return int(self.keys.num_rows)

    def add_moment(self, name: str, moment: pa.Scalar) -> DeletedKeys:
        """The same keys with one more column, which holds `moment` in every row."""
        import pyarrow as pa

        return replace(self, keys=self.keys.append_column(name, pa.repeat(moment, self.count)))

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.keys.to_batches(max_chunksize=_ROWS_AT_ONCE)


def find_deleted_keys(
    source: Iterable[pa.RecordBatch],
    target: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    loose: bool = False,
) -> DeletedKeys:
    """The keys of the target that the source does not have. Both sides have the columns of the schema, in any
    order of rows; other columns are not looked at.

    `loose` is for a target that takes `abc`, `ABC`, `ábc` and `abc ` for one key (MySQL): there a key has
    vanished only if the source has none of its forms either.
    """
    import pyarrow as pa

    names = [f"c{i}" for i in range(len(schema))]
    forms = [
        f"rtrim(lower(strip_accents({name})))" if loose and pa.types.is_string(field.type) else name
        for name, field in zip(names, schema, strict=True)
    ]
    compared = [f"{form} AS k{i}" for i, form in enumerate(forms)]
    using = ", ".join(f"k{i}" for i in range(len(names)))
    with scratch() as sets:
        here = fill(sets, "source", source, schema, values=compared)
        there = fill(sets, "target", target, schema, values=[*names, *compared])
        gone = sets.sql(
            f"SELECT DISTINCT {', '.join(names)} FROM target ANTI JOIN source USING ({using})"
        ).to_arrow_table()
        return DeletedKeys(restore(gone, schema), here, there)


def check_limit(table: str, count: int, target_rows: int, *, limit: float, confirmed: bool) -> None:
    """Raise MassDelete, unless `confirmed`, where more than the share `limit` of the target is gone."""
    if confirmed or not count or count <= limit * target_rows:
        return
    raise MassDelete(
        f"{table}: {count:,} of {target_rows:,} rows ({count / target_rows:.0%}) are gone from the source;"
        f" no more than {limit:.0%} are deleted unasked",
        hint="look whether the source is what it should be; if it is, run again with --confirm-deletes, or"
        " raise `deletes_limit`",
    )
