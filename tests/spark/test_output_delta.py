"""A Delta output beside others: epochs, conflicts, settings of its own, and targets that somebody changed."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.delta_output import LAYOUT, MakeRows, Writer, batch_of, delta_flow_of, tag_of, values
from tidegauge.errors import OutputDisagrees, OutputError, TransformFailed
from tidegauge.model.mode import Mode
from tidegauge.model.spec import Drift
from tidegauge.outputs.delta import modes, output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = "SELECT id, 'old' AS v FROM range(5)"


def _halting(rows: str, started: Path, go: Path) -> MakeRows:
    """Rows that wait inside the job that reads them, in one task, so that others can go on."""

    def make(session: SparkSession) -> DataFrame:
        return session.sql(rows).coalesce(1).where(_wait(session, started, go))

    return make


def _wait(session: SparkSession, started: Path, go: Path) -> str:
    def wait(_: int) -> bool:
        started.touch()
        for _ in range(12000):
            if go.exists():
                return True
            time.sleep(0.05)
        raise TimeoutError("nobody let it go on")

    session.udf.register("halt", wait, "boolean")
    return "halt(id)"


def _until(file: Path) -> None:
    for _ in range(12000):
        if file.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{file} never came")


def test_b17_c8_what_an_older_life_has_in_hand_never_lands(spark: SparkSession, tmp_path: Path) -> None:
    """The reset comes while the job of an older batch is reading, inside Delta's own transaction."""
    path = tmp_path / "t"
    zombie, heir = (Writer(spark, delta_flow_of(path, Mode.APPEND)) for _ in range(2))
    zombie.put(1, ROWS)
    staged = zombie.stage(
        _halting("SELECT id, 'zombie' AS v FROM range(5)", tmp_path / "on", tmp_path / "go")
    )
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(zombie.publish, staged, 2)
        _until(tmp_path / "on")
        heir.open(1, empty=True)
        heir.put(1, "SELECT id, 'new' AS v FROM range(3)", epoch=1)
        (tmp_path / "go").touch()
        with pytest.raises(OutputDisagrees, match="later epoch"):
            late.result()
    assert heir.rows() == [(0, "new"), (1, "new"), (2, "new")]
    with pytest.raises(OutputDisagrees, match="later epoch"):
        zombie.put(2, ROWS)


@pytest.mark.long
def test_b17_a_merge_that_was_paused_before_it_began_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    zombie, heir = (Writer(spark, delta_flow_of(path, Mode.MERGE, key=("id",))) for _ in range(2))
    zombie.put(1, f"SELECT *, 'insert' AS _change_type FROM ({ROWS})")
    apply = modes.apply

    def paused(job: modes.DeltaWrite, checked: modes.CheckedChange) -> None:
        monkeypatch.setattr(modes, "apply", apply)
        heir.open(1, (0, 1))
        heir.put(1, values([(0, "new", "update_postimage")], "id, v, _change_type"), epoch=1)
        apply(job, checked)

    monkeypatch.setattr(modes, "apply", paused)
    with pytest.raises(OutputDisagrees, match="later epoch"):
        zombie.put(2, values([(0, "zombie", "u"), (9, "zombie", "u")], "id, v, _change_type"))
    assert heir.rows() == [(0, "new"), *((i, "old") for i in range(1, 5))]


def test_b17_a_table_that_a_paused_runner_makes_after_a_reset_takes_none_of_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    zombie, heir = (Writer(spark, delta_flow_of(tmp_path / "t", Mode.APPEND)) for _ in range(2))
    heir.open(1)
    staged = zombie.stage(ROWS)  # makes the table
    with pytest.raises(OutputDisagrees, match="later epoch"):
        zombie.publish(staged, 1)
    assert heir.output.is_open(1)
    assert heir.put(1, "SELECT id, 'new' AS v FROM range(1)", epoch=1).rows == 1
    assert heir.rows() == [(0, "new")]


