"""Compare two streams of rows key by key, without Spark, by counts and a hash of each row.

It does what `compare.frames` does with frames, for a target that hands out its rows itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from tidegauge.compare.frames import SHOWN, Difference
from tidegauge.compare.scratch import fill, restore, scratch
from tidegauge.errors import OutputDisagrees

if TYPE_CHECKING:
    import pyarrow as pa


def compare_rows(
    source: Iterable[pa.RecordBatch],
    target: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    key: Sequence[str],
    leave_out: Iterable[pa.RecordBatch] = (),
    allowed: Callable[[], Iterable[pa.RecordBatch]] | None = None,
    versions: bool = False,
    name_all: bool = False,
) -> Difference:
    """Compare all columns that both sides have, in any order of rows.

    `schema` is the source's. The target's types may be wider: values are compared, and text with another type
    as text. Keys in `leave_out` count on neither side: they are `newer`. `allowed` are rows that the target
    need not have; if it has them, they have to be the same. They are read only if the target has a key that
    the source does not have. A key that both sides have, and one of them twice, is `different`, unless the
    target keeps all `versions` of a row: then only keys are compared. `name_all`: the result names all keys
    that differ, in `unlike`.
    Raises OutputDisagrees for two columns whose types have nothing in common.
    """
    target, found = _peek(target)
    notes = tuple(
        _describe_retype(field, found) for field in schema if found is not None and _is_retyped(field, found)
    )
    keys, ordered = _choose_columns(schema, found, key, keys_only=versions)
    names = [f"k{i}" for i in range(len(keys))]
    using = ", ".join(names)
    values = [f"c{i} AS {name}" for i, name in enumerate(names)]
    row = _row_hash(ordered, len(keys))
    by_key = f"SELECT {using}, any_value(h) AS h, count(*) AS n FROM {{side}} GROUP BY {using}"
    with scratch() as sets:
        fill(sets, "source", source, ordered, values=[*values, row])
        fill(sets, "target", target, ordered, values=[*values, row])
        if (
            allowed is not None
            and sets.sql(f"FROM target ANTI JOIN source USING ({using}) LIMIT 1").fetchall()
        ):
            fill(sets, "allowed", allowed(), ordered, values=[*values, row])
            sets.execute(f"INSERT INTO source FROM allowed SEMI JOIN target USING ({using})")
        # Read last: a row that left the window during the comparison is among these keys now.
        newer = fill(sets, "waiting", leave_out, keys, values=values)
        sets.execute(
            f"""
            CREATE TABLE judged AS
            SELECT {using}, s.n AS s, t.n AS t,
                   CASE WHEN t.n IS NULL THEN 'missing' WHEN s.n IS NULL THEN 'extra'
                        WHEN (greatest(s.n, t.n) > 1 AND NOT {versions}) OR s.h <> t.h THEN 'different'
                   END AS verdict
            FROM ({by_key.format(side="source")}) AS s
            FULL JOIN ({by_key.format(side="target")}) AS t USING ({using})
            ANTI JOIN waiting USING ({using})
            """
        )
        [(here, there, missing, extra, different, repeated)] = sets.execute(
            "SELECT coalesce(sum(s), 0)::BIGINT, coalesce(sum(t), 0)::BIGINT,"
            " count(*) FILTER (verdict = 'missing'), count(*) FILTER (verdict = 'extra'),"
            " count(*) FILTER (verdict = 'different'),"
            " count(*) FILTER (verdict = 'different' AND t > 1) FROM judged"
        ).fetchall()
        shown = f"FROM judged WHERE verdict IS NOT NULL ORDER BY verdict, {using} LIMIT {SHOWN}"
        verdicts = [word for (word,) in sets.execute(f"SELECT verdict {shown}").fetchall()]
        examples = restore(sets.sql(f"SELECT {using} {shown}").to_arrow_table(), keys).to_pylist()
        unlike = None
        if name_all:
            unlike = {
                word: restore(
                    sets.sql(f"SELECT {using} FROM judged WHERE verdict = '{word}'").to_arrow_table(), keys
                )
                for word in ("missing", "extra", "different")
            }
    texts = [_key_text(example) for example in examples]
    shown_keys = tuple(zip(verdicts, texts, strict=True))
    return Difference(
        here,
        there,
        missing,
        extra,
        different,
        shown_keys,
        newer=newer,
        notes=notes,
        unlike=unlike,
        repeated=repeated,
    )


def count_alike(
    source: Iterable[pa.RecordBatch], target: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Difference:
    """Compare rows without a key: the target has to have each row as often as the source."""
    target, found = _peek(target)
    notes = tuple(
        _describe_retype(field, found) for field in schema if found is not None and _is_retyped(field, found)
    )
    _, columns = _choose_columns(schema, found, (), keys_only=False)
    row = _row_hash(columns, 0)
    with scratch() as sets:
        here = fill(sets, "source", source, columns, values=[row])
        there = fill(sets, "target", target, columns, values=[row])
        [(missing, extra)] = sets.execute(
            """
            SELECT coalesce(sum(greatest(n, 0)), 0)::BIGINT, coalesce(sum(greatest(-n, 0)), 0)::BIGINT
            FROM (SELECT sum(n) AS n FROM (SELECT h, 1 AS n FROM source UNION ALL SELECT h, -1 FROM target)
                  GROUP BY h)
            """
        ).fetchall()
    return Difference(here, there, missing, extra, 0, (), newer=None, notes=notes)


def _choose_columns(
    schema: pa.Schema, found: pa.Schema | None, key: Sequence[str], *, keys_only: bool
) -> tuple[pa.Schema, pa.Schema]:
    """The key's columns; and all compared columns, the key's first. Their types hold both sides' values."""
    import pyarrow as pa

    shared = pa.schema(
        [_common(field, found) for field in schema if found is None or field.name in found.names]
    )
    keys = pa.schema([shared.field(name) for name in key])
    others = [] if keys_only else [field for field in shared if field.name not in key]
    return keys, pa.schema([*keys, *others])


