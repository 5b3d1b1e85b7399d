"""Flows that optimize the tables of others: after them, only where it pays, and not again for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.support.project import Ran, here, refused
from tidegauge.flows.maintenance import optimize as optimizing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

YAML = """
pipeline: p
spark: {conf: {spark.sql.shuffle.partitions: "2"}}
flows:
  silver: {inputs: {orders: {path: bronze}}, output: {path: silver, mode: append}, tags: silver}
  gold: {inputs: {orders: {path: silver}}, transform: gold.sql, output: {path: gold, key: id}, tags: gold}
  tidy: {kind: optimize, select: "tag:silver", tags: night}
"""


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


class Layers:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, *ids: int) -> None:
        from deltalake import write_deltalake

        write_deltalake(
            str(self.folder / "bronze"),
            pa.table({"id": list(ids), "amount": [10 * one for one in ids]}),
            mode="append",
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def write(self, yaml: str = YAML, gold: str = "SELECT id, amount FROM orders") -> None:
        (self.folder / "tidegauge.yml").write_text(yaml)
        (self.folder / "gold.sql").write_text(gold)

    def tidegauge(self, *words: str) -> Ran:
        return here(*words, "--project", self.folder)

    def run(self, *words: str) -> Ran:
        ran = self.tidegauge("run", "--json", *words)
        assert ran.code == 0, ran.said
        return ran

    def operations(self, table: str) -> list[str]:
        """Of its commits, in order."""
        commits = sorted((self.folder / table / "_delta_log").glob("*.json"))
        lines = [json.loads(line) for one in commits for line in one.read_text().splitlines()]
        return [line["commitInfo"]["operation"] for line in lines if "commitInfo" in line]


def states(ran: Ran) -> dict[str, str]:
    return {flow["flow"]: flow["state"] for flow in ran.json["flows"]}


@pytest.fixture
def layers(spark: SparkSession, tmp_path: Path) -> Layers:
    made = Layers(tmp_path)
    made.write()
    for one in (1, 2):
        made.add(one)
        made.run("--select", "silver")
    return made


def test_tables_are_compacted_after_their_flows_and_that_is_no_change_for_anybody(layers: Layers) -> None:
    planned = layers.tidegauge("plan", "--json")
    assert planned.flow("tidy")["state"] == "PLANNED"
    assert planned.flow("tidy")["upstreams"] == ["silver"]
    [said] = [note for note in planned.flow("tidy")["notes"] if note.startswith("silver: 2 files")]
    assert said.endswith("would be compacted")

    layers.add(4)
    ran = layers.run()
    assert states(ran) == {"silver": "SUCCESS", "gold": "SUCCESS", "tidy": "SUCCESS"}
    [table] = ran.flow("tidy")["tables"]
    assert (table["flow"], table["files_before"], table["files_after"]) == ("silver", 3, 1)
    assert table["bytes_before"] > table["bytes_after"] > 0
    assert layers.operations("silver").count("OPTIMIZE") == 1
    assert "VACUUM START" not in layers.operations("silver"), "nothing in it is old enough"
    events = layers.tidegauge("history", "--json").json["events"]
    assert [one["reason"] for one in events if one["event"] == "optimized"] == ["by the flow tidy"]

    # Its commit is a version that gold has not read, and nothing new for gold, nor for itself.
    for _ in range(2):
        again = layers.run()
        assert states(again) == {"silver": "SKIPPED", "gold": "SKIPPED", "tidy": "SKIPPED"}
        assert again.flow("tidy")["tables"][0]["left_alone"] == "it has no small files"
    assert layers.operations("silver")[-1] == "OPTIMIZE"
    assert layers.operations("gold") == ["CREATE TABLE", "MERGE"]

    layers.add(5)
    shown = layers.tidegauge("run", "--select", "silver+")
    assert shown.code == 0, shown.said
    assert "tidy: silver: 2 files, " in shown.out
    assert " ─▶ 1 file, " in shown.out
    assert layers.tidegauge("verify").code == 0

    # It is found by the words of a selection, and has nothing of its own.
    assert states(layers.run("--select", "tag:night")) == {"tidy": "SKIPPED"}
    assert states(layers.run("--select", "+tidy")) == {"silver": "SKIPPED", "tidy": "SKIPPED"}
    assert "tidy is an optimize flow" in layers.tidegauge("status").out
    for command in ("health", "verify"):
        assert "tidy" in refused(layers.tidegauge(command, "--select", "tidy"), "tidy", "", code=2)
    graph = layers.tidegauge("plan", "--graph").out
    assert "tidy " in graph
    assert "optimize" in graph
    assert 'tidy<br/>optimize"]' in layers.tidegauge("plan", "--mermaid").out


def test_it_is_skipped_where_a_flow_that_it_looks_after_failed_and_waits_for_readers(layers: Layers) -> None:
    layers.add(4)
    layers.write(YAML.replace("mode: append}", "mode: append, partition_by: day}"))
    ran = layers.tidegauge("run", "--json")
    assert ran.code == 1
    assert states(ran) == {"silver": "FAILED", "gold": "SKIPPED", "tidy": "SKIPPED"}
    assert ran.flow("tidy")["notes"] == ["silver did not end well"]
    assert "OPTIMIZE" not in layers.operations("silver")

    # A reader that fails does not hold it back: its versions are kept for it all the same.
    layers.write(gold="SELECT id, nothing FROM orders")
    ran = layers.tidegauge("run", "--json")
    assert (ran.flow("gold")["state"], ran.flow("tidy")["state"]) == ("FAILED", "SUCCESS")


@pytest.mark.long
def test_a_run_killed_before_or_after_the_compaction_is_made_good_by_the_next(
    layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact = optimizing._compact

    def die_before(*_: Any) -> None:
        raise Killed

    def die_after(*parts: Any) -> None:
        compact(*parts)
        raise Killed

    for die, files, then in ((die_before, 2, "SUCCESS"), (die_after, 1, "SKIPPED")):
        monkeypatch.setattr(optimizing, "_compact", die)
        with pytest.raises(Killed):
            layers.tidegauge("run", "--json")
        monkeypatch.setattr(optimizing, "_compact", compact)
        ran = layers.run()
        assert ran.flow("tidy")["state"] == then
        assert ran.flow("tidy")["tables"][0]["files_before"] == files
        assert layers.tidegauge("verify").code == 0
        layers.add(7 + files)
        layers.run("--select", "silver")
    assert layers.operations("silver").count("OPTIMIZE") == 2
