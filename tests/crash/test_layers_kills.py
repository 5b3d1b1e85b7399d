"""What is done by hand to flows between Delta tables, and to the tables themselves, killed half-way.

The killed processes use the Spark of the tests, so that most deaths cost no Java.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash import dying
from tests.crash.attached import address_of
from tests.crash.dying import Death, Stop
from tests.crash.javas import Alone
from tests.crash.pausing import stands_still
from tests.crash.test_matrix_layers import MODES, Rows, Table
from tests.support import haste
from tests.support.nursery import Nursery, start_nursery
from tests.support.project import Ran, here, until
from tidegauge.config.load import load_project
from tidegauge.ledger.open import open_ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHY = ("--reason", "a test", "--yes")
FEED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
KEEPER = "tidegauge.ledger.base:BaseLedger"
EPOCHS = "tidegauge.outputs.delta.epochs:DeltaEpochs"
WRITE = "tidegauge.outputs.delta"
BEGUN, MARKED, LOGGED, ENDED = (
    Death((f"{KEEPER}.begin_override",)),
    Death((f"{EPOCHS}._put_marker",)),
    Death((f"{EPOCHS}._put_commit",)),
    Death((f"{KEEPER}.end_override",)),
)
UNBEGUN = Death((f"{KEEPER}.begin_override",), "before")
COMMIT = f"{WRITE}.small_target:SmallTarget.commit"
FORGOTTEN = Death((f"{WRITE}.place:OpenDeltaTable.forget_events",))


class Layers:
    """A project of flows between the tables of a folder."""

    def __init__(self, spark: SparkSession, nursery: Nursery, folder: Path) -> None:
        self.spark, self.nursery, self.folder = spark, nursery, folder
        self.shared = address_of(spark)
        self.flows: dict[str, str] = {}
        self.ledger = "sqlite:///ledger.db"

    @property
    def file(self) -> Path:
        return self.folder / "tidegauge.yml"

    def write(self) -> None:
        (self.folder / "now.sql").write_text(MODES["merge"].transform)
        flows = "".join(f"  {name}: {{{body}}}\n" for name, body in self.flows.items())
        spark = {"conf": haste.CONF_AND_JAVA}
        # Only an override takes a flow away from a runner that stands still.
        top = f"pipeline: crash\nledger: '{self.ledger}'\nlease: 10m\nspark: {json.dumps(spark)}\n"
        self.file.write_text(f"{top}flows:\n{flows}")

    def type(self, *words: object, code: int = 0) -> Ran:
        ran = here(*words, "--project", self.file)
        assert ran.code == code, ran.said
        return ran

    def run(self, *words: object, code: int = 0) -> Ran:
        return self.type("run", "--json", *words, code=code)

    def die(self, at: Death, *words: object, on_spark: bool = False) -> None:
        """In a process that needs no Spark, unless said."""
        spark = self.shared if on_spark else None
        ended = dying.run(self.nursery, at, spark, *words, "--project", self.file)
        assert ended.code == -signal.SIGKILL, (at, words, ended)

    def sql(self, statement: str) -> Rows:
        """`@name` is the table of that name."""
        words = [
            f"delta.`{self.folder}/{word[1:]}`" if word[:1] == "@" else word for word in statement.split(" ")
        ]
        return [tuple(row) for row in self.spark.sql(" ".join(words)).collect()]

    def marks(self) -> dict[str, tuple[Any, ...]]:
        """Of each flow its position, epoch and batch."""
        with open_ledger(load_project(self.file).ledger, create=False) as ledger:
            found = ledger.watermarks("crash")
        return {one.flow: (one.position, one.epoch, one.seq) for one in found}

    def check(self, rows: Rows, **modes: str) -> None:
        """The target of every flow named is what its mode makes of all that was ever written."""
        for flow, mode in modes.items():
            found = self.sql(f"SELECT {MODES[mode].columns} FROM @{flow}")
            assert sorted(map(str, found)) == sorted(map(str, MODES[mode].oracle(rows))), flow


@pytest.fixture
def delta_flows(spark: SparkSession, nursery: Nursery, tmp_path: Path) -> Layers:
    return Layers(spark, nursery, tmp_path)


@pytest.fixture
def zombies() -> Iterator[Nursery]:
    """For a process that stands still while another one runs."""
    with start_nursery() as started:
        yield started


MERGE = "inputs: {t: {path: t}}, transform: now.sql, output: {path: merge, key: id}"
APPEND = "inputs: {t: {path: t}}, output: {path: append, mode: append}"
SCD2 = "mode: scd2, key: id, sequence_by: version"


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Layers, Table]:
    """One source that went into three targets; each test has a copy of them."""
    delta_flows = Layers(spark, nursery, tmp_path_factory.mktemp("made"))
    table = Table(spark, delta_flows.folder)
    table.change(0)
    delta_flows.flows = {
        "merge": MERGE,
        "append": APPEND,
        "scd2": f"inputs: {{t: {{path: t}}}}, output: {{path: scd2, {SCD2}}}",
    }
    delta_flows.write()
    delta_flows.run("--parallel", 3)
    return delta_flows, table


@pytest.fixture
def table(made: tuple[Layers, Table], delta_flows: Layers) -> Table:
    theirs, source = made
    shutil.copytree(theirs.folder, delta_flows.folder, dirs_exist_ok=True)
    delta_flows.flows = dict(theirs.flows)
    copied = copy(source)
    copied.rows, copied.name = [*source.rows], f"delta.`{delta_flows.folder}/t`"
    return copied


@pytest.mark.long
def test_b4_a_rebuild_killed_at_any_step_is_done_again_and_nothing_is_lost_or_comes_twice(
    delta_flows: Layers, table: Table
) -> None:
    delta_flows.type("watermark", "reset", "--select", "merge", *WHY)
    delta_flows.run()
    whole = delta_flows.marks()
    assert {flow: mark[1:] for flow, mark in whole.items()} == {
        "merge": (1, 1),
        "append": (0, 1),
        "scd2": (0, 1),
    }
    rebuild = ("ledger", "rebuild", *WHY)

    def lose(ledger: str) -> None:
        delta_flows.ledger = ledger
        delta_flows.write()

    # Files are put into their places one by one, and the process dies after each of them in turn.
    writes = (
        "tidegauge.storage.local:LocalFiles.replace",
        "tidegauge.storage.local:LocalFiles.put_if_absent",
    )
    for number in itertools.count(1):
        lose(f"json:lost/{number}")
        words = (*rebuild, "--project", delta_flows.file)
        if dying.run(delta_flows.nursery, Death(writes, times=number), None, *words).code == 0:
            break
        delta_flows.type(*rebuild)
        assert delta_flows.marks() == whole, number
    assert number > len(whole), "it was to die inside"

    for number, side in ((1, "before"), (1, "after"), (2, "after"), (3, "after")):
        lose(f"sqlite:///lost{number}{side}.db")
        delta_flows.die(Death((f"{KEEPER}.rebuild",), side, number), *rebuild)
        kept = delta_flows.marks()
        assert len(kept) == (number if side == "after" else 0)
        assert kept.items() <= whole.items()
        if number == 2:
            # Nobody rebuilds it a second time: what stands goes on, and what does not is refused.
            table.change(1)
            ran = delta_flows.run(code=1)
            [lost] = set(whole) - set(kept)
            assert "ledger rebuild" in ran.flow(lost)["error"]["hint"], ran.said
            assert {ran.flow(flow)["state"] for flow in kept} == {"SUCCESS"}, ran.said
            delta_flows.type(*rebuild)
            delta_flows.run()
            whole = delta_flows.marks()
            delta_flows.check(table.rows, merge="merge", append="append", scd2="scd2")
        delta_flows.type(*rebuild)
        assert delta_flows.marks() == whole
    assert {one["state"] for one in delta_flows.run().json["flows"]} == {"SKIPPED"}
    delta_flows.check(table.rows, merge="merge", append="append", scd2="scd2")


RESET = ("watermark", "reset")
SET = ("watermark", "set", "--position", "{}")
"""To where it stands, in a new epoch."""
REFRESH = ("run", "--full-refresh")
Round = dict[str, tuple[tuple[str, ...], Death]]
ROUNDS: list[Round] = [
    {"merge": (RESET, BEGUN), "append": (REFRESH, MARKED), "scd2": (REFRESH, FORGOTTEN)},
]
EVERY_ROUND: list[Round] = [
    {"merge": (merge, at), "append": (REFRESH, at), "scd2": (scd2, at)}
    for at in (UNBEGUN, BEGUN, MARKED, LOGGED, ENDED)
    for merge, scd2 in ((RESET, REFRESH), (SET, RESET))
]


@pytest.mark.long
@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(EVERY_ROUND, marks=pytest.mark.long)])
def test_b17_an_override_of_delta_flows_killed_at_any_step_is_ended_by_the_next_run(
    delta_flows: Layers, table: Table, rounds: Sequence[Round]
) -> None:
    epochs = dict.fromkeys(delta_flows.flows, 0)
    for turn, one in enumerate(rounds, 1):
        for flow, (words, at) in one.items():
            delta_flows.die(at, *(word.format(turn) for word in words), "--select", flow, *WHY)
            epochs[flow] += at != UNBEGUN
        table.change(turn)
        delta_flows.run("--parallel", 3)
        assert {flow: mark[1] for flow, mark in delta_flows.marks().items()} == epochs
        delta_flows.check(table.rows, merge="merge", append="append", scd2="scd2")


@pytest.mark.long
def test_a_plan_of_a_changed_transform_is_evaluated_whole_by_whoever_takes_it_up(
    delta_flows: Layers, table: Table
) -> None:
    delta_flows.flows = {"merge": MERGE}
    delta_flows.write()
    table.change(1)
    delta_flows.run()
    now = delta_flows.folder / "now.sql"
    now.write_text(f"SELECT id, version, concat(word, '!') AS word FROM ({now.read_text()})")
    table.change(2)  # and row 1 stays as it was
    delta_flows.die(Death((f"{WRITE}.modes:apply",), "before"), "run", on_spark=True)
    ran = delta_flows.run()
    assert any(one["resumed"] for one in ran.json["flows"]), ran.said
    kept = MODES["merge"].oracle(table.rows)
    found = delta_flows.sql("SELECT id, version, word FROM @merge")
    assert sorted(found) == sorted((id_, version, f"{word}!") for id_, version, word in kept)


@pytest.mark.long
def test_b15_a_merge_whose_watermark_was_set_back_obeys_the_law_all_the_same(
    delta_flows: Layers, table: Table
) -> None:
    delta_flows.flows = {"merge": MERGE}
    delta_flows.write()
    table.change(1)
    delta_flows.run()
    delta_flows.die(MARKED, "watermark", "set", "--position", "1", "--select", "merge", *WHY)
    table.change(2)
    delta_flows.run()
    delta_flows.check(table.rows, merge="merge")


def history(delta_flows: Layers, source: str, *rows: tuple[int, int, str]) -> None:
    """Each row is what its key is from then on, in a commit of its own."""
    delta_flows.sql(f"CREATE TABLE IF NOT EXISTS @{source} (id INT, version INT, word STRING) {FEED}")
    for row in rows:
        delta_flows.sql(
            f"MERGE INTO @{source} t USING (SELECT * FROM VALUES {row} AS v(id, version, word)) s"
            " ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )


def spans(delta_flows: Layers, flow: str) -> Rows:
    found = delta_flows.sql(f"SELECT word, valid_from, valid_to FROM @{flow}")
    return sorted(found, key=lambda row: row[1])


@pytest.mark.long
def test_b17_a_runner_paused_in_its_commit_before_an_override_cannot_write_into_the_new_life(
    delta_flows: Layers, table: Table, zombies: Nursery
) -> None:
    delta_flows.flows = {
        "merge": MERGE,
        "append": APPEND,
        "reset": f"inputs: {{h: {{path: h}}}}, output: {{path: reset, {SCD2}}}",
        "refreshed": f"inputs: {{h: {{path: h}}}}, output: {{path: refreshed, {SCD2}}}",
    }
    delta_flows.write()
    history(delta_flows, "h", (1, 5, "x"))
    delta_flows.run("--parallel", 4)

    # It has looked for its epoch for the last time in each of the four. Of the histories, the row that came
    # changes nothing: only the table beside them is told of it.
    table.change(1)
    history(delta_flows, "h", (1, 10, "x"))
    stop = Stop({COMMIT: 2, f"{WRITE}.small_history:keep_beside": 2})
    words = ("run", "--json", "--parallel", 4, "--project", delta_flows.file)
    zombie = dying.start(zombies, stop, delta_flows.shared, *words, seconds=600)
    until(lambda: stands_still(zombie))

    for flow in ("merge", "reset"):
        delta_flows.type("watermark", "reset", "--select", flow, *WHY)
    # The histories begin again from a table that never had that row.
    delta_flows.flows = {
        name: body.replace("path: h}", "path: anew}") for name, body in delta_flows.flows.items()
    }
    delta_flows.write()
    history(delta_flows, "anew", (1, 5, "x"), (1, 12, "y"))
    delta_flows.run("--parallel", 4, "--full-refresh", "--select", "append", "--select", "refreshed", *WHY)
    delta_flows.run("--parallel", 4)
    delta_flows.check(table.rows, merge="merge", append="append")
    marks = delta_flows.marks()

    os.kill(zombie, signal.SIGCONT)
    ended = zombies.end()
    assert ended.code == 1, ended
    for flow in delta_flows.flows:
        error = ended.flow(flow)["error"]
        assert error is not None, ended
        assert error["type"] in ("LeaseLost", "OutputDisagrees"), ended
    assert delta_flows.marks() == marks
    delta_flows.check(table.rows, merge="merge", append="append")
    beside = delta_flows.sql("SELECT version FROM @reset/_tidegauge_events WHERE _tidegauge_epoch = 0")
    assert (10,) in beside, "it was to write what nobody may read"

    # Late, and between what the two have: the row that the dead epoch knew would show now.
    history(delta_flows, "anew", (1, 7, "z"))
    delta_flows.run()
    for flow in ("reset", "refreshed"):
        assert spans(delta_flows, flow) == [("x", 5, 7), ("z", 7, 12), ("y", 12, None)], flow


@pytest.mark.long
def test_d7_a_history_killed_between_its_kept_events_and_its_commit_is_whole_again(
    delta_flows: Layers,
) -> None:
    delta_flows.flows = {"it": f"inputs: {{h: {{path: h}}}}, output: {{path: it, {SCD2}}}"}
    delta_flows.write()
    kept = Death((f"{WRITE}.small_history:keep_beside",))
    history(delta_flows, "h", (1, 5, "x"), (1, 10, "x"))
    delta_flows.die(kept, "run", on_spark=True)
    assert spans(delta_flows, "it") == []
    history(delta_flows, "h", (1, 7, "z"))
    # The first batch is ended, and its events are there already; the second one dies at the same place.
    delta_flows.die(kept, "run", on_spark=True)
    assert spans(delta_flows, "it") == [("x", 5, None)]
    delta_flows.run()
    assert spans(delta_flows, "it") == [("x", 5, 7), ("z", 7, 10), ("x", 10, None)]
    assert set(delta_flows.sql("SELECT version FROM @it/_tidegauge_events")) == {(5,), (7,), (10,)}
    assert {one["state"] for one in delta_flows.run().json["flows"]} == {"SKIPPED"}


SMALL = [
    Death(("tidegauge.delta_log.data_files:FileColumns.write",)),  # a file, and no commit that names it
    Death(("tidegauge.delta_log.snapshot:Log.put",), "before"),
    Death(("tidegauge.delta_log.snapshot:Log.put",)),
    Death((COMMIT,)),
]


def test_b1_b2_a_small_target_killed_around_its_commit_without_spark_loses_and_doubles_nothing(
    delta_flows: Layers, table: Table
) -> None:
    delta_flows.flows = {"merge": MERGE}
    delta_flows.write()
    for turn, at in enumerate(SMALL, 1):
        table.change(turn)
        delta_flows.die(at, "run", on_spark=True)
    delta_flows.run()
    delta_flows.check(table.rows, merge="merge")
    commits = delta_flows.sql("DESCRIBE HISTORY @merge")
    assert {one[14] for one in commits[:-1]} >= {"tidegauge"}, commits
    seqs = [json.loads(said)["seq"] for one in commits if (said := one[13])]
    assert seqs == sorted(set(seqs), reverse=True), seqs


MANY = "inputs: {t: {path: t}}, output: {path: many, key: id}"


def load_many(delta_flows: Layers, **flows: str) -> None:
    delta_flows.sql(f"CREATE TABLE @t (id INT, version INT, word STRING) {FEED}")
    delta_flows.sql("INSERT INTO @t SELECT id, 0, uuid() FROM range(60000)")
    delta_flows.flows = flows
    delta_flows.write()
    delta_flows.run()


def move(delta_flows: Layers, version: int) -> None:
    delta_flows.sql(f"UPDATE @t SET version = {version}, word = md5(word) WHERE id % 3 <> 0")
    delta_flows.sql(f"DELETE FROM @t WHERE id % 100 = {version}")


def check_many(delta_flows: Layers) -> None:
    [wanted] = delta_flows.sql("SELECT count(*), sum(hash(*)) FROM @t")
    for flow in delta_flows.flows:
        found = delta_flows.sql(f"SELECT count(*), sum(hash(id, version, word)) FROM @{flow}")
        assert found == [wanted], flow


def test_b1_a_runner_whose_java_dies_with_it_inside_a_merge_leaves_nothing_half_done(
    delta_flows: Layers,
) -> None:
    load_many(delta_flows, many=MANY)
    for turn in range(1, 6):
        move(delta_flows, turn)
        before = delta_flows.sql("DESCRIBE HISTORY @many")
        with Alone(delta_flows.file, "run") as alone:
            alone.kill_when_files_come(delta_flows.folder / "many")
        if len(delta_flows.sql("DESCRIBE HISTORY @many")) == len(before):
            break
        # On a busy machine the commit may be faster than the kill.
    else:
        pytest.fail("it was to die before it committed")
    ended = delta_flows.nursery.run(delta_flows.file, None, delta_flows.shared)
    assert ended.code == 0, ended
    check_many(delta_flows)


def test_c1_a_vacuum_or_compaction_killed_between_its_steps_takes_nothing_that_a_reader_needs(
    delta_flows: Layers, table: Table
) -> None:
    delta_flows.flows = {
        "merge": MERGE,
        "reader": "inputs: {merge: {path: merge}}, output: {path: reader, key: id}",
    }
    delta_flows.write()
    delta_flows.run()
    table.change(1)
    merge = ("--select", "merge")
    delta_flows.run(*merge)
    # The reader has not seen the last change yet.
    delta_flows.die(
        Death(("tidegauge.flows.maintenance.optimize:vacuum",), "before"), "optimize", *merge, on_spark=True
    )
    vacuum = ("vacuum", "--retain", "0h", "--yes", *merge)
    delta_flows.type(*vacuum, code=1)
    delta_flows.run()
    delta_flows.check(table.rows, reader="merge")
    delta_flows.die(
        Death(("tidegauge.operations.delta_tables:SelectedMaintenance.note",), "before"),
        *vacuum,
        on_spark=True,
    )
    table.change(2)
    delta_flows.run()
    delta_flows.check(table.rows, reader="merge")


@pytest.mark.long
@pytest.mark.parametrize("words", [("optimize", "--no-vacuum"), ("vacuum", "--retain", "0h", "--yes")])
def test_c1_a_vacuum_or_compaction_whose_java_dies_half_way_takes_nothing_that_a_reader_needs(
    delta_flows: Layers, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # By Spark, which leaves many files: without it each commit would make one of them.
    monkeypatch.setenv("TIDEGAUGE_SMALL_BATCHES", "off")
    load_many(delta_flows, many=MANY, reader="inputs: {many: {path: many}}, output: {path: reader, key: id}")
    for version in (1, 2, 3):
        move(delta_flows, version)
        delta_flows.run()
    with Alone(delta_flows.file, *words) as alone:
        if words[0] == "optimize":
            alone.kill_when_files_come(delta_flows.folder / "many")
        else:
            alone.kill_when_files_go(delta_flows.folder / "many")
    check_many(delta_flows)
    move(delta_flows, 4)
    delta_flows.run()
    check_many(delta_flows)
