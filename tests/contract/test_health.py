"""`tidegauge health`: what is wrong, and what will be soon, without a job and without Spark."""

from __future__ import annotations

import json
import re
import shutil
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.contract.test_rebuild import shop
from tests.support.drafts import ME, OTHER
from tidegauge import WatermarkTracker
from tidegauge.dashboard.app import make_app
from tidegauge.dashboard.flow_page import make_flow_page
from tidegauge.dashboard.snapshot import STUCK, FleetSnapshots
from tidegauge.delta_log.history import history
from tidegauge.errors import OutputDisagrees, TableReplaced, VersionsMissing
from tidegauge.flows.maintenance.optimize import optimize
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.alert import AlertKind
from tidegauge.model.claim import Owner
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, OnMissing, TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.spec import Project, SparkSettings
from tidegauge.model.watermark import Recalled
from tidegauge.operations.delta_tables import SelectedMaintenance
from tidegauge.operations.health import Health, check_health
from tidegauge.operations.health_data import check_tables
from tidegauge.operations.plan import preview
from tidegauge.operations.retention import find_margins, find_notices, warnings
from tidegauge.operations.retry import retry
from tidegauge.operations.status import summarize_flows
from tidegauge.plan.versions import draft_versions
from tidegauge.run.options import RunOptions

DAY = timedelta(days=1)


def delta_table(folder: Path, *ages: timedelta, properties: dict[str, str] | None = None) -> Path:
    """One that appends a file in each version, committed so long ago."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    for number, age in enumerate(ages):
        at = int((datetime.now(UTC) - age).timestamp() * 1000)
        file = f"part-{number}.parquet"
        (folder / file).write_bytes(b"rows")
        add = {"path": file, "size": 4, "modificationTime": at, "dataChange": True, "partitionValues": {}}
        actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": at}}, {"add": add}]
        if not number:
            configuration = {"delta.enableChangeDataFeed": "true", **(properties or {})}
            metadata = {"id": "t1", "schemaString": json.dumps(schema), "configuration": configuration}
            actions.append(
                {"metaData": {**metadata, "format": {"provider": "parquet"}, "partitionColumns": []}}
            )
            actions.append({"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}})
        (log / f"{number:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
    return folder


def make_project(folder: Path, *flows: DeltaFlow) -> Project:
    return Project(
        pipeline="shop",
        file=folder / "tidegauge.yml",
        ledger=f"sqlite:///{folder / 'ledger.db'}",
        lease=timedelta(minutes=1),
        spark=SparkSettings(),
        connections={},
        syncs=(),
        delta_flows=flows,
    )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Flows a, b, c and d; each has read the table of its name in capitals up to version 1."""

    def delta_flow(name: str) -> DeltaFlow:
        part = DeltaInput("rows", TableRef(path=str(tmp_path / name.upper())))
        return DeltaFlow("shop", name, (part,), DeltaTable(TableRef(path=str(tmp_path / f"{name}-out"))))

    made = make_project(tmp_path, *map(delta_flow, "abcd"))
    mark = Recalled("version", VersionPosition(1), "t1")
    with open_ledger(made.ledger, create=True) as ledger:
        for one in made.delta_flows:
            ledger.rebuild("shop", one.name, {"rows": mark}, 1, 0, owner=ME, reason="a test")
    return made


def warned(project: Project) -> dict[str, list[str]]:
    with open_ledger(project.ledger, create=False) as ledger:
        return warnings(project, ledger)


def _proofs(project: Project) -> str:
    return TestClient(make_app(project), base_url="http://127.0.0.1:1").get("/proofs").text


def test_c1_flows_near_the_end_of_what_their_inputs_keep_are_named(tmp_path: Path, project: Project) -> None:
    delta_table(tmp_path / "A", 50 * DAY, 40 * DAY)
    delta_table(tmp_path / "B", 50 * DAY, 40 * DAY, 3 * DAY, DAY)
    delta_table(tmp_path / "C", 50 * DAY, 40 * DAY, 5 * DAY, DAY)
    longer = {"delta.deletedFileRetentionDuration": "interval 100 days"}
    delta_table(tmp_path / "D", 50 * DAY, 40 * DAY, 5 * DAY, properties=longer)
    with open_ledger(project.ledger, create=False) as ledger:
        days = {one.flow: (round(one.days or 0, 1), one.unread) for one in find_margins(project, ledger)}
    assert days == {"a": (7.0, None), "b": (4.0, 2), "c": (2.0, 2), "d": (25.0, 2)}
    left = re.findall(r'<td class="n">(\d+\.\d)</td><td class="n">\d+\.\d</td>', _proofs(project))
    assert left == ["2.0", "4.0", "7.0", "25.0"], "on the page of proofs, the shortest first"
    found = warned(project)
    assert list(found) == ["c"], "all was read, or there is time"
    assert "version 2, not read yet, is 5 days old" in found["c"][0]

    (tmp_path / "C" / "part-2.parquet").unlink()
    shutil.rmtree(tmp_path / "D")
    found = warned(project)
    assert "version 2" in found["c"][0]
    assert "is gone" in found["c"][0]
    assert "there is no Delta table" in found["d"][0]


