"""The law of a flow: after every window its target equals the transform over the whole.

Generated transforms, generated changes, windows cut anywhere. `TIDEGAUGE_LAW_CASES=100` makes `-m long` a
long run, `TIDEGAUGE_LAW_SEED` another one.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.lawful import COLUMNS, FAMILIES, Wanted, World
from tests.spark.moving import Table, collected, delta_flow, pinned, quick
from tidegauge.model.batch_data import DeltaChange
from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DeltaFlow, Evaluate
from tidegauge.model.mode import Mode
from tidegauge.transform.choose import choose_evaluation
from tidegauge.transform.evaluate import evaluate_change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.moving import Window

MANY = int(os.environ.get("TIDEGAUGE_LAW_CASES", "10"))
"""Of each family, in `make test-long`."""
SEED = os.environ.get("TIDEGAUGE_LAW_SEED", "tide")
STEPS = 3
WHOLE = "whole"
Rows = Counter[tuple[Any, ...]]
Told = tuple[tuple[Any, ...], dict[str, Any]]
"""A row, and what the feed's columns say of it."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return quick(spark)


@pytest.mark.shown_on(
    "filters", "any_join", "aggregate", "union", "snapshot", "partitions", "history", "functions"
)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cases", [2, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_target_equals_the_transform_over_the_whole(
    session: SparkSession, family: str, cases: int
) -> None:
    # Keys that come and go twice meet the right moment only now and then.
    for number in range(max(9, cases) if family == "doubled" else cases):
        dice = random.Random(f"{SEED}-{family}-{number}")
        Case(session, dice, FAMILIES[family](dice)).live()


