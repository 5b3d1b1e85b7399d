"""The key `schedule`, on the file, a sync or a flow."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from tidegauge.config.load import load_project
from tidegauge.errors import ConfigError
from tidegauge.flows.selection.scheduled import digest, find_scheduled
from tidegauge.model.schedule import CatchUp, Every
from tidegauge.model.spec import Project

FILE = """\
pipeline: shop
{top}
connections:
  app: {{type: sqlite, path: app.db}}
  lake: {{type: parquet, path: lake}}
sync:
  - {{from: app, to: lake, tables: [orders], cursor: at{orders}}}
  - {{from: app, to: lake, tables: ["c*"], exclude: [cats], cursor: at{rest}}}
flows:
  gold:
    inputs: {{orders: bronze.orders}}
    output: {{table: gold.orders, key: id}}
    {gold}
  v_gold: {{kind: view, inputs: {{gold: gold.orders}}, transform: v.sql, output: {{table: gold.v}}}}
"""


def load(folder: Path, top: str = "", orders: str = "", rest: str = "", gold: str = "") -> Project:
    (folder / "v.sql").write_text("select * from gold")
    file = folder / "tidegauge.yml"
    file.write_text(FILE.format(top=top, orders=orders, rest=rest, gold=gold))
    return load_project(file)


@pytest.mark.parametrize(
    ("written", "shown", "seconds"),
    [
        ("every 1 minute", "every 1 minute", 60),
        ("every minute", "every 1 minute", 60),
        ("Every 60 seconds", "every 1 minute", 60),
        ("every 5 minutes", "every 5 minutes", 300),
        ("every 1h30m", "every 90 minutes", 5400),
        ("every 2 days", "every 2 days", 172800),
        ("every 1500ms", "every 1.5 seconds", 1.5),
        ("{every: 10 minutes, catch_up: none}", "every 10 minutes, catch_up: none", 600),
    ],
)
def test_lengths_as_people_write_them(tmp_path: Path, written: str, shown: str, seconds: float) -> None:
    schedule = load(tmp_path, f"schedule: {written}").schedule
    assert schedule is not None
    assert (str(schedule), schedule.rule) == (shown, Every(timedelta(seconds=seconds)))


def test_a_cron_rule_has_a_zone_and_says_what_becomes_of_missed_times(tmp_path: Path) -> None:
    top = 'schedule: {cron: "*/15 *  * * *", timezone: Europe/Berlin, catch_up: all}'
    schedule = load(tmp_path, top).schedule
    assert schedule is not None
    assert schedule.catch_up is CatchUp.ALL
    assert str(schedule) == "*/15 * * * * Europe/Berlin, catch_up: all"


def test_the_nearer_one_wins_and_none_means_by_hand(tmp_path: Path) -> None:
    project = load(
        tmp_path, "schedule: every 1 minute", ", schedule: every 5 minutes", ", schedule: none", ""
    )
    found = {str(part.schedule): part.names for part in find_scheduled(project)}
    assert found == {"every 5 minutes": ("orders",), "every 1 minute": ("gold", "v_gold")}
    everything = find_scheduled(load(tmp_path, "schedule: every 1 minute"))
    assert [part.names for part in everything] == [("orders", "c*", "gold", "v_gold")]
    assert find_scheduled(load(tmp_path)) == []


def test_a_view_goes_with_what_it_reads(tmp_path: Path) -> None:
    project = load(tmp_path, "", ", schedule: every 1 minute", "", "schedule: every 1 hour")
    found = {str(part.schedule): part.names for part in find_scheduled(project)}
    assert found == {"every 1 minute": ("orders",), "every 1 hour": ("gold", "v_gold")}


def test_a_vacuum_runs_only_where_it_knows_every_reader(tmp_path: Path) -> None:
    tidy = "\n  tidy: {kind: optimize}"
    whole = load(tmp_path, "schedule: every 1 minute", gold=tidy)
    assert [part.names for part in find_scheduled(whole)] == [("orders", "c*", "gold", "v_gold", "tidy")]
    parts = find_scheduled(load(tmp_path, "schedule: every 1 minute", ", schedule: every 1 hour", gold=tidy))
    assert len(parts) == 2
    assert all(part.project.optimizes == () for part in parts)


def test_files_are_the_same_to_schedulers_if_they_schedule_the_same(tmp_path: Path) -> None:
    def of(*parts: str) -> str:
        return digest(find_scheduled(load(tmp_path, *parts)))

    same = of("schedule: every 1 minute")
    assert of("lease: 30s\nschedule: every 60s") == same
    assert of("schedule: every 1 minute", "", ", schedule: every 1 minute") == same
    assert of("schedule: every 2 minutes") != same
    assert of("schedule: every 1 minute", "", ", schedule: every 2 minutes") != same
    assert of("schedule: every 1 minute", "", ", schedule: none") != same


def test_the_file_on_the_page_about_schedules_is_one(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "schedule.md"
    [text] = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "tidegauge.yml").write_text(text)
    found = find_scheduled(load_project(tmp_path / "tidegauge.yml"))
    assert [str(part.schedule) for part in found] == [
        "every 1 minute",
        "30 5 * * 1-5 Europe/Berlin, catch_up: none",
    ]


@pytest.mark.parametrize(
    ("written", "message", "hint", "at"),
    [
        ('{cron: "0 0 30 2 *"}', "never be due", "five fields", "2:18"),
        ('{cron: "0 0 * *"}', "4 fields", "five fields", "2:18"),
        ('{cron: "0 0 * * *", timezone: Mars/Olympus}', "`Mars/Olympus` is not a time zone", "UTC", "2:41"),
        ('{cron: "0 0 * * *", timezone: ../../etc/passwd}', "is not a time zone", "UTC", "2:41"),
        ("{every: 1 hour, timezone: UTC}", "belongs to `cron`", "leave it out", "2:27"),
        ('{every: 1 hour, cron: "0 0 * * *"}', "either `cron` or `every`", "every 5 minutes", "2:11"),
        ("{timezone: UTC}", "either `cron` or `every`", "every 5 minutes", "2:11"),
        ('{cron: "0 0 * * *", catchup: one}', "unknown key `catchup`", "catch_up", "2:31"),
        ('{cron: "0 0 * * *", catch_up: two}', "`two` is not known here", "one", "2:41"),
        ("every", "`every` is not a schedule", "every 5 minutes", "2:11"),
        ("every 0 minutes", "between a second and a year", "every 5 minutes", "2:11"),
        ("every 500ms", "between a second and a year", "every 5 minutes", "2:11"),
        ("every 2 years", "`every 2 years` is not a schedule", "every 5 minutes", "2:11"),
        ("every 999999999 days", "not a schedule", "every 5 minutes", "2:11"),
        ("'*/15 * * * *'", "is not a schedule", "cron:", "2:11"),
        ("[every 1 minute]", "must be text", None, "2:11"),
    ],
)
def test_what_is_no_schedule_is_refused_with_its_place(
    tmp_path: Path, written: str, message: str, hint: str | None, at: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"schedule: {written}")
    said = str(caught.value)
    assert message in said
    assert f"tidegauge.yml:{at}" in said
    assert hint is None or hint in str(caught.value.hint)