def _append(table: Path, number: int, *actions: dict[str, Any], age: timedelta = DAY) -> None:
    at = int((datetime.now(UTC) - age).timestamp() * 1000)
    body = [{"commitInfo": {"timestamp": at}}, *actions]
    (table / "_delta_log" / f"{number:020}.json").write_text("\n".join(map(json.dumps, body)) + "\n")


@pytest.mark.parametrize(
    ("spoil", "mode", "on_missing", "level", "words"),
    [
        ("file", Mode.MERGE, OnMissing.FAIL, "problem", "1 of its files is gone"),
        ("file", Mode.MERGE, OnMissing.REBASELINE, "warning", "the whole table is read again"),
        ("file", Mode.OVERWRITE, OnMissing.FAIL, None, ""),
        ("old", Mode.MERGE, OnMissing.FAIL, "problem", "may vanish any time"),
        ("old", Mode.MERGE, OnMissing.REBASELINE, "warning", "may vanish any time"),
        ("old", Mode.OVERWRITE, OnMissing.FAIL, None, ""),
        ("feed", Mode.MERGE, OnMissing.FAIL, "problem", "the change data feed was off"),
        ("feed", Mode.MERGE, OnMissing.DIFF, "warning", "versions 1 and 2 are compared"),
        ("feed", Mode.MERGE, OnMissing.REBASELINE, "warning", "the whole table is read again"),
        ("feed", Mode.OVERWRITE, OnMissing.FAIL, None, ""),
        ("put back", Mode.MERGE, OnMissing.FAIL, "problem", "an older copy of it was put back"),
        ("put back", Mode.OVERWRITE, OnMissing.REBASELINE, "problem", "an older copy of it was put back"),
        ("other", Mode.OVERWRITE, OnMissing.REBASELINE, "problem", "it was made anew"),
    ],
)
def test_c1_health_says_of_unread_versions_what_the_next_plan_will_do(
    tmp_path: Path,
    project: Project,
    spoil: str,
    mode: Mode,
    on_missing: OnMissing,
    level: str | None,
    words: str,
) -> None:
    changed = {"delta.enableChangeDataFeed": "false"} if spoil == "feed" else {}
    ages = [50 * DAY, 40 * DAY, *([20 * DAY] if spoil == "old" else [DAY])]
    table = delta_table(tmp_path / "A", *(ages[:1] if spoil == "put back" else ages), properties=changed)
    if spoil == "file":
        (table / "part-2.parquet").unlink()
    if spoil == "feed":
        gone = {"path": "part-0.parquet", "deletionTimestamp": 1, "dataChange": True}
        _append(table, 2, {"remove": gone})
    if spoil == "other":
        text = (table / "_delta_log" / f"{0:020}.json").read_text()
        (table / "_delta_log" / f"{0:020}.json").write_text(text.replace('"t1"', '"t2"'))
    [flow] = [one for one in project.delta_flows if one.name == "a"]
    part = replace(flow.inputs[0], on_missing=on_missing)
    flow = replace(flow, inputs=(part,), output=replace(flow.output, mode=mode, key=("id",)))
    changed_project = replace(project, delta_flows=(flow,))
    with open_ledger(project.ledger, create=False) as ledger:
        found = find_notices(changed_project, ledger).get("a", [])
        [mark] = ledger.watermarks("shop", ["a"])
    expected = [] if level is None else [(level == "problem", True)]
    assert [(one.over, words in one.text) for one in found] == expected

    def plan_next() -> Draft:
        return draft_versions(flow, {"rows": history(str(table), after=1)}, {"rows": mark}, seen=(1, 0))

    if level == "problem" and spoil != "old":
        with pytest.raises((VersionsMissing, TableReplaced)) as refused:
            plan_next()
        assert words in refused.value.message
    elif level is None:
        assert plan_next().notes == ()
    else:
        assert any(words in note for note in plan_next().notes)


