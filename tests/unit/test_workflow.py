"""`workflow:` in the project file, and the tasks that come of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.workflows import DAILY, FLOWS, load
from tidegauge.errors import ConfigError
from tidegauge.export.airflow import to_airflow
from tidegauge.export.dagster import to_dagster
from tidegauge.export.databricks import to_databricks
from tidegauge.model.workflow import Task, TaskCommand, Workflow
from tidegauge.operations.workflow import plan_workflow

SYNCS = """\
pipeline: shop
connections:
  app: {type: sqlite, path: shop.db}
  lake: {type: parquet, path: lake}
sync:
  - {from: app, to: lake, tables: [orders, "tmp_*"], cursor: at, tags: [early]}
  - {from: app, to: lake, tables: items, cursor: at}
"""


def tasks(folder: Path, text: str, *selection: str) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """By name, what each selects and what it depends on."""
    planned = plan_workflow(load(folder, text), selection).workflow
    return {task.name: (task.select, task.depends_on or ()) for task in planned.tasks}


def test_the_daily_workflow_has_its_five_tasks_in_order(tmp_path: Path) -> None:
    planned = plan_workflow(load(tmp_path, DAILY))
    assert planned.notes == ()
    made = planned.workflow
    assert (made.name, made.timezone, made.email) == (
        "daily_observability_workflow",
        "UTC",
        ("data-team@example.com",),
    )
    assert [(task.name, task.depends_on, task.retries) for task in made.tasks] == [
        ("bronze_ingest", (), 2),
        ("silver_build", ("bronze_ingest",), 2),
        ("gold_build", ("silver_build",), 2),
        ("performance_optimization", ("gold_build",), 1),
        ("health_check", ("performance_optimization",), 1),
    ]
    assert [task.arguments for task in made.tasks][2:] == [
        ("run", "--select", "tag:gold"),
        ("optimize",),
        ("health",),
    ]


def test_without_a_block_each_first_tag_is_a_task(tmp_path: Path) -> None:
    assert tasks(tmp_path, FLOWS) == {
        "bronze": (("tag:bronze",), ()),
        "silver": (("tag:silver",), ("bronze",)),
        "gold": (("tag:gold",), ("silver",)),
    }


def test_without_tags_all_flows_are_one_task(tmp_path: Path) -> None:
    assert tasks(tmp_path, SYNCS.replace(", tags: [early]", "")) == {"run": ((), ())}


def test_flows_without_a_tag_are_selected_by_their_names(tmp_path: Path) -> None:
    assert tasks(tmp_path, SYNCS) == {"early": (("tag:early",), ()), "untagged": (("items",), ())}


def test_an_optimize_flow_comes_after_what_it_looks_after_and_its_name_is_no_table_of_a_sync(
    tmp_path: Path,
) -> None:
    text = FLOWS.replace("flows:\n", (
        "connections:\n  app: {type: sqlite, path: app.db}\n  raw: {type: delta, path: raw}\n"
        "sync:\n  - {from: app, to: raw, tables: ['*'], cursor: at, tags: raw}\n"
        "flows:\n  tidy: {kind: optimize, select: [tag:raw, tag:gold]}\n"
    ))  # fmt: skip
    found = tasks(tmp_path, text)
    assert found["untagged"] == (("tidy",), ("raw", "gold"))


def test_a_second_tag_does_not_bring_a_flow_into_two_tasks(tmp_path: Path) -> None:
    text = FLOWS.replace("tags: gold", "tags: [gold, silver]")
    assert tasks(tmp_path, text)["silver"] == (("silver_usage",), ("bronze",))


def test_tags_that_would_be_one_task_are_refused(tmp_path: Path) -> None:
    text = FLOWS.replace("tags: bronze", "tags: a-b").replace("tags: silver", "tags: a.b")
    with pytest.raises(ConfigError, match=r"the tags `a-b` and `a\.b` would be one task"):
        tasks(tmp_path, text)


def test_a_selection_narrows_tasks_and_closes_the_gap_of_those_dropped(tmp_path: Path) -> None:
    assert tasks(tmp_path, DAILY, "bronze_usage", "gold_usage") == {
        "bronze_ingest": (("tag:bronze",), ()),
        "gold_build": (("tag:gold",), ("bronze_ingest",)),
        "performance_optimization": (("bronze_usage", "gold_usage"), ("gold_build",)),
        "health_check": (("bronze_usage", "gold_usage"), ("performance_optimization",)),
    }


def test_a_table_of_a_sync_is_selected_by_itself(tmp_path: Path) -> None:
    assert tasks(tmp_path, SYNCS, "tmp_x") == {"early": (("tmp_x",), ())}
    assert tasks(tmp_path, SYNCS, "tag:early") == {"early": (("tag:early",), ())}
    block = "workflow: {tasks: {a: {select: 'tmp_*'}, b: {select: [orders, items]}}}\n"
    assert tasks(tmp_path, SYNCS + block) == {"a": (("tmp_*",), ()), "b": (("orders", "items"), ())}
    assert tasks(tmp_path, SYNCS + block, "tmp_x", "items") == {"a": (("tmp_x",), ()), "b": (("items",), ())}
    with pytest.raises(ConfigError, match="nothing is selected by other"):
        tasks(tmp_path, SYNCS, "other")


def test_what_a_task_says_of_its_order_holds(tmp_path: Path) -> None:
    text = DAILY.replace("gold_build: {", "gold_build: {depends_on: [], ").replace(
        "health_check: {", "health_check: {depends_on: [bronze_ingest, silver_build], "
    )
    found = tasks(tmp_path, text)
    assert found["gold_build"][1] == ()
    assert found["health_check"][1] == ("bronze_ingest", "silver_build")
    assert found["performance_optimization"][1] == ("silver_build", "gold_build")


def test_a_flow_that_no_task_runs_is_said(tmp_path: Path) -> None:
    text = DAILY.replace('    silver_build: {select: "tag:silver", retries: 2}\n', "")
    assert plan_workflow(load(tmp_path, text)).notes == ("no task of `workflow:` runs silver_usage",)


@pytest.mark.parametrize(
    ("old", "new", "line", "message", "hint"),
    [
        ("30 5 * * *", "30 25 * * *", 9, "`25` is no hour", "five fields"),
        ("timezone: UTC", "timezone: Mars/Base", 10, "`Mars/Base` is not a time zone", "Europe/Berlin"),
        ("timezone: UTC", "timezone: ../etc/passwd", 10, "is not a time zone", "Europe/Berlin"),
        ("data-team@example.com", "data-team", 11, "`data-team` is not a mail address", "NAME@HOST"),
        ("silver_build:", "silver-build:", 15, "`silver-build` cannot be the name", "letters"),
        ("command: health", "command: verify", 18, "`verify` is not known here", "`health`"),
        ("command: health", "comand: health", 18, "unknown key `comand`", "`command`"),
        ("retries: 1}\n    health", "retries: -1}\n    health", 17, "whole number from 0 to 100", ""),
        (
            "command: health",
            "command: health, depends_on: gold_bild",
            18,
            "depends on `gold_bild`, which is no task",
            "`gold_build`",
        ),
        (
            '"tag:bronze", ',
            '"tag:bronze", depends_on: bronze_ingest, ',
            14,
            "in a circle: bronze_ingest → bronze_ingest",
            "take one",
        ),
        ("tasks:", "task:", 13, "unknown key `task`", "`tasks`"),
    ],
)
def test_a_mistake_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, message: str, hint: str
) -> None:
    assert old in DAILY
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, DAILY.replace(old, new, 1))
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.place is not None
    assert caught.value.place.line == line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"tag:gold"', '"tag:golden"', "the task `gold_build` selects no flow by tag:golden"),
        ('"tag:gold"', '["tag:gold", silver_usage]', "both run silver_usage"),
        (
            "health_check: {",
            "more: {select: more_usage}\n    health_check: {",
            "in a circle: ",
        ),
    ],
)
def test_tasks_that_do_not_fit_the_flows_are_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    more = "  more_usage: {inputs: {u: {path: s/usage}}, output: {path: more, key: id}}\n"
    text = DAILY.replace(old, new, 1).replace("workflow:\n", f"{more}workflow:\n", 1)
    # Silver reads what `more` writes, which reads what silver writes elsewhere.
    second = "  silver_two: {inputs: {u: {path: more}}, output: {path: two, key: id}, tags: silver}\n"
    text = text.replace("workflow:\n", f"{second}workflow:\n", 1)
    with pytest.raises(ConfigError, match=message) as caught:
        tasks(tmp_path, text)
    assert caught.value.place is not None


def test_optimize_needs_a_delta_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the task `tidy` selects no Delta table"):
        tasks(tmp_path, SYNCS + "workflow: {tasks: {all: {}, tidy: {command: optimize}}}\n")


def test_no_text_of_the_user_becomes_code() -> None:
    nasty = "x'\"; {{ boom }} $(boom) `boom`\n.sh"
    made = Workflow("a 'name'", (Task("class", select=(nasty,), depends_on=(), description='"""'),))
    for text in (to_airflow(made, "/p"), to_dagster(made, "/p")):
        compile(text, "made", "exec")
    assert "{% raw %}" in to_airflow(made, "/p")
    assert json.loads(to_databricks(made, "/p"))["tasks"][0]["python_wheel_task"]["parameters"] == [
        "run",
        "--select",
        nasty,
        "--project",
        "/p",
    ]


