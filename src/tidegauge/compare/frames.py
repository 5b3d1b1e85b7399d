"""Compare two frames key by key, in one pass: the rows of both sides meet in one aggregate, each
with a hash of its values. The result names keys that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.compare.digest import digest_row
from tidegauge.compare.match import ColumnPairs, as_type, common, field_of, total
from tidegauge.model.types import quote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

SHOWN = 20
_SIDE, _HASH, _ORDER = "side", "h", "q"


@dataclass(frozen=True)
class Difference:
    source_rows: int
    target_rows: int
    missing: int
    """Keys that the source has and the target does not."""
    extra: int
    """Keys that the target has and the source does not: deleted there, or never there."""
    different: int
    examples: tuple[tuple[str, str], ...]
    """What is wrong (`missing`, `extra`, `different`) and the key as text; without a key, the row as text."""
    newer: int | None = 0
    """Rows of the source past the watermark, which the next run brings: no difference. None: not counted."""
    notes: tuple[str, ...] = ()
    """Remarks on the comparison for the user."""
    method: str = field(default="rows", compare=False)
    """`blocks`: both databases hashed their rows themselves; `rows`: the rows came here."""
    why_rows: str | None = field(default=None, compare=False)
    """Why a database's table was not compared by blocks; None where it was, or is no database's."""
    unlike: Mapping[str, pa.Table] | None = field(default=None, compare=False, repr=False)
    """All keys by what is wrong with them (`missing`, `extra`, `different`); None where not asked for."""
    repeated: int = field(default=0, compare=False)
    """How many of the different keys the target has more than once."""
    lost: tuple[str, ...] = ()
    """Columns that the target had and no longer has: every row is wrong in them."""

    @property
    def equal(self) -> bool:
        return not (self.missing or self.extra or self.different or self.lost)


@dataclass(frozen=True)
class KeyExceptions:
    """What else decides whether a key is right. Every frame has at least the key's columns."""

    waiting: DataFrame | None = None
    """Keys of the source's rows past the watermark: they count on neither side."""
    allowed: DataFrame | None = None
    """Rows that the target need not have; if it has them, they have to be as they are here."""
    ended: DataFrame | None = None
    """Keys that the source says are deleted, with the column `sequence`."""
    faults: DataFrame | None = None
    """Keys that are wrong in the target, whatever the source has."""
    instead: Sequence[DataFrame] = ()
    """Other states of the source: a key that is the same as in any of them is right."""


def compare_frames(
    source: DataFrame,
    target: DataFrame,
    *,
    key: Sequence[str],
    beside: KeyExceptions | None = None,
    sequence: str | None = None,
    hashed: Sequence[str] | None = None,
    lacking: bool = False,
    hold: bool = False,
    events: bool = False,
) -> Difference:
    """Compare every key by a hash of the columns that both sides have, or only of those in `hashed`.

    `sequence` orders the versions of a row: a target with a later version than the source is rightly ahead.
    `events`: the source may have many rows of a key, of which the last by `sequence` counts; of several that
    are last, the one that the target has. `lacking`: a column that the target does not have counts as NULL
    there; otherwise it is not compared. `hold`: the source may change while it is read, so it is read only
    once.
    """
    from pyspark.sql import functions as F  # noqa: N812

    more = beside or KeyExceptions()
    match = ColumnPairs(source, target, hashed, lacking=lacking)
    sides = _Sides(match, key, sequence, events=events)
    union = sides.union(source, target, more)
    judged = sides.judge(union, more)
    if hold:
        judged = judged.persist()
    try:
        [counts] = judged.agg(
            total("CASE WHEN nw = 0 THEN ns + CASE WHEN nt > 0 THEN na ELSE 0 END END").alias("source"),
            total("CASE WHEN nw = 0 THEN nt END").alias("target"),
            total("nw").alias("newer"),
            *(F.count_if(F.col("verdict") == word).alias(word) for word in ("missing", "extra", "different")),
        ).collect()
        bad = counts["missing"] + counts["extra"] + counts["different"]
        texts = [F.coalesce(F.col(name).cast("string"), F.lit("NULL")) for name in sides.keys]
        wrong = judged.where("verdict IS NOT NULL").select("verdict", F.concat_ws(", ", *texts).alias("key"))
        shown = wrong.limit(SHOWN).collect() if bad else []
    finally:
        if hold:
            judged.unpersist()
    return Difference(
        counts["source"],
        counts["target"],
        counts["missing"],
        counts["extra"],
        counts["different"],
        tuple(sorted((row["verdict"], row["key"]) for row in shown)),
        newer=counts["newer"],
    )