def test_c1_what_is_over_is_a_problem_and_what_is_near_a_warning(tmp_path: Path, project: Project) -> None:
    delta_table(tmp_path / "A", 50 * DAY, 40 * DAY, 31 * DAY)
    delta_table(tmp_path / "B", 50 * DAY, 40 * DAY, 5 * DAY)
    _, found = check_health(project, ["a", "b"])
    shown: dict[str, Health] = {one.flow: one for one in found}
    assert any("may vanish any time" in text for text in shown["a"].problems)
    assert not any("vanish" in text for text in shown["a"].warnings)
    assert any("it may vanish in" in text for text in shown["b"].warnings)
    assert not any("vanish" in text for text in shown["b"].problems)


@pytest.mark.parametrize(
    ("owner", "lease", "held"),
    [
        (OTHER, timedelta(hours=1), True),
        (OTHER, timedelta(0), False),
        (replace(this_process(), started="another process"), timedelta(hours=1), False),
    ],
    ids=["at work on another machine", "its lease ran out", "its process is gone"],
)
def test_status_health_plan_retry_and_dashboard_agree_on_whether_a_runner_holds_a_flow(
    tmp_path: Path, project: Project, owner: Owner, lease: timedelta, held: bool
) -> None:
    delta_table(tmp_path / "A", DAY, DAY)
    with open_ledger(project.ledger, create=True) as ledger:
        window = Window(VersionPosition(1), VersionPosition(2))
        part = InputPlan("rows", "version", window, "t1", "f00d")
        made = ledger.plan(
            [Draft("shop", "a", (part,), (Batch((window,)),), seen=(1, 0))], owner=owner, run_id="r"
        )
        ledger.claim(made["a"], owner=owner, run_id="r", lease=lease)
    [summary] = summarize_flows(project, ["a"])[1]
    assert summary.abandoned is not held
    [one] = check_health(project, ["a"], look_at_sources=False)[1]
    [shown] = preview(project, ["a"])
    lost = "does not have it"
    assert any(lost in text for text in one.problems) is not held
    assert (AlertKind.REGRESSED in one.unknown) is held
    assert (AlertKind.STUCK in {finding.alert for finding in one.findings}) is not held
    assert isinstance(shown.error, OutputDisagrees) is not held
    assert shown.draft is None or held
    snapshots = FleetSnapshots(project)
    [seen] = [one for one in snapshots.read().flows if one.flow == "a"]
    assert (seen.word == STUCK) is not held
    *_, running = snapshots.pulse()
    assert [(flow, is_held) for _, flow, _, is_held in running] == [("a", held)]  # type: ignore[attr-defined]
    page = make_flow_page(snapshots, "shop", "a")
    assert page is not None
    assert page.held is held
    report = retry(project, RunOptions(("a",)), tell=lambda _: None, stop=threading.Event())
    assert [(flow.flow, type(flow.error)) for flow in report.flows] == (
        [] if held else [("a", OutputDisagrees)]
    )


def test_health_is_good_until_ledger_and_output_disagree_or_a_run_fails(tmp_path: Path) -> None:
    project = shop(tmp_path)
    new = project.here("health", "--json")
    assert (new.code, new.json["healthy"]) == (0, True), new.said
    assert new.flow("orders/load")["warnings"] == ["it has not run yet"]
    assert project.here("run").code == 0
    good = project.here("health", "--json")
    assert (good.code, good.json["schema"], good.json["healthy"]) == (0, "tidegauge/health/1", True)
    assert good.flow("orders/load") == {
        "flow": "orders/load",
        "state": "SUCCESS",
        "last_success": good.flow("orders/load")["last_success"],
        "failures": 0,
        "problems": [],
        "warnings": [],
    }

    project.database.execute("ALTER TABLE orders RENAME COLUMN at TO moved")
    for _ in range(2):
        assert project.here("run").code == 1
    bad = project.here("health", "--json")
    assert (bad.code, bad.json["healthy"]) == (1, False)
    extract = bad.flow("orders/extract")
    assert (extract["failures"], len(extract["problems"])) == (2, 1)

    project.database.execute("ALTER TABLE orders RENAME COLUMN moved TO at")
    (tmp_path / "ledger.db").unlink()
    lost = project.here("health", "--select", "orders/load")
    assert lost.code == 1, lost.said
    assert "ledger knows nothing of them" in " ".join(lost.out.split())


