"""The last row delivered and how far was looked, as commands show them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import Project, local, mysql_database, postgres_database, sqlite_database

ROW = "2021-01-31 10:00:00"


@pytest.fixture(params=["sqlite", "mysql", "postgresql"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    """One table whose only row is years old."""
    match request.param:
        case "sqlite":
            database = sqlite_database(tmp_path / "source.db")
        case "mysql":
            database = mysql_database(request.getfixturevalue("mariadb"))
        case _:
            database = postgres_database(request.getfixturevalue("postgres"))
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, seen {database.moment} NOT NULL)")
    database.insert("t", [(7, ROW)])
    return local(tmp_path, database).write("tables: [t], cursor: seen, settle: 1s")


def ran(project: Project, *words: str) -> dict[str, Any]:
    done = project.here("run", "--json", *words)
    assert done.code == 0, done.said
    return done.flow(project.name("t"))


def shown(project: Project) -> dict[str, Any]:
    [flow] = project.here("status", "--json").json["flows"]
    [mark] = project.here("watermark", "list", "--json").json["watermarks"]
    assert flow["watermarks"] == {mark["input"]: mark["position"]}
    assert flow["checked"] == {mark["input"]: mark["checked"]}
    assert isinstance(flow, dict)
    return flow


def test_a26_f5_a_row_dated_between_the_last_one_and_the_clock_arrives(project: Project) -> None:
    first = ran(project)
    assert first["rows_written"] == 1
    for _ in range(2):
        flow = shown(project)
        [watermark], [checked] = flow["watermarks"].values(), flow["checked"].values()
        assert (watermark["cursor"][:19], watermark["key"]) == (ROW, ["7"])
        assert checked["cursor"] > "2026"
        assert flow["lag_seconds"] < 600, "an idle table is not behind"
        assert ran(project)["state"] == "SKIPPED"

    project.database.insert("t", [(8, "2021-02-01 00:00:00")])
    late = ran(project)
    assert (late["state"], late["rows_written"]) == ("SUCCESS", 1)
    [window] = late["windows"]
    assert window["after"]["key"] == ["7"]
    assert window["upto"]["key"] == ["8"]
    assert project.here("verify").code == 0

    got = project.here("watermark", "get", "-t", project.name("t"))
    assert re.search("Last Data Timestamp: 2021-02-01T00:00:00", got.out), got.said
    assert re.search("Checked Up To: 20(2[6-9]|[3-9])", got.out), got.said


def test_a26_a_limit_stops_at_its_last_row_and_does_not_claim_to_have_looked_further(
    project: Project,
) -> None:
    project.database.insert("t", [(8, "2021-02-01 00:00:00"), (9, "2021-02-02 00:00:00")])
    assert ran(project, "--limit", "2")["rows_written"] == 2
    flow = shown(project)
    [watermark], [checked] = flow["watermarks"].values(), flow["checked"].values()
    assert watermark["key"] == ["8"]
    assert checked == watermark
    assert flow["lag_seconds"] > 3600
    assert ran(project)["rows_written"] == 1


def test_a26_lookback_counts_from_the_last_row_and_never_takes_the_watermark_back(project: Project) -> None:
    project.write("tables: [t], cursor: seen, settle: 1s, lookback: 1h")
    assert ran(project)["rows_written"] == 1
    project.database.insert("t", [(3, "2021-01-31 09:30:00")])
    assert ran(project)["rows_written"] == 2, "the late one, and the last one again"
    assert next(iter(shown(project)["watermarks"].values()))["key"] == ["7"]
    project.database.execute("DELETE FROM t WHERE id = 7")
    ran(project)
    assert next(iter(shown(project)["watermarks"].values()))["key"] == ["7"], "though its row is gone"
    project.database.insert("t", [(9, "2021-01-31 10:00:01")])
    assert ran(project, "--limit", "2")["rows_written"] == 2
    assert next(iter(shown(project)["watermarks"].values()))["key"] == ["9"]
