"""Random transforms and changes, to test that batches give the same result as a full computation."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.spark.moving import Row, Table
from tidegauge.model.mode import Mode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {"id": pa.int64(), "g": pa.string(), "n": pa.int64(), "r": pa.int64()}
NAMES = ("a", "b", "c")


@dataclass(frozen=True)
class Wanted:
    """A transform, the key of its result, and which inputs move and which are pinned."""

    transform: str | Callable[..., Any] | None
    key: tuple[str, ...]
    moving: tuple[str, ...]
    pinned: tuple[str, ...] = ()
    mode: Mode = Mode.MERGE
    partition_by: tuple[str, ...] = ()
    twins: bool = False
    """Whether two rows of an input may share an id for some versions."""


@dataclass
class World:
    """Tables whose rows are inserted, updated, deleted and inserted again."""

    session: SparkSession
    dice: random.Random
    twins: bool = False
    tables: dict[str, Table] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        if name not in self.tables:
            self.tables[name] = Table(self.session, COLUMNS)
        return self.tables[name]

    def live(self, name: str) -> None:
        """Commit one random version, which may change nothing."""
        table, dice = self.table(name), self.dice
        rows = table.rows()
        ids = [row[0] for row in rows]
        # Usually delete duplicate rows before making other changes.
        twins = {id_ for id_ in ids if ids.count(id_) > 1}
        there = {row[0]: row for row in dice.sample(rows, len(rows))}
        insert: list[Row] = []
        update: list[tuple[Row, Row]] = []
        delete: list[Row] = []
        some = dice.sample(range(1, 5 if self.twins else 7), dice.choice([0, 1, 1, 2, 3]))
        for id_ in sorted(twins) if twins and dice.random() < 0.7 else some:
            old, new = there.get(id_), self._row(id_)
            if old is None:
                insert.append(new)
            elif id_ in twins:
                delete.append(old)
            elif self.twins and dice.random() < 0.5:
                insert.append(dice.choice([new, new, old]))
            elif dice.random() < 0.3:
                delete.append(old)
            elif dice.random() < 0.2:
                delete.append(old)
                insert.append(new)
            else:
                update.append((old, new))
        table.commit(insert=insert, update=update, delete=delete)

    def _row(self, id_: int) -> Row:
        dice = self.dice
        return (
            id_,
            dice.choice([None, "x", "x", "y"]),
            dice.choice([None, 0, 1, 2, 3]),
            dice.choice([None, 1, 2, 3, 4, 5]),
        )


def condition(dice: random.Random, *aliases: str) -> str:
    one = dice.choice(aliases)
    other = dice.choice(aliases)
    return dice.choice(
        [
            f"{one}.n > {dice.randrange(3)}",
            f"{one}.g = 'x'",
            f"{one}.g IS NULL",
            f"({one}.n IS NOT NULL OR {one}.r = 2)",
            f"coalesce({one}.n, 0) < 2",
            f"{one}.n >= coalesce({other}.n, 1)",
            f"NOT ({one}.g <=> {other}.g AND {other}.n = 1)",
        ]
    )


def where(dice: random.Random, *aliases: str) -> str:
    many = dice.choice([0, 0, 1, 2])
    return f" WHERE {' AND '.join(condition(dice, *aliases) for _ in range(many))}" if many else ""


def value(dice: random.Random, *aliases: str) -> str:
    one, other = dice.choice(aliases), dice.choice(aliases)
    return dice.choice(
        [
            f"{one}.n",
            f"{one}.n + coalesce({other}.r, 10)",
            f"concat({one}.g, '-', {other}.n)",
            f"CASE WHEN {one}.g = 'x' THEN {other}.n END",
            f"{one}.r",
        ]
    )


def filters(dice: random.Random) -> Wanted:
    key = dice.choice(["t.id", "t.id", "t.id * 10 + 1", "concat('k', t.id)"])
    text = f"SELECT {key} AS k, {value(dice, 't')} AS v FROM a AS t{where(dice, 't')}"
    if dice.random() < 0.2:
        text = f"WITH w AS ({text}) SELECT * FROM w"
    return Wanted(text, ("k",), ("a",))


def simple_join(dice: random.Random) -> Wanted:
    """Join up to three tables, each by its unique key."""
    many = dice.choice([2, 2, 3])
    text, aliases = "a", ["a"]
    for name in NAMES[1:many]:
        kind = dice.choice(["JOIN", "LEFT JOIN", "LEFT JOIN"])
        to = dice.choice(aliases)
        more = f" AND {condition(dice, name)}" if dice.random() < 0.3 else ""
        text += f" {kind} {name} ON {to}.r = {name}.id{more}"
        aliases.append(name)
    values = f"{value(dice, *aliases)} AS v, {value(dice, *aliases)} AS w"
    return Wanted(f"SELECT a.id AS k, {values} FROM {text}{where(dice, *aliases)}", ("k",), NAMES[:many])


def any_join(dice: random.Random) -> Wanted:
    """Join by any kind of join and any column; the key is the keys of all tables."""
    many = dice.choice([2, 2, 3])
    text, aliases = "a", ["a"]
    for name in NAMES[1:many]:
        kind = dice.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        to = dice.choice(aliases)
        on = dice.choice([f"{to}.r = {name}.id", f"{to}.g = {name}.g", f"{to}.id = {name}.r"])
        text += f" {kind} {name} ON {on}"
        if dice.random() < 0.3:
            text += f" AND {condition(dice, to, name)}"
        aliases.append(name)
    keys = ", ".join(f"coalesce({name}.id, -1) AS k{name}" for name in aliases)
    return Wanted(
        f"SELECT {keys}, {value(dice, *aliases)} AS v FROM {text}{where(dice, *aliases)}",
        tuple(f"k{name}" for name in aliases),
        NAMES[:many],
    )


def full_by_key(dice: random.Random) -> Wanted:
    kind = dice.choice(["FULL", "FULL", "LEFT", "RIGHT"])
    if dice.random() < 0.5:
        text = f"SELECT id, a.n AS v, b.n AS w FROM a {kind} JOIN b USING (id)"
        if dice.random() < 0.4:
            text += f" {kind} JOIN c USING (id)"
            return Wanted(text + where(dice, "a", "b", "c"), ("id",), NAMES)
        return Wanted(text + where(dice, "a", "b"), ("id",), NAMES[:2])
    text = f"SELECT coalesce(a.id, b.id) AS id, a.n AS v, {value(dice, 'a', 'b')} AS w FROM a {kind} JOIN b"
    return Wanted(f"{text} ON a.id = b.id{where(dice, 'a', 'b')}", ("id",), NAMES[:2])


def aggregate(dice: random.Random) -> Wanted:
    having = dice.choice(["", "", " AND count(*) > 1", " AND sum(n) > 2", " AND max(n) IS NOT NULL"])
    if dice.random() < 0.4:
        by, group = _make_grouping(dice, "t.g")
        text = f"SELECT {by} AS k, count(*) AS c, sum(t.n) AS s FROM a t{where(dice, 't')} GROUP BY {group}"
        return Wanted(text + having.replace("n)", "t.n)"), ("k",), ("a",))
    kind = dice.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"])
    by, group = _make_grouping(dice, dice.choice(["a.g", "a.g", "b.g", "a.r"]))
    text = (
        f"SELECT {by} AS k, count(*) AS c, sum(b.n) AS s FROM a {kind} b ON a.r = b.id{where(dice, 'a', 'b')}"
    )
    return Wanted(f"{text} GROUP BY {group}{having.replace('n)', 'b.n)')}", ("k",), NAMES[:2])


def _make_grouping(dice: random.Random, by: str) -> tuple[str, str]:
    """Make a key that is never NULL in the result, and its GROUP BY with a HAVING that can be extended."""
    if dice.random() < 0.5:
        return by, f"{by} HAVING {by} IS NOT NULL"
    found = f"coalesce({by}, {'-1' if by.endswith('.r') else repr('?')})"
    return found, f"{found} HAVING true"


def doubled(dice: random.Random) -> Wanted:
    """Make transforms whose result may have a key twice for some versions."""
    least = dice.randrange(3)

    def mapped(a: DataFrame) -> DataFrame:
        return a.where(f"coalesce(n, 3) > {least}").selectExpr("id AS k", "r AS v")

    pin = f"SELECT a.id AS k, a.n AS v, p.g AS w FROM a LEFT JOIN p ON a.r = p.id{where(dice, 'p')}"
    key = "SELECT r AS k, id AS v FROM a WHERE r IS NOT NULL"
    return dice.choice(
        [
            Wanted(None, ("id",), ("a",), twins=True),
            Wanted(replace(filters(dice), twins=True).transform, ("k",), ("a",), twins=True),
            Wanted(f"{key} AND coalesce(n, {least}) > 1", ("k",), ("a",)),
            Wanted(
                f"SELECT id AS k, g AS v, n FROM a WHERE coalesce(n, 3) > {least}", ("k",), ("a",), twins=True
            ),
            Wanted(mapped, ("k",), ("a",), twins=True),
            Wanted(pin, ("k",), ("a",), ("p",), twins=True),
        ]
    )


def of_aggregate(dice: random.Random) -> Wanted:
    inner = f"SELECT r, sum(n) AS t, count(*) AS c FROM b{where(dice, 'b')} GROUP BY r"
    kind = dice.choice(["JOIN", "LEFT JOIN"])
    text = f"SELECT a.id AS k, s.t, s.c FROM a {kind} ({inner}) s ON s.r = a.id"
    return Wanted(text + dice.choice(["", " WHERE s.c > 1", " WHERE a.n > 0"]), ("k",), NAMES[:2])


def union(dice: random.Random) -> Wanted:
    other = dice.choice(["a", "b", "b"])
    text = (
        f"SELECT id, 'one' AS s, {value(dice, 'a')} AS v FROM a{where(dice, 'a')} UNION ALL "
        f"SELECT id, 'two' AS s, {value(dice, other)} AS v FROM {other}{where(dice, other)}"
    )
    text = text.replace("concat(", "length(concat(").replace(".n) AS v", ".n)) AS v")
    return Wanted(text, ("id", "s"), ("a",) if other == "a" else ("a", "b"))


def others(dice: random.Random) -> Wanted:
    """Make transforms that are mostly computed as a whole."""
    window = "row_number() OVER (PARTITION BY g ORDER BY id)"
    return dice.choice(
        [
            Wanted(
                "SELECT x.id AS k, y.id AS j, y.n AS v FROM a x JOIN a y ON x.g = y.g", ("k", "j"), ("a",)
            ),
            Wanted(f"SELECT id, {window} AS v FROM a{where(dice, 'a')}", ("id",), ("a",)),
            Wanted("SELECT DISTINCT a.g AS k FROM a WHERE a.g IS NOT NULL", ("k",), ("a",)),
            Wanted(
                "SELECT DISTINCT a.g AS k, b.n AS v FROM a JOIN b ON a.r = b.id WHERE a.g IS NOT NULL AND"
                " b.n IS NOT NULL",
                ("k", "v"),
                ("a", "b"),
            ),
            Wanted("SELECT id, n FROM a ORDER BY id LIMIT 2", ("id",), ("a",)),
            Wanted(
                "SELECT id, n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.r)", ("id",), ("a", "b")
            ),
            Wanted("SELECT id, n FROM a WHERE r NOT IN (SELECT id FROM b)", ("id",), ("a", "b")),
            Wanted("SELECT id, n FROM a LEFT ANTI JOIN b ON b.id = a.r", ("id",), ("a", "b")),
            Wanted("SELECT id, n FROM a LEFT SEMI JOIN b ON b.id = a.r", ("id",), ("a", "b")),
            Wanted("SELECT id, (SELECT max(n) FROM b) AS v FROM a", ("id",), ("a", "b")),
            Wanted("SELECT id FROM a INTERSECT SELECT id FROM b", ("id",), ("a", "b")),
            Wanted("SELECT g, max(id) AS v FROM a GROUP BY g", ("v",), ("a",)),
        ]
    )


def snapshot(dice: random.Random) -> Wanted:
    kind = dice.choice(["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
    if "SEMI" in kind or "ANTI" in kind:
        return Wanted(f"SELECT a.id AS k, a.n AS v FROM a {kind} p ON a.r = p.id", ("k",), ("a",), ("p",))
    if dice.random() < 0.4:
        text = f"SELECT a.id AS k, b.n AS v, p.n AS w FROM a LEFT JOIN b ON a.r = b.id {kind} p ON a.n = p.id"
        return Wanted(text + where(dice, "a", "b", "p"), ("k",), ("a", "b"), ("p",))
    text = f"SELECT a.id AS k, {value(dice, 'a', 'p')} AS v FROM a {kind} p ON a.r = p.id"
    return Wanted(text + where(dice, "a", "p"), ("k",), ("a",), ("p",))


def partitions(dice: random.Random) -> Wanted:
    made = dice.choice([filters, simple_join, aggregate, union])(dice)
    assert isinstance(made.transform, str)
    by = dice.choice(["k % 2", "k"]) if made.key == ("k",) else "s" if "s" in made.key else made.key[0]
    is_text = ".g AS k" in made.transform or "'?') AS k" in made.transform
    if made.transform.startswith("SELECT concat(") or (made.key == ("k",) and is_text):
        by = "k"
    text = f"SELECT *, {by} AS part FROM ({made.transform})" if dice.random() < 0.7 else made.transform
    part = "part" if text is not made.transform else made.key[0]
    return Wanted(text, (), made.moving, made.pinned, Mode.REPLACE_PARTITIONS, (part,))


def history(dice: random.Random) -> Wanted:
    made = dice.choice([filters, filters, simple_join, snapshot, aggregate])(dice)
    return Wanted(made.transform, made.key, made.moving, made.pinned, Mode.SCD2)


def functions(dice: random.Random) -> Wanted:
    least = dice.randrange(3)
    how = dice.choice(["inner", "left", "right", "full", "left_semi", "left_anti"])

    def rows(a: DataFrame) -> DataFrame:
        return a.where(f"n > {least}").selectExpr("id", "n * 2 AS v")

    def joined(a: DataFrame, b: DataFrame) -> DataFrame:
        right = b.selectExpr("id", "n AS m") if how not in ("left_semi", "left_anti") else b.select("id")
        found = a.join(right, "id", how)
        return found.where(f"n > {least}") if least == 1 else found

    def looked_up(a: DataFrame, b: DataFrame) -> DataFrame:
        found = a.join(b.selectExpr("id AS r", "n AS m"), "r", "left")
        return found.where("m IS NULL") if least == 1 else found.drop("n")

    def summed(a: DataFrame) -> DataFrame:
        found = a.groupBy("g").agg({"n": "sum", "*": "count"}).toDF("g", "s", "c").where("g IS NOT NULL")
        return found.where(f"c > {least}") if least else found

    def united(a: DataFrame, b: DataFrame) -> DataFrame:
        return a.selectExpr("id", "1 AS s", "n").unionAll(b.selectExpr("id", "2 AS s", "r"))

    def ranked(a: DataFrame) -> DataFrame:
        return a.selectExpr("id", "rank() OVER (PARTITION BY g ORDER BY n) AS v")

    def shared(a: DataFrame) -> DataFrame:
        many = a.count()
        return a.selectExpr("id", f"{many} AS many")

    ab = ("a", "b")
    return dice.choice(
        [
            Wanted(rows, ("id",), ("a",)),
            Wanted(joined, ("id",), ab),
            Wanted(looked_up, ("id",), ab),
            Wanted(summed, ("g",), ("a",)),
            Wanted(united, ("id", "s"), ab),
            Wanted(ranked, ("id",), ("a",)),
            Wanted(shared, ("id",), ("a",)),
        ]
    )


FAMILIES: dict[str, Callable[[random.Random], Wanted]] = {
    one.__name__: one
    for one in (
        filters,
        simple_join,
        any_join,
        full_by_key,
        aggregate,
        doubled,
        of_aggregate,
        union,
        others,
        snapshot,
        partitions,
        history,
        functions,
    )
}
