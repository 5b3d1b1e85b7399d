"""Compare two frames key by key, or as a whole. One pass: the rows of both sides meet in one aggregate, each
with a hash of its values; a difference names its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.maintain.digest import digest_row

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField

SHOWN = 20
_WIDTH = 200
"""Characters of a row that is shown as an example."""
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
    """What is wrong (`missing`, `extra`, `different`) and the key as text; of a table without one the row."""
    newer: int | None = 0
    """Rows that the source has past the watermark: the next run's, and no difference. None: not counted."""
    notes: tuple[str, ...] = ()
    """What a person should know of the comparison."""

    @property
    def equal(self) -> bool:
        return not (self.missing or self.extra or self.different)


@dataclass(frozen=True)
class Beside:
    """What else has a say in whether a key is as it should be. Frames have the key's columns at least."""

    waiting: DataFrame | None = None
    """Keys of the source's rows past the watermark: they count on neither side."""
    allowed: DataFrame | None = None
    """Rows that the target may have or not, but if it does, as they are here."""
    ended: DataFrame | None = None
    """Keys that the source says are deleted, with the column `sequence`."""
    faults: DataFrame | None = None
    """Keys with which something is wrong in the target, whatever the source has."""
    instead: Sequence[DataFrame] = ()
    """Other states of the source: a key that is as any of them has it is as it should be."""