def test_what_the_next_run_would_refuse_of_a_source_is_a_problem_before_it(tmp_path: Path) -> None:
    project = shop(tmp_path)
    assert project.here("run").code == 0
    project.database.execute("ALTER TABLE orders RENAME COLUMN at TO att")
    bad = project.here("health", "--json")
    assert bad.code == 1, bad.said
    [said] = bad.flow("orders/extract")["problems"]
    assert said.startswith("orders: there is no column 'at', which is to be the cursor; did you mean att")
    load = bad.flow("orders/load")
    assert (load["problems"], load["warnings"]) == (
        [],
        ["held back: orders/extract cannot run, and it reads from that"],
    )
    assert project.here("run").code == 1
    assert project.here("health", "--json").flow("orders/extract")["problems"] == [said], "once"

    (tmp_path / "app.db").rename(tmp_path / "away.db")
    away = project.here("health", "--json")
    assert away.code == 1, away.said
    assert any("app.db" in said for said in away.flow("orders/extract")["problems"]), away.said
    (tmp_path / "away.db").rename(tmp_path / "app.db")

    (tmp_path / "ledger.db").unlink()
    lost = project.here("health", "--json")
    assert lost.code == 1, lost.said
    problems = {one["flow"]: " ".join(one["problems"]) for one in lost.json["flows"]}
    assert any("no column at" in said for said in problems.values()), problems
    assert all("ledger knows nothing" in problems[f"orders/{stage}"] for stage in ("extract", "load"))


def test_the_five_checks_have_a_verdict_and_a_page(tmp_path: Path) -> None:
    project = shop(tmp_path)
    assert project.here("run").code == 0
    page = tmp_path / "health.html"
    good = project.here("health", "--json", "--report", page)
    assert (good.code, good.json["status"]) == (0, "HEALTHY"), good.said
    load = [one for one in good.json["checks"] if one["flow"] == "orders/load"]
    assert [one["check"] for one in load] == ["status", "freshness", "counts", "performance"]
    assert "FRESH: rows last came 0 min ago" in [one["says"] for one in load]
    assert "orders/load" in page.read_text()
    assert "HEALTHY" in project.here("health").out.splitlines()[-1]

    text = project.file.read_text()
    project.file.write_text(f"{text}health: {{fresh: 0s, stale: 1h}}\n")
    stale = project.here("health", "--json")
    assert (stale.code, stale.json["status"], stale.json["healthy"]) == (0, "WARNING", True)
    project.file.write_text(f"{text}health: {{fresh: 0s, stale: 0s}}\n")
    old = project.here("health", "--json")
    assert (old.code, old.json["status"]) == (1, "CRITICAL")
    assert old.flow("orders/load")["problems"] == ["VERY_STALE: rows last came 0 min ago"]
    refused = project.here("health", "--report", tmp_path / "nowhere" / "health.html")
    assert refused.code == 2
    assert "cannot be written" in refused.err


def test_a_table_that_is_not_there_yet_is_neither_optimized_nor_looked_into(project: Project) -> None:
    maintenance = SelectedMaintenance(project, ["a"])
    [absent] = maintenance.each(lambda one: optimize(maintenance, one))
    assert (absent.absent, absent.error) == (True, None)
    assert check_tables(project, ["a"]) == {}


def test_the_pipelines_of_trackers_are_watched_too(tmp_path: Path) -> None:
    project = shop(tmp_path)
    assert project.here("run").code == 0
    tracker = WatermarkTracker(f"sqlite:///{tmp_path / 'ledger.db'}")
    tracker.commit_processing_state("silver_workspace", datetime.now(UTC) - timedelta(days=614))
    run = tracker.start_pipeline_run("wos_pipeline", "job_001")
    tracker.finalize_pipeline_run(run, "FAILED", error="no disk")
    found = project.here("health", "--json")
    assert found.code == 1, found.said
    assert "orders/load" in [one["flow"] for one in found.json["flows"]]
    assert found.flow("wos_pipeline")["problems"] == ["no disk"]
    assert found.flow("silver_workspace")["problems"] == []
    [late] = found.flow("silver_workspace")["warnings"]
    assert late == "its watermark is 14736 h behind the clock"
    alone = project.here("health", "--json", "--select", "wos_pipeline")
    assert [one["flow"] for one in alone.json["flows"]] == ["wos_pipeline"]
