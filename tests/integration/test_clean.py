"""`files clean --loaded` and `--earlier-epochs`: what goes, what stays, and what is said of what is gone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import duckdb
import pytest

from tests.integration.conftest import Make
from tests.support.project import Project, Ran, refused, until

WHY = ("--reason", "spring", "--yes")
NOW = ("--older-than", "0s")
WAREHOUSE = "  warehouse: {type: duckdb, path: warehouse.duckdb}\n"
OPTIONS = "tables: [orders], cursor: at, settle: 1s, batch_rows: 2, parallel: 1"


def made(project: Project, options: str = OPTIONS) -> Project:
    """Six orders in three batches, which are loaded."""
    project.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER, at TEXT NOT NULL)")
    project.database.insert("orders", [(n, n * 10, f"2025-01-0{n} 12:00:00") for n in range(1, 7)])
    return project.write(options, route="via: lake, to: warehouse", connections=WAREHOUSE)


@pytest.fixture
def project(make: Make) -> Project:
    return made(make())


def done(project: Project, *words: str, code: int = 0) -> Ran:
    ran = project.here(*words, "--json")
    assert ran.code == code, ran.said
    return ran


def cleaned(project: Project, *words: str) -> dict[str, Any]:
    [table] = done(project, "files", "clean", "-t", "orders", *NOW, *words, *WHY).json["tables"]
    assert isinstance(table, dict)
    return table


def landed(project: Project) -> dict[int, int]:
    with duckdb.connect(str(project.folder / "warehouse.duckdb"), read_only=True) as connection:
        return dict(connection.execute("SELECT id, total FROM orders").fetchall())


def parquet(project: Project) -> int:
    return len([name for name in project.lake.names("orders") if name.endswith(".parquet")])


EVERY = {n: n * 10 for n in range(1, 7)}


@pytest.mark.shown_on("local")
@pytest.mark.parametrize("output", ["local", "s3"])
def test_only_what_every_load_has_passed_goes_and_new_batches_come_as_ever(make: Make, output: str) -> None:
    project = made(make("sqlite", output))
    done(project, "run", "--stage", "extract")
    table = cleaned(project, "--loaded")
    assert table["files"] == []
    assert "orders/load has yet to read them" in " ".join(table["notes"])
    done(project, "run", "--stage", "load")
    # Committed and not loaded.
    project.database.insert("orders", [(7, 70, "2025-02-01 00:00:00")])
    done(project, "run", "--stage", "extract")

    def preview() -> Ran:
        return project.here("files", "clean", "-t", "orders", *NOW, "--loaded", "--dry-run")

    def lists_three() -> bool:
        return preview().out.count("orders/extract: loaded: data/") == 3

    if output == "s3":  # which dates files by whole seconds: what is of this second is not older than 0 s
        until(lists_three, seconds=30, tell=lambda: preview().said)
    assert lists_three(), preview().said
    assert parquet(project) == 4
    refused(project.here("files", "clean", "-t", "orders", *NOW, "--loaded", "--yes"), "reason", code=2)
    assert (
        done(project, "files", "clean", "-t", "orders", "--loaded", "--older-than", "30d").json["tables"][0][
            "files"
        ]
        == []
    ), "they are too young"
    table = cleaned(project, "--loaded")
    assert [one["why"] for one in table["files"]] == ["loaded"] * 3
    assert parquet(project) == 1
    event = done(project, "history", "--limit", "1").json["events"][0]
    assert (event["event"], event["reason"]) == ("files_cleaned", "spring (loaded)")

    done(project, "run")
    assert landed(project) == EVERY | {7: 70}
    assert done(project, "verify").json["tables"][0]["equal"]
    [listed] = done(project, "files", "list", "-t", "orders").json["tables"]
    assert [one["seq"] for one in listed["removed"]] == [1, 2, 3]
    assert listed["missing"] == []
    said = project.here("verify", "--stage", "extract")
    assert said.code != 0
    assert "cleaned away" in said.err


def test_a_load_that_has_to_read_what_is_gone_stops_and_says_how_to_go_on(project: Project) -> None:
    done(project, "run")
    cleaned(project, "--loaded")
    before = landed(project)
    again = project.here("run", "--stage", "load", "--full-refresh", *WHY)
    assert again.code == 1
    assert "cleaned away" in again.err
    assert landed(project) == before == EVERY, "nothing was emptied that could not be filled"
    done(project, "watermark", "reset", "--stage", "load", "-t", "orders", *WHY)
    project.database.insert("orders", [(7, 70, "2025-02-01 00:00:00")])
    stopped = project.here("run")
    assert stopped.code == 1
    assert "batch 1 of epoch 0, and 2 more, were cleaned away" in stopped.err
    assert "--full-refresh" in stopped.err
    assert landed(project) == before, "not even the new batch alone"
    done(project, "run", "--full-refresh", *WHY)
    assert landed(project) == EVERY | {7: 70}
    assert done(project, "verify").json["tables"][0]["equal"]


def test_a_ledger_that_is_rebuilt_says_what_is_gone_and_goes_on(project: Project) -> None:
    done(project, "run")
    cleaned(project, "--loaded")
    project.ledger_file.unlink()
    ran = project.here("ledger", "rebuild", *WHY)
    assert ran.code == 0, ran.said
    assert "3 of its 3 batches were cleaned away" in ran.out + ran.err
    project.database.insert("orders", [(7, 70, "2025-02-01 00:00:00")])
    done(project, "run")
    assert landed(project) == EVERY | {7: 70}


def test_earlier_epochs_go_once_nobody_follows_them_and_cannot_be_brought_back(project: Project) -> None:
    done(project, "run")
    done(project, "watermark", "reset", "-t", "orders", *WHY)
    done(project, "run")
    assert parquet(project) == 6
    assert cleaned(project)["files"] == []
    young = project.here("files", "clean", "--earlier-epochs", *WHY)
    assert (young.code, "nothing to clean that is older than 7d" in young.out) == (0, True), young.said
    table = cleaned(project, "--earlier-epochs")
    assert [one["why"] for one in table["files"]] == ["earlier epoch"] * 3
    assert parquet(project) == 3
    assert done(project, "verify").json["tables"][0]["equal"]
    assert done(project, "verify", "--stage", "extract").json["tables"][0]["equal"]
    refused(project.here("watermark", "undo", "-t", "orders", "--stage", "extract", *WHY), "cleaned away")
    project.database.insert("orders", [(7, 70, "2025-02-01 00:00:00")])
    done(project, "run")
    assert landed(project) == EVERY | {7: 70}


def test_a_plan_that_was_begun_keeps_its_batches_also_of_an_earlier_epoch(project: Project) -> None:
    done(project, "run", "--stage", "extract")
    # A target that refuses the rows: the plan over three batches stays, FAILED.
    with duckdb.connect(str(project.folder / "warehouse.duckdb")) as connection:
        connection.execute(
            'CREATE TABLE orders (id BIGINT PRIMARY KEY, total BIGINT CHECK (total < 50), "at" TEXT)'
        )
    done(project, "run", "--stage", "load", code=1)
    done(project, "watermark", "reset", "-t", "orders", "--stage", "extract", *WHY)
    done(project, "run", "--stage", "extract")
    table = cleaned(project, "--earlier-epochs", "--loaded")
    assert table["files"] == [], table
    assert "a plan that was begun reads them" in " ".join(table["notes"])


def test_a_change_by_hand_that_has_not_ended_keeps_everything(project: Project) -> None:
    done(project, "run")
    with closing(sqlite3.connect(project.ledger_file)) as ledger:
        tables = [name for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert "watermarks" in tables
    from tidegauge.ledger.open import open_ledger
    from tidegauge.ledger.owner import this_process

    with open_ledger(f"sqlite:///{project.ledger_file}", create=True) as book:
        book.begin_override("test", "orders/load", "reset", {}, owner=this_process(), reason="half-way")
    table = cleaned(project, "--loaded")
    assert table["files"] == []
    assert "has not ended" in " ".join(table["notes"])


def test_a_table_that_is_read_whole_keeps_its_last_reading(make: Make) -> None:
    project = made(make(), f"{OPTIONS}, mode: overwrite")
    for n in (7, 8):
        done(project, "run")
        project.database.insert("orders", [(n, n * 10, f"2025-02-0{n} 00:00:00")])
    assert parquet(project) == 3 + 4
    assert len(cleaned(project, "--loaded")["files"]) == 3, "of the first reading"
    done(project, "run", "--stage", "load", "--full-refresh", *WHY)
    assert landed(project) == EVERY | {7: 70}
    done(project, "run")
    assert landed(project) == EVERY | {7: 70, 8: 80}


def test_a_lake_that_nobody_loads_stays(make: Make) -> None:
    project = make()
    project.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")
    project.database.insert("orders", [(1, "2025-01-01 12:00:00")])
    project.write("tables: [orders], cursor: at, settle: 1s")
    done(project, "run")
    table = cleaned(project, "--loaded", "--earlier-epochs")
    assert table["files"] == []
    assert "no load of this ledger reads it" in " ".join(table["notes"])


def test_the_older_name_of_the_command_works(project: Project) -> None:
    done(project, "run")
    assert project.here("s3clean", "list", "-t", "orders").code == 0
    ran = project.here("s3clean", "clean", "-t", "orders", "--loaded", *NOW, *WHY)
    assert ran.code == 0, ran.said
    assert parquet(project) == 0
