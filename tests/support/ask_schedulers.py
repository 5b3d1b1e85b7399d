"""Runs in `.schedulers`: prints as JSON how Databricks, Airflow and Dagster read three files."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
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

    made = load(file)
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


def load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location("made", file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def run_airflow(file: Path) -> list[str]:
    """Execute the tasks in order of their dependencies; return their ids in that order."""
    from airflow.dag_processing.dagbag import DagBag

    [dag] = DagBag(dag_folder=file.parent).dags.values()
    order = dag.topological_sort()
    for task in order:
        task.execute({})
    return [task.task_id for task in order]


def run_dagster(file: Path) -> dict[str, Any]:
    """Materialize the assets; return the metadata of each, or under `failed` why it failed."""
    import dagster as dg

    done = dg.materialize(load(file).assets, raise_on_error=False)
    if not done.success:
        return {"failed": [event.step_failure_data.user_failure_data.description for event in failed(done)]}
    return {
        event.asset_key.to_user_string(): {
            name: value.value for name, value in event.materialization.metadata.items()
        }
        for event in done.get_asset_materialization_events()
    }


def failed(done: Any) -> list[Any]:
    return [event for event in done.all_events if event.is_step_failure]


ASKED: dict[str, Callable[[Path], dict[str, Any]]] = {
    "take": lambda folder: {
        "databricks": databricks(folder / "job.json"),
        "airflow": airflow(folder / "dags" / "dag.py"),
        "dagster": dagster(folder / "definitions.py"),
    },
    "airflow": lambda folder: {"ran": run_airflow(folder / "dags" / "dag.py")},
    "dagster": lambda folder: run_dagster(folder / "definitions.py"),
}

if __name__ == "__main__":
    answers = ASKED[sys.argv[1]](Path(sys.argv[2]))
    sys.stdout.write("\n" + json.dumps(answers) + "\n")