def _row_hash(columns: pa.Schema, keys: int) -> str:
    """SQL of the hash of all columns but the first ones, as many as `keys`, which are the key's."""
    rest = [_form(f"c{i}", field.type) for i, field in enumerate(columns) if i >= keys]
    return f"hash({', '.join(rest) or '0'}) AS h"


def _peek(batches: Iterable[pa.RecordBatch]) -> tuple[Iterable[pa.RecordBatch], pa.Schema | None]:
    """All the batches, and the schema of the first; None where there is none."""
    rest = iter(batches)
    for first in rest:
        return chain([first], rest), first.schema
    return (), None


def _common(field: pa.Field, found: pa.Schema | None) -> pa.Field:
    """The column with a type that holds every value of both sides."""
    import pyarrow as pa

    if found is None:
        return field
    other = found.field(field.name)
    if other.type == field.type:
        return field
    if _is_retyped(field, found):
        return pa.field(field.name, pa.string())
    try:
        pair = [pa.schema([pa.field("x", side.type)]) for side in (field, other)]
        return pa.field(field.name, pa.unify_schemas(pair, promote_options="permissive").field(0).type)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise OutputDisagrees(
            f"column {field.name} is {field.type} at the source and {other.type} in the target:"
            " they cannot be compared",
            hint="it was changed since it was delivered; `tidegauge plan` says what the next run does",
        ) from error


def _is_retyped(field: pa.Field, found: pa.Schema) -> bool:
    """Whether a column is text on one side only, and the other side is not binary: it is compared as text."""
    import pyarrow as pa

    if field.name not in found.names:
        return False
    pair = (field.type, found.field(field.name).type)
    texts = [pa.types.is_string(one) or pa.types.is_large_string(one) for one in pair]
    return texts[0] != texts[1] and not any(pa.types.is_binary(one) for one in pair)


def _describe_retype(field: pa.Field, found: pa.Schema) -> str:
    there = found.field(field.name).type
    here = field.type
    return f"column {field.name} is {here} at the source and {there} in the target: compared as texts"


def _form(name: str, kind: pa.DataType) -> str:
    """SQL of a value as it is hashed: equal numbers have the same hash, and so have any two NaN."""
    import pyarrow as pa

    if not pa.types.is_floating(kind):
        return name
    return f"CASE WHEN isnan({name}) THEN 'nan'::DOUBLE WHEN {name} = 0 THEN 0.0 ELSE {name} END"


def _key_text(key: dict[str, Any]) -> str:
    return ", ".join(value.hex() if isinstance(value, bytes) else str(value) for value in key.values())
