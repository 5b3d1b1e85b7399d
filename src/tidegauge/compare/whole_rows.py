"""Compare two frames that have no key: each row has to be there as often on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.compare.digest import digest_row
from tidegauge.compare.frames import SHOWN, Difference
from tidegauge.compare.match import ColumnPairs, total

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WIDTH = 200
"""Characters of a row that is shown as an example."""
_SIDE, _HASH = "side", "h"


def compare_whole(
    source: DataFrame, target: DataFrame, *, lacking: bool = False, only_missing: bool = False
) -> Difference:
    """Compare tables without a key by how often each row is there. `only_missing`: ignore extra rows."""
    from pyspark.sql import functions as F  # noqa: N812

    match = ColumnPairs(source, target, None, lacking=lacking)
    here, there = match.source(), match.target()
    row = [F.col(name) for name in match.names]
    sides = [
        frame.select(
            digest_row(list(zip(row, match.types, strict=True))).alias(_HASH), F.lit(side).alias(_SIDE), *row
        )
        for side, frame in (("s", here), ("t", there))
    ]
    union = sides[0].unionAll(sides[1])
    counted = union.groupBy(_HASH).agg(
        F.count_if(F.col(_SIDE) == "s").alias("ns"), F.count_if(F.col(_SIDE) == "t").alias("nt")
    )
    [counts] = counted.agg(
        total("ns").alias("source"),
        total("nt").alias("target"),
        total("greatest(ns - nt, 0)").alias("missing"),
        total("greatest(nt - ns, 0)").alias("extra"),
    ).collect()
    extra = 0 if only_missing else counts["extra"]
    examples: list[tuple[str, str]] = []
    if counts["missing"] or extra:
        wrong = counted.where("ns > nt" if only_missing else "ns <> nt").limit(SHOWN)
        body = F.struct(*(column.alias(name) for column, name in zip(row, match.shown, strict=True)))
        text = F.first(F.substring(F.to_json(body, {"ignoreNullFields": "false"}), 1, _WIDTH)).alias("row")
        found = union.join(wrong, _HASH).groupBy(_HASH, "ns", "nt").agg(text)
        examples = [("missing" if one["ns"] > one["nt"] else "extra", one["row"]) for one in found.collect()]
    return Difference(
        counts["source"], counts["target"], counts["missing"], extra, 0, tuple(sorted(examples))
    )


def differing_groups(
    sources: Sequence[DataFrame], target: DataFrame, *, by: Sequence[str], lacking: bool = False
) -> tuple[int, tuple[str, ...]]:
    """How many values of `by` have rows in the target that are not those of any of the sources, and up to
    `SHOWN` of these values as text."""
    from pyspark.sql import functions as F  # noqa: N812

    parts: list[DataFrame] = []
    keys = [f"k{at}" for at in range(len(by))]
    for side, source in enumerate(sources):
        match = ColumnPairs(source, target, None, lacking=lacking)
        frames = [(side, match.source())] + ([(-1, match.target())] if side == 0 else [])
        row = list(zip([F.col(name) for name in match.names], match.types, strict=True))
        for number, frame in frames:
            held = [F.col(match.inner(name)).alias(key) for name, key in zip(by, keys, strict=True)]
            parts.append(frame.select(*held, digest_row(row).alias(_HASH), F.lit(number).alias(_SIDE)))
    union = reduce(lambda one, other: one.unionAll(other), parts)

    def state(side: int) -> list[Column]:
        mine = F.col(_SIDE) == side
        whole = F.sum(F.when(mine, F.col(_HASH).cast("decimal(38,0)")))
        return [F.count_if(mine).alias(f"n{side + 1}"), whole.alias(f"h{side + 1}")]

    states = union.groupBy(*keys).agg(*(one for side in range(-1, len(sources)) for one in state(side)))
    same = [f"(n{at} = n0 AND h{at} <=> h0)" for at in range(1, len(sources) + 1)]
    wrong = states.where(f"NOT ({' OR '.join(same)})")
    count = wrong.count()
    texts = [F.coalesce(F.col(name).cast("string"), F.lit("NULL")) for name in keys]
    shown = wrong.select(F.concat_ws(", ", *texts).alias("key")).limit(SHOWN).collect() if count else []
    return count, tuple(sorted(row["key"] for row in shown))