class Case:
    """One flow from its first load on."""

    def __init__(self, session: SparkSession, dice: random.Random, wanted: Wanted) -> None:
        self.session, self.dice, self.wanted = session, dice, wanted
        self.world = World(session, dice, wanted.twins)
        for name in (*wanted.moving, *wanted.pinned):
            for _ in range(3):
                self.world.live(name)
        self.delta_flow = self._delta_flow(Evaluate.AUTO)
        types = {name: "string" if type_ == pa.string() else "bigint" for name, type_ in COLUMNS.items()}
        known = dict.fromkeys((*wanted.moving, *wanted.pinned), types)
        self.choice = choose_evaluation(self.delta_flow, columns=known).evaluate
        self.refused = 0
        if isinstance(wanted.transform, str) and dice.random() < 0.15:
            # A slower way than the best one keeps the law too.
            ways = [Evaluate.ROWS, Evaluate.KEYS, Evaluate.WHOLE]
            self.choice = dice.choice(ways[ways.index(self.choice) :])
            self.delta_flow = self._delta_flow(self.choice)
        self.target: Rows = Counter()
        self.columns: list[str] = []
        self.told: list[str] = []

    def live(self) -> None:
        """A first load, of whole tables or of their first versions, and then one window after another.

        A window at whose end a key is NULL or there twice is refused, and the next one holds it too.
        """
        at = dict.fromkeys(self.wanted.moving, 0)
        afresh = self.dice.random() < 0.5
        for _ in range(2 * STEPS if self.wanted.twins else STEPS):
            for name in self.wanted.moving:
                for _ in range(self.dice.choice([0, 1, 2])):
                    self.world.live(name)
            windows: dict[str, Window] = {}
            for name in self.wanted.moving:
                table = self.world.tables[name]
                upto = table.latest if afresh else self.dice.randint(at[name], table.latest)
                windows[name] = table.window(at[name], upto, afresh=afresh)
            for name in self.wanted.pinned:
                windows[name] = self.world.tables[name].pinned()
            if self._step(windows):
                at |= {name: windows[name].upto for name in self.wanted.moving}
                afresh = False

    def _step(self, windows: dict[str, Window]) -> bool:
        """Whether the window's rows are taken."""
        keep: list[DataFrame] | None = [] if self.dice.random() < 0.1 else None
        change = evaluate_change(
            self.delta_flow, windows, self.session, self._target(), self.choice, cached=keep
        )
        self.told.append(f"{[(name, one.after, one.upto, one.afresh) for name, one in windows.items()]}")
        rows, whole, touched = self._collected(change, windows)
        for frame in keep or ():
            frame.unpersist()
        match self.wanted.mode:
            case Mode.REPLACE_PARTITIONS:
                part = self.columns.index(self.wanted.partition_by[0])
                for row in [row for row in self.target if row[part] in touched]:
                    del self.target[row]
                assert all(row[part] in touched for row, _ in rows), self._story()
                self.target.update(row for row, _ in rows)
            case _:
                rows = self._asked_again(change, rows)
                if not self._is_keyed(whole):
                    assert not self._is_keyed(Counter(row for row, feed in rows)), self._story()
                    self.refused += 1
                    return False
                self._merge(rows)
        assert self.target == whole, f"{self._story()}\n{self.target - whole} should be {whole - self.target}"
        return True

    def _key(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[self.columns.index(name)] for name in self.wanted.key)

    def _is_keyed(self, rows: Rows) -> bool:
        keys = Counter(self._key(row) for row in rows.elements())
        return not any(None in key or many > 1 for key, many in keys.items())

    def _asked_again(self, change: DeltaChange, rows: list[Told]) -> list[Told]:
        """As an output does it: for keys that should be new, and that the target has."""
        if change.recompute_keys is None or not self.target:
            return rows
        there = {self._key(row) for row in self.target}
        doubted = {
            self._key(row)
            for row, feed in rows
            if change.recompute_all_keys or (feed[CHANGE_TYPE] == "insert" and self._key(row) in there)
        }
        doubted = {key for key in doubted if None not in key}
        if not doubted:
            return rows
        types = {field.name: field.dataType.simpleString() for field in change.rows.schema.fields}
        schema = ", ".join(f"`{name}` {types[name]}" for name in self.wanted.key)
        whole = collected(change.recompute_keys(self.session.createDataFrame(sorted(doubted), schema)))
        told = [(tuple(row[name] for name in self.columns), {CHANGE_TYPE: row[CHANGE_TYPE]}) for row in whole]
        assert {self._key(row) for row, _ in told} == doubted, self._story()
        return [(row, feed) for row, feed in rows if self._key(row) not in doubted] + told

    def _merge(self, rows: list[Told]) -> None:
        keys = [self.columns.index(name) for name in self.wanted.key]
        held = {tuple(row[at] for at in keys): row for row in self.target}
        if self.wanted.mode is Mode.SCD2:
            rows = sorted(rows, key=lambda one: one[1][COMMIT_VERSION])
        once = [(tuple(row[at] for at in keys), feed.get(COMMIT_VERSION)) for row, feed in rows]
        assert len(set(once)) == len(once), self._story()
        for row, feed in rows:
            key = tuple(row[at] for at in keys)
            if feed[CHANGE_TYPE] == "delete":
                held.pop(key, None)
            else:
                held[key] = row
        self.target = Counter(held.values())

    def _collected(
        self, change: DeltaChange, windows: dict[str, Window]
    ) -> tuple[list[Told], Rows, set[Any]]:
        """Changed rows, the transform over the whole, and the partitions touched, in one query."""
        from pyspark.sql import functions as F  # noqa: N812

        whole = self._whole(windows)
        self.columns = whole.columns
        parts = [change.rows, whole.withColumn(CHANGE_TYPE, F.lit(WHOLE))]
        if change.touched is not None:
            parts.append(change.touched.withColumn(CHANGE_TYPE, F.lit("touched")))
        first, *others = parts
        for other in others:
            first = first.unionByName(other, allowMissingColumns=True)
        feed = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
        rows: list[Told] = []
        expected: Rows = Counter()
        touched: set[Any] = set()
        for row in collected(first):
            plain = tuple(row[name] for name in self.columns)
            if row[CHANGE_TYPE] == WHOLE:
                expected[plain] += 1
            elif row[CHANGE_TYPE] == "touched":
                touched.add(row[self.wanted.partition_by[0]])
            else:
                rows.append((plain, {name: row.get(name) for name in feed}))
        return rows, expected, touched

    def _whole(self, windows: dict[str, Window]) -> DataFrame:
        frames = {name: one.now() for name, one in windows.items()}
        transform = self.wanted.transform
        if transform is None:
            (frame,) = frames.values()
            return frame
        if not isinstance(transform, str):
            made: DataFrame = transform(**frames)
            return made
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        return self.session.sql(transform)

    def _target(self) -> Callable[[], DataFrame] | None:
        return self._held if self.columns else None

    def _held(self) -> DataFrame:
        names = (*self.wanted.moving, *self.wanted.pinned)
        whole = self._whole({name: self.world.tables[name].pinned(0) for name in names})
        types = ", ".join(f"`{name}` {type_}" for name, type_ in whole.dtypes)
        rows = list(self.target.elements())
        if self.wanted.mode is Mode.SCD2:
            types = f"{types}, is_current boolean, valid_from bigint, valid_to bigint"
            rows = [(*row, True, 0, None) for row in rows]
        return self.session.createDataFrame(rows, types)

    def _delta_flow(self, evaluate: Evaluate) -> DeltaFlow:
        wanted = self.wanted
        return delta_flow(
            wanted.transform,
            *wanted.moving,
            *(pinned(name) for name in wanted.pinned),
            key=wanted.key,
            mode=wanted.mode,
            evaluate=evaluate,
            partition_by=wanted.partition_by,
        )

    def _story(self) -> str:
        tables: dict[str, Table] = self.world.tables
        versions = "\n".join(f"{name}: {table.versions}" for name, table in tables.items())
        return f"{self.wanted}\nby {self.choice}, windows {self.told}\n{versions}"
