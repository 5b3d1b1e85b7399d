"""`tidegauge export workflow`: each scheduler's own library takes what is printed for it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.project import here
from tests.support.workflows import DAILY, FLOWS, load

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".schedulers" / "bin" / "python"
FILES = {"databricks": "job.json", "airflow": "dags/dag.py", "dagster": "definitions.py"}
TASKS = {
    "bronze_ingest": [[], 2],
    "silver_build": [["bronze_ingest"], 2],
    "gold_build": [["silver_build"], 2],
    "performance_optimization": [["gold_build"], 1],
    "health_check": [["performance_optimization"], 1],
}


def test_databricks_airflow_and_dagster_take_the_daily_workflow(tmp_path: Path) -> None:
    assert PYTHON.exists(), "`make schedulers` makes it"
    load(tmp_path, DAILY)
    (tmp_path / "dags").mkdir()
    for target, file in FILES.items():
        done = here("export", "workflow", "--target", target, "--project", tmp_path)
        assert (done.code, done.err) == (0, "")
        (tmp_path / file).write_text(done.out)
    home = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "DAGSTER_HOME": "", "DO_NOT_TRACK": "1"}
    asked = subprocess.run(
        [PYTHON, ROOT / "tests" / "support" / "ask_schedulers.py", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **home},
    )
    assert asked.returncode == 0, asked.stderr
    answers = json.loads(asked.stdout.splitlines()[-1])
    assert {name: answer.get("tasks") for name, answer in answers.items()} == dict.fromkeys(FILES, TASKS), (
        answers
    )
    assert answers["databricks"]["schedule"] == ["0 30 5 * * ?", "UTC"]
    assert answers["airflow"]["schedule"] == answers["dagster"]["schedule"] == ["30 5 * * *", "UTC"]
    assert answers["databricks"]["mail"] == answers["airflow"]["mail"] == ["data-team@example.com"]
    assert answers["dagster"]["steps"] == sorted(TASKS)
    assert not list((tmp_path / "airflow").glob("*.db"))


def test_the_command_line_has_the_last_word(tmp_path: Path) -> None:
    load(tmp_path, DAILY)
    words = ["--schedule", "0 4 * * 1", "--timezone", "Europe/Berlin", "--email", "me@example.com"]
    done = here(
        "export", "workflow", "--target", "databricks", *words, "--at", "/jobs/x", "--project", tmp_path
    )
    job = json.loads(done.out)
    assert job["schedule"]["quartz_cron_expression"] == "0 0 4 ? * MON"
    assert job["schedule"]["timezone_id"] == "Europe/Berlin"
    assert job["email_notifications"] == {"on_failure": ["me@example.com"]}
    assert job["tasks"][-1]["python_wheel_task"]["parameters"] == ["health", "--project", "/jobs/x"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "databricks", "--schedule", "0 0 1 * 1"], "Quartz cannot express"),
        (["--target", "airflow", "--schedule", "daily"], "is not a schedule"),
        (["--target", "airflow", "--timezone", "Berlin"], "is not a time zone"),
        (["--target", "airflow", "--email", "me"], "is not a mail address"),
        (["--target", "airflow", "--select", "tag:none"], "nothing is selected"),
        (["--target", "cron"], "'cron' is not one of"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_printed(
    tmp_path: Path, words: list[str], message: str
) -> None:
    load(tmp_path, FLOWS)
    done = here("export", "workflow", *words, "--project", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
