"""A runner whose process is gone holds no flow, and no command names it as the one that does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.contract.test_rebuild import shop
from tests.support.dashboard import GONE, MINUTE
from tests.support.drafts import draft
from tests.support.project import Project
from tidegauge import WatermarkTracker
from tidegauge.config.load import load_project
from tidegauge.dashboard.app import make_app
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.claim import Owner

HOLDERS = pytest.mark.parametrize(
    ("owner", "held"), [(this_process(), True), (GONE, False)], ids=["at work", "its process is gone"]
)


def _claimed(folder: Path, owner: Owner) -> Project:
    """A shop that ran, and whose extract is now RUNNING."""
    project = shop(folder)
    assert project.here("run").code == 0
    with open_ledger(f"sqlite:///{project.ledger_file}", create=True) as ledger:
        plan = ledger.plan([draft("orders/extract", pipeline="test", start=9)], owner=owner, run_id="r")
        ledger.claim(plan["orders/extract"], owner=owner, run_id="r", lease=60 * MINUTE)
    return project


@HOLDERS
def test_only_a_runner_that_is_there_ends_what_it_has_begun_or_loses_it(
    tmp_path: Path, owner: Owner, held: bool
) -> None:
    project, who = _claimed(tmp_path, owner), f"{owner.actor} (process {owner.pid})"
    for kind in (["reset"], ["set", "--timestamp", "2025-01-02"]):
        words = ["watermark", *kind, "-t", "orders/extract", "--dry-run"]
        moved = project.here(*words, "--json").flow("orders/extract")["held_by"]
        assert moved.startswith(f"{who} until ") if held else moved is None, moved
        assert ("who loses it" in project.here(*words).out) is held
    for name in ("orders/extract", "*"):
        suspended = project.here("schedule", "suspend", name, "--reason", "the table moves", "--json")
        assert [one["held_by"] for one in suspended.json["flows"]] == [who if held else None]
        said = project.here("schedule", "suspend", name, "--reason", "the table moves").out
        assert (f"{who} ends what it has begun" in said) is held
    project.database.execute("DROP TABLE orders")
    forgotten = project.here("forget", "-t", "orders", "--dry-run", "--json").flow("orders/extract")
    assert (forgotten["held_by"] is not None) is held


@HOLDERS
def test_a_suspended_flow_goes_on_after_its_runner_once_it_is_resumed(
    tmp_path: Path, owner: Owner, held: bool
) -> None:
    project = _claimed(tmp_path, owner)
    pages = TestClient(make_app(load_project(project.file)), base_url="http://127.0.0.1:1")
    gone = "its runner is gone"

    def read(*words: str) -> str:
        said = project.here(*words).out
        return next(line for line in said.splitlines() if "orders/extract" in line)

    for words, says in (
        (["health"], f"{gone}; the next run takes over"),
        (["status"], f"takes over: {gone}"),
    ):
        assert (says in read(*words)) is not held
        assert "RUNNING" in read(*words)
    assert (f"takes over: {gone}" in pages.get("/").text) is not held
    assert project.here("schedule", "suspend", "test", "--reason", "the table moves").code == 0
    for words in (["health"], ["status"]):
        assert ("SUSPENDED" in read(*words)) is not held
        assert ("RUNNING" in read(*words)) is held
        assert "next run" not in read(*words)
    assert (f"{gone}; it goes on once it is resumed" in read("health")) is not held
    for page in ("/", "/flow?name=orders/extract"):
        assert "takes over" not in pages.get(page).text
    assert ("gone; it goes on once it is resumed" in pages.get("/flow?name=orders/extract").text) is not held


def test_a_tracker_whose_process_is_gone_is_not_named_as_the_holder_of_its_plan(tmp_path: Path) -> None:
    project, words = shop(tmp_path), ("watermark", "reset", "--pipeline", "wos", "--dry-run", "--json")
    with WatermarkTracker(f"sqlite:///{project.ledger_file}") as tracker:
        tracker.start_pipeline_run("wos", "a")
        assert project.here(*words).flow("wos")["holder"] == this_process().actor
        with closing(sqlite3.connect(project.ledger_file)) as ledger:
            ledger.execute("UPDATE plans SET owner_started = '1' WHERE flow = 'wos'")
            ledger.commit()
        assert project.here(*words).flow("wos")["holder"] is None
