"""Compare two frames key by key. Counts first, then a hash of each row; a difference names its keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SHOWN = 20


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
    """What is wrong (`missing`, `extra`, `different`) and the key as text."""

    @property
    def equal(self) -> bool:
        return not (self.missing or self.extra or self.different)


def compare(source: DataFrame, target: DataFrame, *, key: Sequence[str], leave_out: DataFrame) -> Difference:
    """Full comparison in one pass; keys in `leave_out` count on neither side."""
    from pyspark.sql import functions as F  # noqa: N812

    names = [name for name in source.columns if name in target.columns]

    def hashed(frame: DataFrame, side: str) -> DataFrame:
        keys = [F.col(_quoted(name)).alias(f"k{place}") for place, name in enumerate(key)]
        return frame.select(*keys, F.xxhash64(*(F.col(_quoted(name)) for name in names)).alias(side))

    on = [f"k{place}" for place in range(len(key))]
    waiting = leave_out.toDF(*on)
    joined = hashed(source, "s").join(hashed(target, "t"), on, "full_outer").join(waiting, on, "left_anti")
    verdict = (
        F.when(F.col("t").isNull(), "missing")
        .when(F.col("s").isNull(), "extra")
        .when(F.col("s") != F.col("t"), "different")
    )
    judged = joined.withColumn("verdict", verdict).persist()
    try:
        [counts] = judged.agg(
            F.count("s").alias("source"),
            F.count("t").alias("target"),
            *(_count(F.col("verdict") == word).alias(word) for word in ("missing", "extra", "different")),
        ).collect()
        bad = counts.missing + counts.extra + counts.different
        text = F.concat_ws(", ", *(F.col(name).cast("string") for name in on)).alias("key")
        shown = (
            judged.where("verdict IS NOT NULL").select("verdict", text).limit(SHOWN).collect() if bad else []
        )
    finally:
        judged.unpersist()
    return Difference(
        counts.source,
        counts.target,
        counts.missing,
        counts.extra,
        counts.different,
        tuple((row.verdict, row.key) for row in shown),
    )


def _count(condition: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.count(F.when(condition, 1))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
