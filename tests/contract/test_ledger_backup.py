"""`tidegauge ledger export|import`: what one ledger knew, another one knows, on whatever store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_rebuild import shop
from tests.contract.test_stats import MINUTE, fill
from tests.support.drafts import ME, draft, receipt
from tests.support.project import here, refused
from tidegauge.errors import WrongState
from tidegauge.ledger.backup import FlowBackup, back_up
from tidegauge.ledger.empty import EmptyLedger
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.model.override import Override
from tidegauge.model.schedule import Every, FlowSchedule
from tidegauge.model.state import State
from tidegauge.model.suspension import ALL
from tidegauge.model.ticks import SeenScheduler

PIPELINES = ("shop", "other")


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[list[FlowBackup]]:
    """Plans that ended, one under way, one that nobody took, and one half done with an override begun."""
    with open_ledger(f"sqlite:///{tmp_path / 'before.db'}", create=True) as ledger:
        fill(ledger)
        half = ledger.plan([draft("half")], owner=ME, run_id="five")["half"]
        claim = ledger.claim(half, owner=ME, run_id="five", lease=MINUTE)
        ledger.begin(claim, 0)
        ledger.advance(claim, 0, receipt(half, 0, changed=(1, 2, 3)))
        ledger.begin(claim, 1)
        ledger.finish(claim, State.FAILED, {"type": "Boom", "message": "☂ 'quoted'"})
        ledger.begin_override("shop", "half", "reset", {}, owner=ME, reason="a test")
        ledger.suspend("shop", "half", owner=ME, reason="a flow")
        ledger.suspend("shop", ALL, owner=ME, reason="a pipeline")
        scheduler = SeenScheduler(ME, "f00d", "tidegauge.yml", ledger.now())
        ledger.join_schedulers("shop", scheduler, [FlowSchedule(Every(MINUTE), "every 1 minute")])
        yield back_up(ledger, PIPELINES)


def facts(ledger: Ledger | EmptyLedger) -> dict[str, Any]:
    """All that can be asked; what the import itself has added is left out."""
    return {
        "status": [ledger.status(pipeline) for pipeline in PIPELINES],
        "suspended": [[one.suspended for one in ledger.status(name, [ALL])] for name in PIPELINES],
        "ticks": [ledger.ticks(pipeline) for pipeline in PIPELINES],
        "watermarks": [ledger.watermarks(pipeline) for pipeline in PIPELINES],
        "runs": {
            (run.flow, run.run_id): run
            for pipeline in PIPELINES
            for run in ledger.runs(pipeline, since=ledger.now().min)
        },
        "history": [
            # Two flows may have an event in the same instant, in either order.
            sorted(
                (event for event in ledger.history(pipeline, limit=1000) if event.event != "imported"),
                key=lambda event: (event.at, event.flow or ""),
            )
            for pipeline in PIPELINES
        ],
        "plans": sorted((row["plan_id"], row["state"], row["done"]) for row in ledger.table_rows("plans")),
    }


def test_every_store_takes_over_what_another_one_knew(
    tmp_path: Path, filled: list[FlowBackup], store_address: str
) -> None:
    read = [FlowBackup.from_json(json.loads(json.dumps(one.to_json()))) for one in filled]
    assert read == filled
    with (
        open_ledger(f"sqlite:///{tmp_path / 'before.db'}", create=False) as before,
        open_ledger(store_address, create=True) as after,
    ):
        after.restore(read, owner=ME, reason="moving")
        assert facts(after) == facts(before)
        [told] = [event for event in after.history("shop", flow="half", limit=9) if event.event == "imported"]
        assert (told.actor, told.reason) == (ME.actor, "moving")
        # Exported again, nothing has been lost on the way.
        assert [one.flow_state for one in back_up(after, PIPELINES)] == [one.flow_state for one in filled]
        # The frozen plan goes on, with its own windows, and the override is ended as it was begun.
        [half] = after.status("shop", ["half"])
        assert isinstance(half.override, Override)
        after.end_override("shop", "half", epoch=half.override.epoch)
        [other] = after.status("other", ["orders"])
        assert other.plan is not None
        claim = after.claim(other.plan, owner=ME, run_id="six", lease=MINUTE)
        after.begin(claim, 0)
        after.advance(claim, 0, receipt(other.plan, 0))


def test_an_import_that_died_is_ended_by_the_next_one(filled: list[FlowBackup], store_address: str) -> None:
    with open_ledger(store_address, create=True) as ledger:
        ledger.restore(filled[:2], owner=ME, reason="died here")
        ledger.restore(filled, owner=ME, reason="again")
        ledger.restore(filled, owner=ME, reason="and again")
        events = [event for name in PIPELINES for event in ledger.history(name, limit=1000)]
        assert sorted(event.flow for event in events if event.event == "imported") == [
            "*",
            "half",
            "items",
            "orders",
            "orders",
        ]
        assert len(events) == sum(len(one.events) for one in filled) + 5


def test_a_flow_that_the_ledger_knows_is_not_written_over(
    filled: list[FlowBackup], store_address: str
) -> None:
    with open_ledger(store_address, create=True) as ledger:
        ledger.plan([draft("items", batches=1)], owner=ME, run_id="mine")
        with pytest.raises(WrongState, match="items"):
            ledger.restore(filled, owner=ME, reason="moving")
        assert [status.flow for status in ledger.status("shop")] == ["items"]
        assert ledger.pipelines() == ["shop"]


def test_a_project_goes_on_where_it_was_on_another_store(tmp_path: Path) -> None:
    project = shop(tmp_path)
    assert project.here("run").code == 0
    file = tmp_path / "ledger.jsonl"
    exported = project.here("ledger", "export", file, "--json")
    assert exported.json["flows"] == 2, exported.said
    config = project.file.read_text()
    project.file.write_text(config.replace("sqlite:///ledger.db", "json:moved"))
    refused(project.here("run"), "ledger knows nothing of them")
    previewed = project.here("ledger", "import", file, "--dry-run")
    assert previewed.out.endswith("nothing was changed\n")
    refused(project.here("ledger", "import", file), "needs a reason", code=2)
    assert project.here("ledger", "import", file, "--reason", "a move", "--yes").code == 0
    again = project.here("run", "--json")
    assert {one["state"] for one in again.json["flows"]} == {"SKIPPED"}, again.said
    assert project.here("verify").code == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: "", "no export of a ledger"),
        (lambda text: "no json\n", "no export of a ledger"),
        (lambda text: text.splitlines()[0] + "\n", "should have"),
        (lambda text: text.replace('"fence"', '"fense"'), "line 2"),
    ],
)
def test_a_file_that_is_no_export_is_refused_whole(tmp_path: Path, change: Any, said: str) -> None:
    project = shop(tmp_path)
    nothing = project.here("ledger", "export", tmp_path / "nothing.jsonl")
    refused(nothing, "nothing to export", code=2)
    with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", create=True) as ledger:
        fill(ledger)
    file = tmp_path / "ledger.jsonl"
    assert here("ledger", "export", file, "--all-pipelines", "--project", project.file).code == 0
    file.write_text(change(file.read_text()))
    refused(project.here("ledger", "import", file, "--reason", "x", "--yes"), said, code=2)
