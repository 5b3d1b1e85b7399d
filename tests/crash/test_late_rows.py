"""Whatever commits with a cursor above the newest delivered row arrives, however old its time is.

Rows are dated in a year long past, as an import or a late publisher dates them, and runs are killed anywhere.
"""

from __future__ import annotations

import random
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.crash.houses import Build, House
from tests.support.nursery import Kill, Nursery
from tidegauge.run.steps import Step

pytestmark = pytest.mark.timeout(900)

STEPS = [Step.PLAN, Step.BEGIN, Step.WRITE, Step.PUBLISH, Step.ADVANCE, Step.FINISH]
DAWN = datetime(2021, 1, 1)


class Publisher:
    """Writes rows whose times are in the past, each later than all that are there."""

    def __init__(self, house: House, dice: random.Random) -> None:
        self._house = house
        self._dice = dice
        self._time = DAWN
        self._keys = 0
        database = house.database
        database.execute(
            "DROP TABLE t",
            f"CREATE TABLE t (id INT PRIMARY KEY, seen {database.moment} NOT NULL,"
            f" word {database.word} NOT NULL)",
        )
        if dice.random() < 0.7:
            database.execute("CREATE INDEX by_seen ON t (seen, id)")

    def publish(self) -> None:
        with closing(self._house.database.connect()) as connection:
            cursor = connection.cursor()
            for _ in range(self._dice.randint(0, 9)):
                # Ties on purpose: a new row gets a higher key than all before it.
                self._time += timedelta(seconds=self._dice.choice([0, 0, 1, 3600, 86400]))
                if self._keys and self._dice.random() < 0.3:
                    key, self._time = self._dice.randrange(self._keys), self._time + timedelta(seconds=1)
                    cursor.execute(
                        f"UPDATE t SET seen = '{self._time}', word = 'of {self._time}' WHERE id = {key}"
                    )
                else:
                    cursor.execute(f"INSERT INTO t VALUES ({self._keys}, '{self._time}', 'new')")
                    self._keys += 1
            connection.commit()

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(
            (key, str(seen)[:19], word) for key, seen, word in self._house.database.rows("SELECT * FROM t")
        )


def landed(house: House) -> list[tuple[Any, ...]]:
    return sorted(
        (key, str(seen)[:19], word) for key, seen, word in house.target.rows("SELECT id, seen, word FROM t")
    )


@pytest.mark.shown_on("mysql")
@pytest.mark.parametrize(
    ("source", "lake", "target"),
    [
        ("sqlite", "", "duckdb"),
        ("mysql", "local", "duckdb"),
        ("postgresql", "", "sqlite"),
        pytest.param("sqlite", "local", "postgresql", marks=pytest.mark.long),
        pytest.param("mysql", "", "mysql", marks=pytest.mark.long),
        pytest.param("postgresql", "local", "postgresql", marks=pytest.mark.long),
    ],
)
def test_a26_rows_dated_in_the_past_arrive_under_any_kill(
    build: Build, nursery: Nursery, source: str, lake: str, target: str
) -> None:
    house = build(source, lake, target)
    dice = random.Random(f"{source} {lake} {target}")
    publisher = Publisher(house, dice)
    killed = 0
    for _ in range(7):
        house.write(f"tables: [t], cursor: seen, settle: 1s, batch_rows: {dice.choice([1, 3, 7])}")
        publisher.publish()
        flow = dice.choice([house.extract, house.load] if lake else [house.load])
        kill = Kill(flow, dice.choice(["before", "after"]), dice.choice(STEPS), dice.randint(1, 2))
        ended = nursery.run(house.file, kill if dice.random() < 0.7 else None)
        assert ended.code in (0, -9), ended
        killed += ended.code == -9
        # Before the next run takes over what this one left.
        publisher.publish()
    assert killed >= 2, "hardly any run was killed: choose another seed"

    for _ in range(2):  # the first takes up what is left of a plan
        assert nursery.run(house.file).code == 0
    assert landed(house) == publisher.rows()
    assert nursery.run(house.file).flow(house.load)["rows_written"] == 0
