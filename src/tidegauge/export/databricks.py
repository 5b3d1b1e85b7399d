"""A workflow as a Databricks job: the JSON that its API and its bundles take."""

from __future__ import annotations

import json
from typing import Any

from tidegauge.model.workflow import Task, Workflow

_ENVIRONMENT = "tidegauge"
_PAUSE_MS = 60_000


def to_databricks(workflow: Workflow, project: str) -> str:
    """The job as JSON. `project` is the project's folder on the machines where the tasks run. Raises
    ConfigError for a schedule that Quartz cannot express."""
    job: dict[str, Any] = {"name": workflow.name, "max_concurrent_runs": 1, "queue": {"enabled": True}}
    if workflow.schedule is not None:
        job["schedule"] = {
            "quartz_cron_expression": workflow.schedule.to_quartz(),
            "timezone_id": workflow.timezone,
            "pause_status": "UNPAUSED",
        }
    if workflow.email:
        job["email_notifications"] = {"on_failure": list(workflow.email)}
    job["tasks"] = [_make_task(task, project) for task in workflow.tasks]
    job["environments"] = [
        {
            "environment_key": _ENVIRONMENT,
            "spec": {"environment_version": "4", "dependencies": ["tidegauge[delta]"]},
        }
    ]
    return json.dumps(job, indent=2, ensure_ascii=False) + "\n"


def _make_task(task: Task, project: str) -> dict[str, Any]:
    made: dict[str, Any] = {"task_key": task.name}
    if task.description:
        made["description"] = task.description
    if task.depends_on:
        made["depends_on"] = [{"task_key": name} for name in task.depends_on]
    return {
        **made,
        "run_if": "ALL_SUCCESS",
        "python_wheel_task": {
            "package_name": "tidegauge",
            "entry_point": "tidegauge",
            "parameters": [*task.arguments, "--project", project],
        },
        "environment_key": _ENVIRONMENT,
        "max_retries": task.retries,
        "min_retry_interval_millis": _PAUSE_MS,
    }
