"""Kill a flow between Delta tables before and after every step, in every mode, and compare with the oracle.

Each run has to end what the one before left, and dies at the next place; the source changes in between. The
runs use one Spark, so that a killed one costs no Java.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.attached import address_of
from tests.support.nursery import Kill, Nursery
from tidegauge.outputs.delta.small_batches import SWITCH
from tidegauge.run.steps import Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

long = pytest.mark.long

EVERYWHERE = [(side, step) for step in Step for side in ("before", "after")]
AROUND_THE_COMMIT = [
    (side, step)
    for side, step in EVERYWHERE
    if step in (Step.WRITE, Step.PUBLISH, Step.CONFIRM, Step.ADVANCE)
]
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Mode:
    output: str
    transform: str
    oracle: Callable[[Rows], Rows]
    """What the target holds, from the rows (id, version, word) that were ever written at the source."""
    columns: str


def _now(rows: Rows) -> Rows:
    last = {row[0]: row for row in sorted(rows, key=lambda row: row[1])}
    return [row for row in last.values() if row[2] != "gone"]


def _history(rows: Rows) -> Rows:
    found: Rows = []
    for key in {row[0] for row in rows}:
        events = sorted(row for row in rows if row[0] == key)
        ends = [version for _, version, _ in events[1:]] + [None]
        found += [(*event, event[1], end, end is None) for event, end in zip(events, ends, strict=True)]
    return found


def _by_word(rows: Rows) -> Rows:
    now = _now(rows)
    return [
        (word, len(ids), sum(ids))
        for word in {row[2] for row in now}
        if (ids := [row[0] for row in now if row[2] == word])
    ]


MODES = {
    "append": Mode("mode: append", "SELECT id, version, word FROM t", lambda rows: rows, "id, version, word"),
    "merge": Mode("key: id", "SELECT * FROM t WHERE word <> 'gone'", _now, "id, version, word"),
    "scd2": Mode(
        "mode: scd2, key: id, sequence_by: version",
        "SELECT id, version, word FROM t",
        _history,
        "id, version, word, valid_from, valid_to, is_current",
    ),
    "replace_partitions": Mode(
        "mode: replace_partitions, partition_by: word",
        "SELECT word, count(*) AS n, sum(id) AS ids FROM t WHERE word <> 'gone' GROUP BY word",
        _by_word,
        "word, n, ids",
    ),
    "overwrite": Mode("mode: overwrite", "SELECT * FROM t WHERE word <> 'gone'", _now, "id, version, word"),
}


class Table:
    """A source that keeps in mind all that was ever written to it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self.name = f"delta.`{folder}/t`"
        self.rows: Rows = []
        spark.sql(
            f"CREATE TABLE {self.name} (id INT, version INT, word STRING) USING delta"
            " TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        )

    def change(self, turn: int) -> None:
        """Two new rows and new versions of two old ones, one of which moves out of the filter."""
        new = [(3 * turn, turn, "ab"[turn % 2]), (3 * turn + 1, turn, "c")]
        again = [(3 * turn - 3, turn, "gone" if turn % 3 else "d"), (3 * turn - 2, turn, "b")] if turn else []
        self.rows += new + again
        values = ", ".join(str(row) for row in new + again)
        self._spark.sql(
            f"MERGE INTO {self.name} t USING (SELECT * FROM VALUES {values} AS v(id, version, word)) s"
            " ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )


BY_SPARK = ("append", "merge")
"""The rows of the others are few enough to be committed without it."""
KEPT = [("append", "commit")]
"""The other modes commit in the same way, and `test_layers_kills` kills merges and histories; the steps
around a commit are `test_matrix`'s. `make test-long` has them all."""
CASES = [
    pytest.param(mode, places, id=f"{mode}-{name}", marks=() if (mode, name) in KEPT else long)
    for mode in MODES
    for name, places in (("commit", AROUND_THE_COMMIT), ("everywhere", EVERYWHERE))
]


@pytest.mark.parametrize(("mode", "places"), CASES)
def test_b1_b2_d7_a_flow_between_delta_tables_killed_anywhere_loses_and_doubles_nothing(
    spark: SparkSession,
    nursery: Nursery,
    tmp_path: Path,
    mode: str,
    places: list[tuple[str, Step]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if mode in BY_SPARK:
        monkeypatch.setenv(SWITCH, "off")
    kind, table = MODES[mode], Table(spark, tmp_path)
    (tmp_path / "t.sql").write_text(kind.transform)
    project = tmp_path / "tidegauge.yml"
    project.write_text(
        "pipeline: crash\nflows:\n  it:\n    inputs: {t: {path: t}}\n    transform: t.sql\n"
        f"    output: {{path: target, {kind.output}}}\n"
    )
    shared = address_of(spark)
    for turn, (side, step) in enumerate(places):
        table.change(turn)
        killed = nursery.run(project, Kill("crash" if step is Step.PLAN else "it", side, step), shared)
        assert killed.code == -9, (side, step, killed)
    last = nursery.run(project, None, shared)
    assert last.code == 0, last

    found = spark.sql(f"SELECT {kind.columns} FROM delta.`{tmp_path}/target`").collect()
    assert sorted(map(_text, found)) == sorted(map(_text, kind.oracle(table.rows)))
    commits = spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path}/target`").collect()
    seqs = [json.loads(one.userMetadata)["seq"] for one in commits if one.userMetadata]
    assert sorted(seqs) == [*range(1, len(seqs) + 1)]


def _text(row: tuple[Any, ...]) -> str:
    return str(tuple(row))
