"""Runs in `.schedulers`: what Databricks' bundles, Airflow and Dagster make of three files, as JSON."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def databricks(file: Path) -> dict[str, Any]:
    from databricks.bundles.jobs import Job

    job = Job.from_dict(json.loads(file.read_text()))
    return {
        "schedule": [job.schedule.quartz_cron_expression, job.schedule.timezone_id],
        "mail": job.email_notifications.on_failure,
        "tasks": {
            task.task_key: [sorted(other.task_key for other in task.depends_on), task.max_retries]
            for task in job.tasks
        },
    }


def airflow(file: Path) -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=file.parent)
    if bag.import_errors:
        return {"errors": bag.import_errors}
    [dag] = bag.dags.values()
    return {
        "schedule": [dag.schedule, str(dag.timezone)],
        "mail": list(dag.on_failure_callback.to),
        "tasks": {task.task_id: [sorted(task.upstream_task_ids), task.retries] for task in dag.tasks},
    }


def dagster(file: Path) -> dict[str, Any]:
    import dagster as dg

    spec = importlib.util.spec_from_file_location("made", file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    dg.Definitions.validate_loadable(made.defs)
    job = made.defs.resolve_job_def(made.job.name)
    return {
        "schedule": [made.schedule.cron_schedule, made.schedule.execution_timezone],
        "mail": [made.mail.name],
        "tasks": {
            asset.key.to_user_string(): [
                sorted(key.to_user_string() for key in asset.asset_deps[asset.key]),
                asset.op.retry_policy.max_retries,
            ]
            for asset in made.assets
        },
        "steps": sorted(node.name for node in job.nodes),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    answers = {
        "databricks": databricks(folder / "job.json"),
        "airflow": airflow(folder / "dags" / "dag.py"),
        "dagster": dagster(folder / "definitions.py"),
    }
    sys.stdout.write("\n" + json.dumps(answers) + "\n")