@pytest.mark.parametrize(
    "other",
    [pytest.param("OPTIMIZE {}", marks=pytest.mark.long), "UPDATE {} SET v = 'theirs' WHERE id >= 3"],
)
def test_a_merge_beside_another_writer_is_tried_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """The other one commits while the merge is reading, so that Delta itself refuses its first try."""
    table = f"delta.`{tmp_path / 't'}`"
    writer = Writer(spark, delta_flow_of(tmp_path / "t", Mode.MERGE, key=("id",)))
    writer.put(1, f"SELECT *, 'insert' AS _change_type FROM ({ROWS})")
    apply, tries = modes.apply, []

    def beside(job: modes.DeltaWrite, checked: modes.CheckedChange) -> None:
        tries.append(job)
        if len(tries) > 1:
            return apply(job, checked)
        slow = checked.rows.coalesce(1).where(_wait(job.session, tmp_path / "on", tmp_path / "go"))
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(apply, job, replace(checked, rows=slow))
            _until(tmp_path / "on")
            spark.sql(other.format(table))
            (tmp_path / "go").touch()
            late.result()
        return None

    monkeypatch.setattr(modes, "apply", beside)
    done = writer.put(
        2, values([(0, "ours", "u"), (3, "ours", "u"), (9, "ours", "u")], "id, v, _change_type")
    )
    assert len(tries) == 2
    assert (done.inserted, done.updated) == (1, 2)
    found = dict(writer.rows("id, v"))
    assert (found[0], found[3], found[9]) == ("ours", "ours", "ours")
    assert found[4] == ("old" if "OPTIMIZE" in other else "theirs")


def test_b3_a_commit_whose_answer_was_lost_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(spark, delta_flow_of(tmp_path / "t", Mode.APPEND))
    apply = modes.apply

    def lost(job: modes.DeltaWrite, checked: modes.CheckedChange) -> None:
        apply(job, checked)
        raise ConnectionError("the driver went away")

    monkeypatch.setattr(modes, "apply", lost)
    assert writer.put(1, ROWS).rows == 5
    assert writer.rows("count(*)") == [(5,)]
    monkeypatch.setattr(output, "_TRIES", 2)
    monkeypatch.setattr(modes, "apply", _refused)
    with pytest.raises(OutputError, match=r"another writer \(OPTIMIZE\) kept committing") as failed:
        writer.put(2, ROWS)
    assert failed.value.retryable


def _refused(job: modes.DeltaWrite, checked: modes.CheckedChange) -> None:
    raise RuntimeError('[DELTA_CONCURRENT_DELETE_READ] Conflicting commit: {"operation":"OPTIMIZE"}')


def test_flows_side_by_side_share_no_setting(spark: SparkSession, tmp_path: Path) -> None:
    before = dict(spark.conf.getAll)
    barrier = threading.Barrier(2)

    def run(name: str) -> None:
        delta_flow = replace(delta_flow_of(tmp_path / name, Mode.APPEND), name=name)
        writer = Writer(spark, delta_flow)
        for seq in (1, 2):
            staged = writer.stage(f"SELECT id, '{name}' AS v FROM range(3)")
            barrier.wait()
            tag = replace(tag_of(seq), flow=name)
            batch = batch_of(seq)
            assert writer.output.commit(tag, batch, staged, layout=LAYOUT, run_id=name).run_id == name

    with ThreadPoolExecutor(2) as pool:
        for job in [pool.submit(run, name) for name in ("one", "two")]:
            job.result()
    for name in ("one", "two"):
        lines = [
            json.loads(line) for file in _logged(tmp_path / name) for line in file.read_text().splitlines()
        ]
        assert [(one["txn"]["appId"], one["txn"]["version"]) for one in lines if "txn" in one] == [
            (f"tidegauge/shop/{name}/0", 1),
            (f"tidegauge/shop/{name}/0", 2),
        ]
    assert dict(spark.conf.getAll) == before


def _logged(path: Path) -> list[Path]:
    return sorted((path / "_delta_log").glob("*.json"))