def compare(
    source: DataFrame,
    target: DataFrame,
    *,
    key: Sequence[str],
    beside: Beside | None = None,
    sequence: str | None = None,
    hashed: Sequence[str] | None = None,
    lacking: bool = False,
    hold: bool = False,
) -> Difference:
    """Every key, with a hash of the columns that both have, or of those in `hashed`.

    `sequence` orders the versions of a row: a target that has a later one than the source is ahead by right.
    `lacking`: a column that the target does not have counts as NULL there, and else not at all. `hold`: the
    source may move while it is read, so that it is read only once.
    """
    from pyspark.sql import functions as F  # noqa: N812

    more = beside or Beside()
    match = _Match(source, target, hashed, lacking=lacking)
    sides = _Sides(match, key, sequence)
    union = sides.union(source, target, more)
    judged = sides.judged(union, more)
    if hold:
        judged = judged.persist()
    try:
        [counts] = judged.agg(
            _sum("CASE WHEN nw = 0 THEN ns + CASE WHEN nt > 0 THEN na ELSE 0 END END").alias("source"),
            _sum("CASE WHEN nw = 0 THEN nt END").alias("target"),
            _sum("nw").alias("newer"),
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


def compare_whole(
    source: DataFrame, target: DataFrame, *, lacking: bool = False, only_missing: bool = False
) -> Difference:
    """Tables without a key: every row, as often as it is there. `only_missing`: the target may have more."""
    from pyspark.sql import functions as F  # noqa: N812

    match = _Match(source, target, None, lacking=lacking)
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
        _sum("ns").alias("source"),
        _sum("nt").alias("target"),
        _sum("greatest(ns - nt, 0)").alias("missing"),
        _sum("greatest(nt - ns, 0)").alias("extra"),
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
    """How many values of `by` hold other rows in the target than in every one of the sources, and a few."""
    from pyspark.sql import functions as F  # noqa: N812

    parts: list[DataFrame] = []
    keys = [f"k{at}" for at in range(len(by))]
    for side, source in enumerate(sources):
        match = _Match(source, target, None, lacking=lacking)
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


class _Match:
    """Which columns of two frames belong together, and as what they are compared."""

    def __init__(
        self, source: DataFrame, target: DataFrame, hashed: Sequence[str] | None, *, lacking: bool
    ) -> None:
        self._frames = source, target
        self._pairs: list[tuple[StructField, StructField | None]] = []
        wanted = None if hashed is None else {name.casefold() for name in hashed}
        for field in source.schema.fields:
            other = _find(target, field.name)
            if (other is not None or lacking) and (wanted is None or field.name.casefold() in wanted):
                self._pairs.append((field, other))
        self.shown = [field.name for field, _ in self._pairs]
        self.names = [f"c{at}" for at in range(len(self._pairs))]
        self.types: list[DataType] = [common(field, other) for field, other in self._pairs]

    def inner(self, name: str) -> str:
        at = next(at for at, one in enumerate(self.shown) if one.casefold() == name.casefold())
        return self.names[at]

    def values(self, frame: DataFrame) -> list[tuple[Column, DataType]]:
        """Of either frame, or of another state of the source."""
        from pyspark.sql import functions as F  # noqa: N812

        made = []
        for (field, other), type_ in zip(self._pairs, self.types, strict=True):
            name = field.name if frame is not self._frames[1] or other is None else other.name
            own = _find(frame, name)
            value = F.lit(None).cast(type_)
            if own is not None:
                value = as_type(F.col(quoted(own.name)), own.dataType, type_)
            made.append((value, type_))
        return made

    def source(self) -> DataFrame:
        return self._named(self._frames[0])

    def target(self) -> DataFrame:
        return self._named(self._frames[1])

    def _named(self, frame: DataFrame) -> DataFrame:
        values = self.values(frame)
        return frame.select(*(value.alias(name) for (value, _), name in zip(values, self.names, strict=True)))


class _Sides:
    """Rows of every side in one form: the key, a hash, the sequence value, and whose they are."""

    def __init__(self, match: _Match, key: Sequence[str], sequence: str | None) -> None:
        self._match, self._key, self._sequence = match, key, sequence
        self.keys = [f"k{at}" for at in range(len(key))]

    def union(self, source: DataFrame, target: DataFrame, beside: Beside) -> DataFrame:
        types = self._types(source, target)
        parts = [self._rows(source, "s", types), self._rows(target, "t", types)]
        plain = (("w", beside.waiting), ("e", beside.ended), ("f", beside.faults))
        parts += [self._rows(frame, side, types, bare=True) for side, frame in plain if frame is not None]
        if beside.allowed is not None:
            parts.append(self._rows(beside.allowed, "a", types))
        parts += [self._rows(frame, f"i{at}", types) for at, frame in enumerate(beside.instead)]
        return reduce(lambda one, other: one.unionAll(other), parts)

    def judged(self, union: DataFrame, beside: Beside) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        instead = range(len(beside.instead))
        sides = ["s", "t", "w", "e", "f", "a", *(f"i{at}" for at in instead)]

        def greatest(column: str, *of: str) -> Column:
            return F.max(F.when(F.col(_SIDE).isin(*of), F.col(column)))

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

    def _types(self, source: DataFrame, target: DataFrame) -> Mapping[str, DataType]:
        names = [*self._key, *([self._sequence] if self._sequence else [])]
        return {name: common(_field(source, name), _field(target, name)) for name in names}

    def _rows(
        self, frame: DataFrame, side: str, types: Mapping[str, DataType], *, bare: bool = False
    ) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        def held(name: str) -> Column:
            own = _field(frame, name)
            return as_type(F.col(quoted(own.name)), own.dataType, types[name])

        known = {name.casefold() for name in frame.columns}
        order = F.lit(None).cast("bigint")
        if self._sequence is not None:
            there = self._sequence.casefold() in known
            order = held(self._sequence) if there else F.lit(None).cast(types[self._sequence])
        hashed = F.lit(0).cast("bigint") if bare else digest_row(self._match.values(frame))
        keys = [held(name).alias(inner) for name, inner in zip(self._key, self.keys, strict=True)]
        return frame.select(*keys, hashed.alias(_HASH), order.alias(_ORDER), F.lit(side).alias(_SIDE))


def common(field: StructField, other: StructField | None) -> DataType:
    """As what two columns are compared: the target's type, which is as wide; a text with others as texts."""
    from pyspark.sql import types as T  # noqa: N812

    if other is None or field.dataType.simpleString() == other.dataType.simpleString():
        return field.dataType
    if isinstance(field.dataType, T.StringType) != isinstance(other.dataType, T.StringType):
        return T.StringType()
    return other.dataType


def as_type(column: Column, type_: DataType, wanted: DataType) -> Column:
    """A value that is none of the wanted type is NULL, which is not what the other side has."""
    return column if type_.simpleString() == wanted.simpleString() else column.try_cast(wanted)


def _field(frame: DataFrame, name: str) -> StructField:
    found = _find(frame, name)
    assert found is not None, name
    return found


def _find(frame: DataFrame, name: str) -> StructField | None:
    fields = frame.schema.fields
    exact = next((field for field in fields if field.name == name), None)
    return exact or next((field for field in fields if field.name.casefold() == name.casefold()), None)


def _sum(expression: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.coalesce(F.expr(f"sum({expression})"), F.lit(0)).cast("bigint")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
