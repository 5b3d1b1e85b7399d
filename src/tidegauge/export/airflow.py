"""A workflow as a Python module with a DAG, for Airflow 3."""

from __future__ import annotations

import re
import shlex

from tidegauge.model.workflow import Task, Workflow

_HEAD = '''\
"""Made by `tidegauge export workflow --target airflow`: make it anew when the project changes."""

from datetime import timedelta

import pendulum
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
'''
_MAIL = "from airflow.providers.smtp.notifications.smtp import SmtpNotifier\n"
_TEMPLATES = (".sh", ".bash")
"""Endings that make Airflow take a command for the name of a template file."""


def to_airflow(workflow: Workflow, project: str) -> str:
    schedule = workflow.schedule.text if workflow.schedule else None
    head = _HEAD.replace("from airflow.sdk", f"{_MAIL}from airflow.sdk") if workflow.email else _HEAD
    lines = [
        head,
        "with DAG(",
        f"    dag_id={_make_dag_id(workflow.name or '')!r},",
        f"    schedule={schedule!r},",
        f"    start_date=pendulum.datetime(2025, 1, 1, tz={workflow.timezone!r}),",
        "    catchup=False,",
        "    max_active_runs=1,",
        '    default_args={"retry_delay": timedelta(minutes=1)},',
        *([f"    on_failure_callback=SmtpNotifier(to={list(workflow.email)!r}),"] if workflow.email else []),
        "):",
    ]
    for task in workflow.tasks:
        lines += _make_operator(task, project)
    lines += [
        f"    {_make_variable_name(name)} >> {_make_variable_name(task.name)}"
        for task in workflow.tasks
        for name in task.depends_on or ()
    ]
    return "\n".join(lines) + "\n"


def _make_operator(task: Task, project: str) -> list[str]:
    command = _literal(shlex.join(["tidegauge", *task.arguments, "--project", project]))
    return [
        f"    {_make_variable_name(task.name)} = BashOperator(",
        f"        task_id={task.name!r},",
        f"        bash_command={command!r},",
        f"        retries={task.retries},",
        *([f"        doc={task.description!r},"] if task.description else []),
        "    )",
    ]


def _literal(command: str) -> str:
    """The command protected from Airflow's templates, which would change or load it."""
    if re.search(r"\{[{%#]", command):
        command = f"{{% raw %}}{command}{{% endraw %}}"
    return f"{command} " if command.endswith(_TEMPLATES) else command


def _make_variable_name(task: str) -> str:
    """A variable name that is neither a Python keyword nor a name of the module."""
    return f"task_{task}"


def _make_dag_id(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[:250]