def test_drift_adds_and_widens_columns_and_a_row_that_is_written_has_none_that_is_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    evolving = Writer(spark, delta_flow_of(path, Mode.MERGE, key=("id",)))
    evolving.put(1, values([(1, 10, "x", "i"), (2, 20, "y", "i")], "id, n, old, _change_type"))
    evolving.put(2, "SELECT 2L AS id, 5000000000L AS n, 0.5D AS extra, 'u' AS _change_type")
    evolving.put(3, "SELECT 3 AS id, 7 AS N, 'u' AS _change_type")  # narrower again, and another spelling
    assert evolving.rows("id, n, old, extra") == [
        (1, 10, "x", None),
        (2, 5_000_000_000, None, 0.5),
        (3, 7, None, None),
    ]
    fields = evolving.output.layout()
    assert fields is not None
    assert [(one.name, one.type) for one in fields] == [
        ("id", "bigint"),
        ("n", "bigint"),
        ("old", "string"),
        ("extra", "double"),
    ]
    frozen = Writer(spark, delta_flow_of(path, Mode.MERGE, key=("id",), drift=Drift.FREEZE))
    frozen.put(4, "SELECT 4L AS id, 1L AS n, 'no' AS later, 'u' AS _change_type")
    assert any("later" in note and "freeze" in note for note in frozen.notes)
    failing = Writer(spark, delta_flow_of(path, Mode.MERGE, key=("id",), drift=Drift.FAIL))
    with pytest.raises(OutputDisagrees, match="no column later"):
        failing.put(5, "SELECT 4L AS id, 1L AS n, '' AS old, 0D AS extra, '' AS later, 'u' AS _change_type")
    with pytest.raises(OutputDisagrees, match=r"column n of .* is bigint, and the transform gives string"):
        evolving.put(5, "SELECT 4L AS id, 'many' AS n, 'u' AS _change_type")


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.MERGE])
def test_d9_a_column_that_only_a_failed_batch_had_is_not_told_to_be_dropped_when_it_comes_again(
    spark: SparkSession, tmp_path: Path, mode: Mode
) -> None:
    key = ("id",) if mode is Mode.MERGE else ()
    writer = Writer(spark, delta_flow_of(tmp_path / "t", mode, key=key))
    kind = ", 'u' AS _change_type" if key else ""
    with pytest.raises(TransformFailed, match=r"[Dd]ivision by zero"):
        writer.put(1, f"SELECT id, string(1 DIV (id - 1)) AS word{kind} FROM range(3)")
    writer.put(1, f"SELECT 1L AS id{kind}")
    assert writer.rows("*") == [(1,)]
    writer.put(2, f"SELECT 2L AS id, 'b' AS word{kind}")
    assert writer.rows("*") == [(1, None), (2, "b")]


def test_a_target_that_somebody_made_or_changed(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, v STRING NOT NULL) USING DELTA")
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT small CHECK (id < 100)")
    writer = Writer(spark, delta_flow_of(path, Mode.APPEND))
    assert writer.output.is_empty()
    assert writer.put(1, ROWS).rows == 5
    assert any("change data feed" in note for note in writer.notes)
    with pytest.raises(OutputDisagrees, match=r"column v of .* must not be NULL"):
        writer.put(2, "SELECT 1L AS id, CAST(NULL AS string) AS v")
    with pytest.raises(OutputDisagrees, match="CHECK constraint small"):
        writer.put(2, "SELECT 100L AS id, 'x' AS v")
    with pytest.raises(OutputDisagrees, match="column v that must not be NULL"):
        writer.put(2, "SELECT 1L AS id")
    with pytest.raises(TransformFailed, match=r"[Dd]ivision by zero"):
        writer.put(2, "SELECT 1L AS id, string(1 DIV (id - 1)) AS v FROM range(3)")
    assert writer.put(2, ROWS).rows == 5
    keyed = Writer(spark, delta_flow_of(path, Mode.MERGE, key=("k",)))
    with pytest.raises(OutputDisagrees, match="has no column k"):
        keyed.put(3, "SELECT 1 AS k, 'x' AS v, 'i' AS _change_type")