class _Sides:
    """Rows of every side in one form: the key, a hash, the sequence value, and whose they are."""

    def __init__(self, match: ColumnPairs, key: Sequence[str], sequence: str | None, *, events: bool) -> None:
        self._match, self._key, self._sequence, self._events = match, key, sequence, events
        self.keys = [f"k{at}" for at in range(len(key))]

    def union(self, source: DataFrame, target: DataFrame, beside: KeyExceptions) -> DataFrame:
        types = self._types(source, target)
        parts = [self._rows(source, "s", types), self._rows(target, "t", types)]
        plain = (("w", beside.waiting), ("e", beside.ended), ("f", beside.faults))
        parts += [self._rows(frame, side, types, bare=True) for side, frame in plain if frame is not None]
        if beside.allowed is not None:
            parts.append(self._rows(beside.allowed, "a", types))
        parts += [self._rows(frame, f"i{at}", types) for at, frame in enumerate(beside.instead)]
        return reduce(lambda one, other: one.unionAll(other), parts)

    def judge(self, union: DataFrame, beside: KeyExceptions) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        instead = range(len(beside.instead))
        sides = ["s", "t", "w", "e", "f", "a", *(f"i{at}" for at in instead)]

        def greatest(column: str, *of: str) -> Column:
            return F.max(F.when(F.col(_SIDE).isin(*of), F.col(column)))

        if self._events:
            union = self._keep_last(union)
        grouped = union.groupBy(*self.keys).agg(
            *(F.count_if(F.col(_SIDE) == side).alias(f"n{side}") for side in sides),
            greatest(_HASH, "s", "a").alias("hs"),
            greatest(_HASH, "t").alias("ht"),
            *(greatest(_HASH, f"i{at}").alias(f"hi{at}") for at in instead),
            greatest(_ORDER, "s", "a", "e").alias("qs"),
            greatest(_ORDER, "t").alias("qt"),
        )
        later = "coalesce(qt > qs, false)" if self._sequence else "false"
        ahead = "(qt IS NOT NULL AND (qs IS NULL OR qt > qs))" if self._sequence else "false"
        as_another = " OR ".join(f"(ni{at} = nt AND nt <= 1 AND hi{at} <=> ht)" for at in instead) or "false"
        return grouped.withColumn(
            "verdict",
            F.expr(
                f"""
                CASE WHEN nw > 0 THEN NULL
                     WHEN nf > 0 THEN 'different'
                     WHEN {as_another} THEN NULL
                     WHEN nt = 0 AND ns > 0 THEN 'missing'
                     WHEN nt > 0 AND ns + na = 0 THEN CASE WHEN ne > 0 AND {later} THEN NULL ELSE 'extra' END
                     WHEN nt > 1 OR ns + na > 1 THEN CASE WHEN nt > 0 THEN 'different' END
                     WHEN nt > 0 AND hs <> ht AND NOT {ahead} THEN 'different' END
                """
            ),
        )

    def _keep_last(self, union: DataFrame) -> DataFrame:
        """Keep, on every side but the target, only the last row of each key; of several that are last, the
        one that the target has, if any."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812

        by_key = Window.partitionBy(*self.keys)
        there = F.collect_set(F.when(F.col(_SIDE) == "t", F.col(_HASH))).over(by_key)
        last_first = [
            F.col(_ORDER).desc_nulls_last(),
            F.array_contains("there", F.col(_HASH)).desc(),
            F.col(_HASH),
        ]
        place = F.row_number().over(Window.partitionBy(*self.keys, _SIDE).orderBy(*last_first))
        ordered = union.withColumn("there", there).withColumn("place", place)
        return ordered.where("side = 't' OR place = 1").drop("there", "place")

    def _types(self, source: DataFrame, target: DataFrame) -> Mapping[str, DataType]:
        names = [*self._key, *([self._sequence] if self._sequence else [])]
        return {name: common(field_of(source, name), field_of(target, name)) for name in names}

    def _rows(
        self, frame: DataFrame, side: str, types: Mapping[str, DataType], *, bare: bool = False
    ) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        def held(name: str) -> Column:
            own = field_of(frame, name)
            return as_type(F.col(quote(own.name)), own.dataType, types[name])

        known = {name.casefold() for name in frame.columns}
        order = F.lit(None).cast("bigint")
        if self._sequence is not None:
            there = self._sequence.casefold() in known
            order = held(self._sequence) if there else F.lit(None).cast(types[self._sequence])
        hashed = F.lit(0).cast("bigint") if bare else digest_row(self._match.values(frame))
        keys = [held(name).alias(inner) for name, inner in zip(self._key, self.keys, strict=True)]
        return frame.select(*keys, hashed.alias(_HASH), order.alias(_ORDER), F.lit(side).alias(_SIDE))
