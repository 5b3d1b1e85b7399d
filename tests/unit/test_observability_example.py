"""The observability example without Spark: its files fit together, and its month has what makes it hard."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tidegauge.config.load import load_project
from tidegauge.export.databricks import to_databricks
from tidegauge.model.delta_flow import Sql
from tidegauge.model.view_flow import in_flows
from tidegauge.operations.workflow import plan_workflow

EXAMPLE = Path(__file__).parents[2] / "examples" / "003_observability"


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE / "generate.py"))


@pytest.fixture(scope="module")
def month(made: dict[str, Any]) -> Any:
    return made["Month"](7, 0.25)


def test_every_sql_file_is_the_transform_of_the_flow_or_view_of_its_name() -> None:
    project = load_project(EXAMPLE / "tidegauge.yml")
    found = {flow.name: flow.transform.file for flow in in_flows(project) if isinstance(flow.transform, Sql)}
    assert all(file is not None and file.stem == name for name, file in found.items())
    files = {file.stem for folder in ("silver", "gold", "views") for file in (EXAMPLE / folder).glob("*.sql")}
    assert files == found.keys()
    assert (len(project.delta_flows), len(project.views)) == (32, 16)


def test_the_kept_job_is_what_export_gives() -> None:
    planned = plan_workflow(load_project(EXAMPLE / "tidegauge.yml"))
    assert planned.notes == ()
    kept = json.loads((EXAMPLE / "jobs" / "daily_observability_workflow.json").read_text())
    assert json.loads(to_databricks(planned.workflow, "/Workspace/Shared/observability")) == kept
    assert [task["task_key"] for task in kept["tasks"]] == [
        "bronze_ingest",
        "silver_build",
        "gold_build",
        "performance_optimization",
        "health_check",
    ]


def test_a_month_is_the_same_every_time_and_another_with_another_seed(
    made: dict[str, Any], month: Any
) -> None:
    assert made["Month"](7, 0.25).rows == month.rows
    assert made["Month"](8, 0.25).rows != month.rows
    assert 20_000 < sum(map(len, made["Month"](7, 1.0).rows.values())) < 100_000


def test_a_month_has_late_records_corrections_and_same_day_arrivals(made: dict[str, Any], month: Any) -> None:
    usage = month.rows["billing/usage"]
    assert len({row["record_id"] for _, row in usage}) == len(usage)
    lateness = Counter(day - made["arrival"](row["usage_end_time"]) for day, row in usage)
    assert {0, 1, 3} <= lateness.keys()
    assert min(lateness) >= 0
    kinds = Counter(row["record_type"] for _, row in usage)
    assert kinds["ORIGINAL"] > kinds["RETRACTION"] > kinds["RESTATEMENT"] > 0
    days: dict[Any, set[int]] = {}
    for day, row in usage:
        days.setdefault(row["usage_date"], set()).add(day)
    assert all(len(arrivals) > 1 for date, arrivals in days.items() if date.day < made["DAYS"])


def test_the_same_job_is_in_two_workspaces_and_no_key_comes_twice(month: Any) -> None:
    jobs = {(row["job_id"], row["workspace_id"]) for _, row in month.rows["lakeflow/jobs"]}
    assert max(Counter(job for job, _ in jobs).values()) == 2
    keys = {
        "lakeflow/jobs": ("workspace_id", "job_id", "change_time"),
        "lakeflow/pipelines": ("workspace_id", "pipeline_id", "change_time"),
        "compute/clusters": ("workspace_id", "cluster_id", "change_time"),
        "compute/warehouses": ("workspace_id", "warehouse_id", "change_time"),
        "lakeflow/job_run_timeline": ("workspace_id", "job_id", "run_id", "period_start_time"),
        "billing/list_prices": ("cloud", "sku_name", "usage_unit", "price_start_time"),
    }
    for table, key in keys.items():
        found = Counter(tuple(row[name] for name in key) for _, row in month.rows[table])
        assert set(found.values()) == {1}, table
