"""`tidegauge export workflow`: each scheduler's own library takes what is printed for it."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.project import here
from tests.support.workflows import DAILY, FLOWS, load

SHOP = """\
pipeline: shop
connections: {app: {type: sqlite, path: shop.db}, dw: {type: duckdb, path: dw.duckdb}}
sync: [{from: app, to: dw, tables: [orders, lines], cursor: at, mode: merge, settle: 0s}]
workflow: {schedule: "*/5 * * * *"}
"""
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


def ask(what: str, folder: Path) -> dict[str, Any]:
    """What the schedulers' own libraries answer."""
    assert PYTHON.exists(), "`make schedulers` makes it"
    home = {"AIRFLOW_HOME": str(folder / "airflow"), "DAGSTER_HOME": "", "DO_NOT_TRACK": "1"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    asked = subprocess.run(
        [PYTHON, ROOT / "tests" / "support" / "ask_schedulers.py", what, folder],
        capture_output=True,
        text=True,
        check=False,
        env={**{n: value for n, value in os.environ.items() if n != "PYTHONPATH"}, **home, "PATH": path},
    )
    assert asked.returncode == 0, asked.stderr
    answers: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    return answers


def write_exports(folder: Path, *words: str) -> None:
    (folder / "dags").mkdir()
    for target, file in FILES.items():
        done = here("export", "workflow", "--target", target, *words, "--project", folder)
        assert (done.code, done.err) == (0, "")
        (folder / file).write_text(done.out)


@pytest.mark.long
def test_databricks_airflow_and_dagster_take_the_daily_workflow(tmp_path: Path) -> None:
    load(tmp_path, DAILY)
    write_exports(tmp_path)
    answers = ask("take", tmp_path)
    assert {name: answer.get("tasks") for name, answer in answers.items()} == dict.fromkeys(FILES, TASKS), (
        answers
    )
    assert answers["databricks"]["schedule"] == ["0 30 5 * * ?", "UTC"]
    assert answers["airflow"]["schedule"] == answers["dagster"]["schedule"] == ["30 5 * * *", "UTC"]
    assert answers["databricks"]["mail"] == answers["airflow"]["mail"] == ["data-team@example.com"]
    assert answers["dagster"]["steps"] == sorted(TASKS)
    assert not list((tmp_path / "airflow").glob("*.db"))


def test_airflow_runs_a_task_for_each_flow_and_dagster_shows_their_watermarks(tmp_path: Path) -> None:
    load(tmp_path, SHOP)
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        for table in ("orders", "lines"):
            shop.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, at TEXT)")
            shop.execute(f"INSERT INTO {table} VALUES (1, '2026-01-01 00:00:00')")
    write_exports(tmp_path, "--by-flow")
    assert sorted(ask("airflow", tmp_path)["ran"]) == ["lines", "orders"]
    with duckdb.connect(str(tmp_path / "dw.duckdb")) as warehouse:
        for table in ("orders", "lines"):
            assert warehouse.execute(f"SELECT * FROM {table}").fetchall() == [(1, "2026-01-01 00:00:00")]
    mark = json.dumps({"cursor": "2026-01-01 00:00:00", "key": ["1"]})
    # Nothing was left for it.
    assert ask("dagster", tmp_path) == {
        table: {f"{table}: rows": 0, f"{table}: watermark of {table}": mark} for table in ("orders", "lines")
    }
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("DROP TABLE lines")
    [said] = ask("dagster", tmp_path)["failed"]
    assert "lines" in said


@pytest.mark.long
def test_the_line_for_cron_runs_as_it_stands_in_the_page(tmp_path: Path) -> None:
    load(tmp_path, SHOP)
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        for table in ("orders", "lines"):
            shop.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, at TEXT)")
    page = (ROOT / "docs" / "workflows.md").read_text()
    [line] = re.findall(r"^(?:\S+ ){5} *(cd /srv/shop .*)$", page, re.MULTILINE)
    program = Path(sys.executable).parent / "tidegauge"
    line = line.replace("/srv/shop", str(tmp_path)).replace("/srv/tidegauge/bin/tidegauge", str(program))
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert '"state": "SUCCESS"' in (tmp_path / "run.log").read_text()
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("DROP TABLE lines")
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "lines" in done.stdout, "`health` says what is wrong"


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
