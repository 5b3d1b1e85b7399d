"""A flow that sets rows aside, killed at each of its two commits, and what hands do to it in between."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.dying import Death
from tests.crash.test_layers_kills import FEED, WHY, Layers
from tests.support.nursery import Nursery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASIDE = Death(("tidegauge.outputs.delta.quarantine:Quarantine.put",))
MARKED = Death(("tidegauge.outputs.delta.quarantine:Quarantine.mark",))
APPENDED = Death(("tidegauge.outputs.delta.quarantine:Quarantine.append",))
WRITTEN = Death(("tidegauge.outputs.delta.modes:apply",))
GUARD_MET = Death(("tidegauge.outputs.delta.output:DeltaOutput._plan_again",), "before")
FLOW = "inputs: {t: {path: t}}, output: {path: out, %s}, expect: {'n %s 0': quarantine}"


@pytest.fixture
def layers(spark: SparkSession, nursery: Nursery, tmp_path: Path) -> Layers:
    made = Layers(spark, nursery, tmp_path)
    made.sql(f"CREATE TABLE @t (id BIGINT, n BIGINT) {FEED}")
    return made


def expect(layers: Layers, mode: str, sign: str = ">=") -> None:
    layers.flows = {"f": FLOW % (mode, sign)}
    layers.write()


def found(layers: Layers) -> tuple[list[int], list[tuple[int, int]]]:
    """The ids in the target, and of what is set aside ids and batches."""
    aside = layers.sql("SELECT row, _seq FROM @out_quarantine")
    return (
        sorted(row[0] for row in layers.sql("SELECT id FROM @out")),
        sorted((json.loads(text)["id"], seq) for text, seq in aside),
    )


@pytest.mark.long
@pytest.mark.parametrize("mode", ["mode: append", "mode: merge, key: id"], ids=["append", "merge"])
def test_a_kill_at_either_commit_neither_loses_nor_doubles_a_row_set_aside(layers: Layers, mode: str) -> None:
    expect(layers, mode)
    layers.sql("INSERT INTO @t VALUES (1, 1), (2, -2), (3, -3)")
    layers.die(ASIDE, "run", on_spark=True)
    assert found(layers) == ([], [(2, 1), (3, 1)])
    layers.run()
    assert found(layers) == ([1], [(2, 1), (3, 1)])
    layers.sql("INSERT INTO @t VALUES (4, 4), (5, -5)")
    layers.die(WRITTEN, "run", on_spark=True)
    assert found(layers) == ([1, 4], [(2, 1), (3, 1), (5, 2)])
    layers.run()
    assert found(layers) == ([1, 4], [(2, 1), (3, 1), (5, 2)])

    # What is expected is mended after the kill: the retry replaces what the batch had set aside.
    layers.sql("INSERT INTO @t VALUES (6, 6), (7, -7), (8, 0)")
    layers.die(ASIDE, "run", on_spark=True)
    expect(layers, mode, "<>")
    layers.run()
    target, aside = found(layers)
    assert (target[-2:], aside[-1]) == ([6, 7], (8, 3))
    assert (7, 3) not in aside


def test_a_kill_in_a_batch_under_the_guard_or_before_it_is_done_again_leaves_nothing_half_done(
    layers: Layers,
) -> None:
    expect(layers, "mode: append")
    layers.sql("INSERT INTO @t VALUES (1, 1), (2, 2)")
    layers.die(WRITTEN, "run", on_spark=True)
    taken_up = layers.run().json["flows"][0]
    assert taken_up["resumed"]
    assert taken_up["expectations"] == {
        "checked": 2,
        "quarantined": 0,
        "dropped": 0,
        "checks": [{"check": "n >= 0", "action": "quarantine", "failed": 0}],
    }
    layers.sql("INSERT INTO @t VALUES (3, 3), (4, -4)")
    layers.die(GUARD_MET, "run", on_spark=True)
    assert sorted(row[0] for row in layers.sql("SELECT id FROM @out")) == [1, 2]
    assert not (layers.folder / "out_quarantine").exists()
    layers.die(ASIDE, "run", on_spark=True)
    assert found(layers) == ([1, 2], [(4, 2)])
    # By what is expected now every row passes, and what the batch had set aside is taken away.
    expect(layers, "mode: append", "<>")
    layers.run()
    assert found(layers) == ([1, 2, 3, 4], [])


@pytest.mark.long
def test_a_quarantine_that_was_altered_is_refused_and_one_that_was_dropped_is_made_anew(
    layers: Layers,
) -> None:
    expect(layers, "mode: append")
    layers.sql("INSERT INTO @t VALUES (1, 1), (2, -2)")
    layers.run()
    layers.sql(
        "ALTER TABLE @out_quarantine SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name',"
        " 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    layers.sql("ALTER TABLE @out_quarantine RENAME COLUMN _reasons TO why")
    layers.sql("INSERT INTO @t VALUES (3, 3), (4, -4)")
    failed = layers.run(code=1).flow("f")["error"]
    assert "has no column _reasons, so no row of f can be set aside" in failed["message"]
    assert sorted(row[0] for row in layers.sql("SELECT id FROM @out")) == [1]
    shutil.rmtree(layers.folder / "out_quarantine")
    layers.run()
    assert found(layers) == ([1, 3], [(4, 2)])


@pytest.mark.long
def test_a_replay_into_a_target_that_only_grows_is_finished_by_the_next_one(layers: Layers) -> None:
    expect(layers, "mode: append")
    layers.sql("INSERT INTO @t VALUES (1, 1), (2, -2), (3, -3), (4, 0)")
    layers.run()
    assert found(layers) == ([1, 4], [(2, 1), (3, 1)])
    expect(layers, "mode: append", "<>")
    again = ("quarantine", "replay", "--reason", "a test", "--yes")
    layers.die(MARKED, *again, on_spark=True)
    assert found(layers) == ([1, 4], [(2, 1), (3, 1)])
    layers.die(APPENDED, *again, on_spark=True)
    assert found(layers) == ([1, 2, 3, 4], [(2, 1), (3, 1)])
    # What comes in between is no part of what was begun.
    layers.sql("INSERT INTO @t VALUES (5, 0), (6, 6)")
    layers.run()
    layers.type(*again)
    assert found(layers) == ([1, 2, 3, 4, 6], [(5, 2)])
    # All is read again from the beginning: what was set aside before no longer counts.
    layers.run("--full-refresh", *WHY)
    expect(layers, "mode: append", ">=")
    layers.type(*again)
    assert sorted(row[0] for row in layers.sql("SELECT id FROM @out")) == [1, 2, 3, 4, 5, 6]
