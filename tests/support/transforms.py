"""Random transforms and changes, and a small engine that computes a transform over whole tables."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import duckdb
import sqlglot
from sqlglot import exp

from tidegauge.transform.touched import all_name, delta_name

Row = tuple[object, ...]
NAMES = ("a", "b", "c")
FIELDS = ("id", "fk", "k", "v")


def fields(name: str) -> list[str]:
    """Name the columns of a table, different for each table, so that a column needs no table's name."""
    return [f"{name}{column}" for column in FIELDS]


class Bench:
    """An in-memory DuckDB with each table before and after a change, and the rows that came and went."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:", config={"threads": 1})
        self.moving: Sequence[str] = NAMES
        for name in NAMES:
            columns = ", ".join(f"{column} INTEGER" for column in fields(name))
            views = [f"{state}_{name}" for state in ("old", "new", "came", "gone")]
            for table in (*views, name, delta_name(name), all_name(name)):
                self.connection.execute(f'CREATE TABLE "{table}" ({columns})')

    def change(self, dice: random.Random, moving: Sequence[str]) -> None:
        self.moving = moving
        for name in NAMES:
            old = _rows(dice, dice.randint(0, 6))
            new = _change_rows(dice, old) if name in moving else old
            came, gone = Counter(new) - Counter(old), Counter(old) - Counter(new)
            self._fill(f"old_{name}", old)
            self._fill(f"new_{name}", new)
            self._fill(f"came_{name}", list(came.elements()))
            self._fill(f"gone_{name}", list(gone.elements()))
            self._fill(delta_name(name), [*came, *gone])
            self._fill(all_name(name), [*new, *gone])
            self._fill(name, [] if name in moving else old)

    def _fill(self, table: str, rows: Sequence[Row]) -> None:
        self.connection.execute(f'DELETE FROM "{table}"')
        if rows:
            listed = ", ".join(str(row).replace("None", "NULL") for row in rows)
            self.connection.execute(f'INSERT INTO "{table}" VALUES {listed}')

    def ask(self, sql: str, state: str | None = None) -> Counter[Row]:
        """Run Spark SQL; with `state` (old, new, came, gone) the moving tables are read in that state."""
        return Counter(self.connection.execute(_to_duckdb_sql(sql, state, tuple(self.moving))).fetchall())

    def names(self) -> list[str]:
        """Return the column names of the last result."""
        return [str(column[0]).lower() for column in self.connection.description or ()]


@lru_cache(maxsize=20_000)
def _to_duckdb_sql(sql: str, state: str | None, moving: tuple[str, ...]) -> str:
    tree = sqlglot.parse_one(sql, dialect="spark")
    for table in tree.find_all(exp.Table) if state else ():
        if table.name in moving:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
            table.set("this", exp.to_identifier(f"{state}_{table.name}", quoted=True))
    return tree.sql("duckdb")


def _rows(dice: random.Random, count: int) -> list[Row]:
    return [
        (dice.randint(1, 9), *(dice.choice((None, 1, 2, 3, 3)) for _ in FIELDS[1:])) for _ in range(count)
    ]


def _change_rows(dice: random.Random, old: Sequence[Row]) -> list[Row]:
    kept = [list(row) for row in old if dice.random() > 0.3]
    for row in kept:
        for place in range(1, len(row)):
            if dice.random() < 0.2:
                row[place] = dice.choice((None, 1, 2, 3))
    return [tuple(row) for row in kept] + _rows(dice, dice.randint(0, 3))


class Maker:
    """Makes random transforms. They need not mean anything; they only have to be computed correctly."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.owner: dict[str, str] = {}

    def transform(self) -> tuple[str, list[str]]:
        """Make a transform's SQL, and the columns of its key."""
        kind = self.dice.random()
        if kind < 0.1:
            first, key = self._select(self.dice.choice((1, 2)), bare=True)
            second, _ = self._select(1, bare=True, key=key)
            return f"{first} {self.dice.choice(('UNION ALL', 'UNION ALL', 'UNION'))} {second}", key
        text, key = self._select(self.dice.choice((1, 2, 2, 2, 3, 3, 3)))
        if kind < 0.25 and ", z" in text.replace(" AS z", ", z"):
            form = self.dice.choice(
                (
                    "SELECT * FROM w WHERE z > 1",
                    f"SELECT {', '.join(key)}, z + 1 AS y FROM w WHERE {key[0]} < 5",
                )
            )
            return f"WITH w AS ({text}) {form}", key
        return text, key

    def _column(self, alias: str, column: str) -> str:
        name = f"{self.owner[alias]}{column}"
        twice = list(self.owner.values()).count(self.owner[alias]) > 1
        return name if self.dice.random() < 0.2 and not twice else f"{alias}.{name}"

    def _select(
        self, width: int, *, bare: bool = False, key: list[str] | None = None
    ) -> tuple[str, list[str]]:
        inputs = self.dice.sample(NAMES, width)
        if width > 1 and self.dice.random() < 0.05:
            inputs[1] = inputs[0]
        self.owner = {f"t{place}": name for place, name in enumerate(inputs)}
        text = f"{self._relation(inputs[0])} t0"
        shown = ["t0"]
        for place in range(1, width):
            text += self._join(f"t{place}", shown)
        where = f" WHERE {self._condition(shown)}" if self.dice.random() < 0.5 else ""
        key = key or [f"x{place}" for place in range(self.dice.choice((1, 1, 2)))]
        found = [self._key(shown) for _ in key]
        listed = ", ".join(f"{each} AS {name}" for each, name in zip(found, key, strict=True))
        form = self.dice.random()
        if bare:
            return f"SELECT {listed} FROM {text}{where}", key
        last = self._column(shown[-1], "v")
        if form < 0.35:
            group = self.dice.choice(
                (", ".join(found), ", ".join(str(n + 1) for n in range(len(key))), "ALL")
            )
            having = " HAVING count(*) > 1" if self.dice.random() < 0.3 else ""
            rest = f"count(*) AS n, sum({last}) AS z"
            return f"SELECT {listed}, {rest} FROM {text}{where} GROUP BY {group}{having}", key
        if form < 0.45:
            return f"SELECT DISTINCT {listed} FROM {text}{where}", key
        rest = f", {last} AS z"
        if form < 0.48:
            rest += f", row_number() OVER (PARTITION BY {found[0]} ORDER BY {last}) AS n"
        return f"SELECT {listed}{rest} FROM {text}{where}", key

    def _relation(self, name: str) -> str:
        i, f, k, v = fields(name)
        return self.dice.choices(
            (
                name,
                f"(SELECT * FROM {name} WHERE {v} >= 2)",
                f"(SELECT {i}, {k}, max({f}) AS {f}, sum({v}) AS {v} FROM {name} GROUP BY {i}, {k})",
                f"(SELECT DISTINCT {i}, {f}, {k}, 1 AS {v} FROM {name})",
            ),
            (15, 2, 2, 1),
        )[0]

    def _join(self, alias: str, shown: list[str]) -> str:
        words = ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
        word = self.dice.choice((*words, self.dice.choice(("LEFT SEMI JOIN", "LEFT ANTI JOIN"))))
        relation = f" {word} {self._relation(self.owner[alias])} {alias}"
        before = list(shown)
        if "SEMI" not in word and "ANTI" not in word:
            shown.append(alias)
        if word == "CROSS JOIN":
            return relation
        other = self.dice.choice(before)
        mine = f"{alias}.{self.owner[alias]}"
        draw = self.dice.random()
        if draw < 0.15:
            condition = f"coalesce({self._column(other, 'fk')}, 1) = {mine}k"
        elif draw < 0.2:
            condition = f"{self._column(other, 'k')} <=> {mine}k"
        elif word in ("FULL JOIN", "RIGHT JOIN") and draw < 0.9:
            sides = [f"{each}.{self.owner[each]}k" for each in before]
            side = (
                f"coalesce({', '.join(sides)})" if len(sides) > 1 and draw < 0.7 else self.dice.choice(sides)
            )
            condition = f"{side} = {mine}k"
        else:
            left = self._column(other, self.dice.choice(("fk", "k", "k", "id")))
            condition = f"{left} = {mine}{self.dice.choice(('id', 'k', 'k'))}"
        if self.dice.random() < 0.3:
            condition += f" AND {self._condition([*before, alias])}"
        return f"{relation} ON {condition}"

    def _condition(self, shown: list[str]) -> str:
        one, other = self.dice.choice(shown), self.dice.choice(shown)
        v, k, f = self._column(one, "v"), self._column(one, "k"), self._column(other, "fk")
        return self.dice.choice(
            (
                f"{v} > 1",
                f"{v} IS NULL",
                f"coalesce({v}, 9) > 2",
                f"{k} = {f}",
                f"{v} < 3 AND {f} > 1",
                f"({v} = 1 OR {f} = 2)",
            )
        )

    def _key(self, shown: list[str]) -> str:
        one = self.dice.choice(shown)
        every = ", ".join(f"{each}.{self.owner[each]}k" for each in shown)
        return self.dice.choice(
            (
                self._column(one, "id"),
                self._column("t0", "k"),
                self._column("t0", "id"),
                f"coalesce({every}, 0)",
                f"coalesce({every}) + 1" if len(shown) > 1 else self._column("t0", "k"),
                f"coalesce({self._column(shown[-1], 'k')}, 0)",
                f"{self._column(one, 'k')} + {self._column(one, 'v')}",
            )
        )