def test_a_command_is_never_taken_for_the_name_of_a_file() -> None:
    made = Workflow("x", (Task("a", TaskCommand.HEALTH, depends_on=()),))
    assert "--project /jobs/run.sh '" in to_airflow(made, "/jobs/run.sh")


def test_a_task_for_each_flow_waits_for_every_table_of_the_sync_that_it_reads(tmp_path: Path) -> None:
    text = (
        "pipeline: p\n"
        "connections: {app: {type: sqlite, path: a.db}, bronze: {type: delta, path: bronze}}\n"
        "sync: [{from: app, to: bronze, tables: [orders, lines], cursor: at, mode: merge}]\n"
        "flows:\n"
        "  silver: {inputs: {o: {path: bronze/orders}}, output: {path: s/o, key: id}}\n"
        "  gold: {inputs: {o: {path: s/o}}, output: {path: g/o, key: id}}\n"
        "workflow: {tasks: {all: {}}}\n"
    )
    planned = plan_workflow(load(tmp_path, text), by_flow=True).workflow
    assert [(task.name, task.select, task.depends_on) for task in planned.tasks] == [
        ("orders", ("orders",), ()),
        ("lines", ("lines",), ()),
        ("silver", ("silver",), ("orders", "lines")),
        ("gold", ("gold",), ("silver",)),
    ]
    clash = text.replace("tables: [orders, lines]", "tables: [a.b, a_b]")
    with pytest.raises(ConfigError, match=r"`a\.b` and `a_b` would be one task"):
        plan_workflow(load(tmp_path, clash), by_flow=True)
