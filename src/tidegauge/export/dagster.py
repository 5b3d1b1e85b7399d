"""A workflow as a Python module of Dagster definitions, with an asset for each task."""

from __future__ import annotations

import re

from tidegauge.model.workflow import Task, Workflow

_HEAD = '''\
"""Made by `tidegauge export workflow --target dagster`: make it anew when the project changes."""

import json
import os
import subprocess

import dagster as dg


def tidegauge(*arguments: str) -> dg.MaterializeResult:
    # Rows and watermarks of its flows are shown with the asset.
    done = subprocess.run(["tidegauge", *arguments, "--json"], stdout=subprocess.PIPE, text=True)
    answer = json.loads(done.stdout or "{}")
    metadata = {}
    for flow in answer.get("flows", []):
        if flow.get("rows_written") is not None:
            metadata[f"{flow['flow']}: rows"] = flow["rows_written"]
        for window in flow.get("windows", []):
            metadata[f"{flow['flow']}: watermark of {window['input']}"] = json.dumps(window["upto"])
    if done.returncode:
        errors = [part["error"] for part in [answer, *answer.get("flows", [])] if part.get("error")]
        said = "; ".join(f"{error['message']} ({error['hint']})" for error in errors)
        raise dg.Failure(said or f"exit code {done.returncode}", metadata=metadata)
    return dg.MaterializeResult(metadata=metadata)

'''


def to_dagster(workflow: Workflow, project: str) -> str:
    name = re.sub(r"\W", "_", workflow.name or "", flags=re.ASCII)
    assets = ", ".join(_make_function_name(task.name) for task in workflow.tasks)
    lines = [_HEAD, *(line for task in workflow.tasks for line in _make_asset(task, name, project))]
    lines += [f"job = dg.define_asset_job({name!r}, selection=[{assets}])", f"assets = [{assets}]"]
    parts = ["assets=assets", "jobs=[job]"]
    if workflow.schedule is not None:
        lines += _make_schedule(workflow.schedule.text, workflow.timezone)
        parts.append("schedules=[schedule]")
    if workflow.email:
        lines += _make_mail_sensor(workflow.email)
        parts.append("sensors=[mail]")
    return "\n".join([*lines, f"defs = dg.Definitions({', '.join(parts)})"]) + "\n"


def _make_asset(task: Task, group: str, project: str) -> list[str]:
    given = [f"name={task.name!r}", f"group_name={group!r}"]
    if task.depends_on:
        given.append(f"deps={list(task.depends_on)!r}")
    if task.retries:
        given.append(f"retry_policy=dg.RetryPolicy(max_retries={task.retries}, delay=60)")
    if task.description:
        given.append(f"description={task.description!r}")
    arguments = ", ".join(repr(word) for word in (*task.arguments, "--project", project))
    return [
        "",
        f"@dg.asset({', '.join(given)})",
        f"def {_make_function_name(task.name)}() -> dg.MaterializeResult:",
        f"    return tidegauge({arguments})",
        "",
    ]


def _make_schedule(cron: str, timezone: str) -> list[str]:
    return [
        "schedule = dg.ScheduleDefinition(",
        f"    job=job, cron_schedule={cron!r}, execution_timezone={timezone!r},",
        "    default_status=dg.DefaultScheduleStatus.RUNNING,",
        ")",
    ]


def _make_mail_sensor(email: tuple[str, ...]) -> list[str]:
    """A sensor that sends mail when a run fails; server and login come from the environment."""
    return [
        "mail = dg.make_email_on_run_failure_sensor(",
        '    email_from=os.environ.get("SMTP_FROM", "dagster@localhost"),',
        '    email_password=os.environ.get("SMTP_PASSWORD", ""),',
        f"    email_to={list(email)!r},",
        '    smtp_host=os.environ.get("SMTP_HOST", "localhost"),',
        "    monitored_jobs=[job],",
        "    default_status=dg.DefaultSensorStatus.RUNNING,",
        ")",
    ]


def _make_function_name(task: str) -> str:
    """A function name that is neither a Python keyword nor a name of the module."""
    return f"task_{task}"
