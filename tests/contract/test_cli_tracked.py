"""`--pipeline NAME`: commands that reach the pipelines of a tracker; and versions by a moment."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.project import Ran, here
from tidegauge import WatermarkTracker
from tidegauge.errors import ConfigError
from tidegauge.ledger.open import open_ledger

NOON = datetime(2025, 8, 1, 12)
HOUR = timedelta(hours=1)


@pytest.fixture
def folder(tmp_path: Path, store_address: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEDGER", store_address)
    lines = ["pipeline: shop", 'ledger: "${env:LEDGER}"', "connections: {app: {type: sqlite, path: a.db}}"]
    (tmp_path / "tidegauge.yml").write_text("\n".join(lines) + "\n")
    with WatermarkTracker(store_address) as tracker:
        record = tracker.start_pipeline_run("wos", "job 1", end=NOON)
        tracker.finalize_pipeline_run(record, "SUCCESS", rows=7)
        plan = tracker.prepare_processing_plan_for_schemas("silver", latest_versions={"a": 5, "b": 9})
        tracker.mark_run_completed(plan.run_id)
        tracker.prepare_processing_plan_for_schemas("silver", latest_versions={"a": 7, "b": 9})
    return tmp_path


def ask(folder: Path, *words: object) -> Ran:
    return here(*words, "--project", folder)


def asked(folder: Path, *words: object) -> Any:
    ran = ask(folder, *words, "--json")
    assert ran.code == 0, ran
    return json.loads(ran.out)


def checkpoints(address: str) -> dict[str, int]:
    with WatermarkTracker(address) as tracker:
        return tracker.load_checkpoints(pipeline="silver")


def test_a_trackers_pipeline_is_shown_by_every_command_that_shows(folder: Path) -> None:
    [mark] = asked(folder, "watermark", "list", "--pipeline", "wos")["watermarks"]
    assert (mark["pipeline"], mark["position"]["cursor"]) == ("wos", "2025-08-01 12:00:00.000000")
    [stage] = asked(folder, "watermark", "get", "--pipeline", "silver")["stages"]
    assert {one["input"]: one["position"] for one in stage["watermarks"]} == {"a": 5, "b": 9}
    shown = ask(folder, "watermark", "get", "--pipeline", "silver").out
    assert "planned: a, after version 5 up to version 7" in shown
    events = asked(folder, "history", "--pipeline", "wos")["events"]
    assert [one["event"] for one in events] == ["finished", "advanced", "claimed", "planned"]
    [flow] = asked(folder, "status", "--pipeline", "silver")["flows"]
    assert (flow["flow"], flow["state"]) == ("silver", "PLANNED")
    [health] = asked(folder, "health", "--pipeline", "wos")["flows"]
    assert health["flow"] == "wos"
    for words in (["watermark", "list"], ["watermark", "get"], ["history"], ["status"], ["health"]):
        ran = ask(folder, *words, "--pipeline", "nobody")
        assert ran.code == 2
        assert "silver, wos" in ran.err


def test_a_trackers_watermarks_are_not_imported_into_the_project(folder: Path) -> None:
    shown = ask(folder, "watermark", "get", "--pipeline", "silver", "--json")
    (folder / "silver.json").write_text(shown.out)
    refused = ask(folder, "watermark", "import", folder / "silver.json", "--reason", "moved", "--yes")
    assert refused.code == 2
    assert "silver, a pipeline of a WatermarkTracker" in refused.err
    assert "watermark set --pipeline" in refused.err


def test_a_trackers_watermark_is_set_and_reset_by_hand(folder: Path, store_address: str) -> None:
    change = ("--reason", "known good", "--yes", "--pipeline")
    later = ask(folder, "watermark", "set", "--timestamp", "2025-08-01 13:00:00", *change, "wos")
    assert later.code == 0, later
    back = ask(folder, "watermark", "set", "--timestamp", "2025-08-01 11:00:00", *change, "wos")
    assert (back.code, "add --force" in back.err) == (2, True)
    with WatermarkTracker(store_address) as tracker:
        assert tracker.get_last_processed_timestamp("wos") == NOON + HOUR
    done = asked(folder, "watermark", "set", "-t", "a", "--position", 6, *change, "silver")
    assert (done["done"], done["flows"][0]["supersedes"]) == (True, "PLANNED")
    assert checkpoints(store_address) == {"a": 6, "b": 9}
    assert ask(folder, "watermark", "reset", "-t", "a", "--dry-run", "--pipeline", "silver").code == 0
    assert checkpoints(store_address) == {"a": 6, "b": 9}
    assert ask(folder, "watermark", "reset", "-t", "a", *change, "silver").code == 0
    assert checkpoints(store_address) == {"b": 9}
    assert ask(folder, "watermark", "reset", *change, "silver").code == 0
    assert checkpoints(store_address) == {}
    with open_ledger(store_address, create=False) as ledger:
        said = [one for one in ledger.history("silver") if one.reason and "known good" in one.reason]
    assert said


@pytest.mark.shown_on("sqlite")
def test_what_a_tracker_cannot_be_set_to_is_refused(folder: Path) -> None:
    for words, says in {
        ("--position", "6", "--pipeline", "silver"): "a version for each table",
        ("-t", "c", "--position", "6", "--pipeline", "silver"): "no table 'c'",
        ("-t", "a", "--position", "x", "--pipeline", "silver"): "'x' is no version",
        (
            "-t",
            "a",
            "--timestamp",
            "2025-08-01",
            "--pipeline",
            "silver",
        ): "does not know where its tables lie",
        ("--position", "6", "--pipeline", "wos"): "windows of time",
        ("--timestamp", "yesterday", "--pipeline", "wos"): "not a point in time",
    }.items():
        ran = ask(folder, "watermark", "set", *words, "--reason", "x", "--yes")
        assert (ran.code, says in ran.err) == (2, True), ran


def tables_of(folder: Path, *names: str) -> dict[str, str]:
    return {name: str(folder / name) for name in names}


def commit(path: str) -> datetime:
    write_deltalake(path, pa.table({"id": [1]}), mode="append")
    return datetime.fromtimestamp(DeltaTable(path).history(1)[0]["timestamp"] / 1000, UTC)


def test_all_tables_can_be_planned_up_to_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tables_of(tmp_path, "a", "b", "new")
    commit(tables["a"])
    cut = commit(tables["b"])
    while commit(tables["a"]) <= cut or commit(tables["b"]) <= cut or commit(tables["new"]) <= cut:
        pass
    with WatermarkTracker(f"sqlite:///{tmp_path}/l.db") as tracker:
        prepare = tracker.prepare_processing_plan_for_schemas
        with monkeypatch.context() as then:
            then.setattr(tracker._ledger, "now", lambda: cut.replace(tzinfo=None))
            plan = prepare("silver", tables=tables, by="timestamp")
        assert plan.ranges == {"a": (0, 0), "b": (0, 0)}
        assert plan.tables["b"].commit_timestamp == cut
        assert "every table up to" in plan.notes[-1]
        tracker.mark_run_completed(plan.run_id)
        following = prepare("silver", tables=tables, by="timestamp")
        assert {name: last for name, (_, last) in following.ranges.items()} == tracker.get_latest_versions(
            tables=tables
        )
        with pytest.raises(ConfigError):
            prepare("other", latest_versions={"a": 1}, by="timestamp")
        with pytest.raises(ConfigError):
            prepare("other", tables=tables, by="snapshot")


def test_a_delta_flow_is_set_to_the_version_of_a_moment(tmp_path: Path) -> None:
    first = commit(str(tmp_path / "in"))
    while commit(str(tmp_path / "in")) <= first:
        pass
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: shop\nledger: sqlite:///l.db\nflows:\n  f:\n    inputs: {o: {path: in, cursor: version}}\n"
        "    output: {path: out, mode: merge, key: id}\n"
    )
    moment = first.isoformat(sep=" ")
    shown = asked(tmp_path, "watermark", "set", "--select", "f", "--timestamp", moment, "--dry-run")
    assert shown["flows"][0]["to"] == 0
    early = ask(tmp_path, "watermark", "set", "--select", "f", "--timestamp", "2001-01-01", "--dry-run")
    assert (early.code, "has no version of" in early.err) == (1, True)
