"""Every command from MySQL to Redshift, from the example's list: without a server, and against servers."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.crash.pausing import await_stop
from tests.support.nursery import own_nursery
from tests.support.project import Ran, end, here
from tests.support.servers import S3, MariaDB, Redshift
from tidegauge.run.steps import Step

EXAMPLE = Path(__file__).parents[2] / "examples" / "002_settlement"
DETAIL = "settlement_normal_delivery_detail"
LANDS = {DETAIL: DETAIL, "settlement_claim_detail": "settlement_claim_detail", "partner_info": "partners"}
"""Tables, and where they land."""
BEGINS = "Strategies 1: fresh complete sync"
"""From its end on, each section leaves warehouse and source equal."""

Query = Callable[[str], list[tuple[Any, ...]]]


@dataclass
class Example:
    folder: Path
    table: str
    source: Query
    warehouse: Query
    ran: list[tuple[str, str, Ran]] = field(default_factory=list)
    """Section, command and how it ended."""
    august: int = 0
    """Rows dated after 1 August when the tables were made."""

    def play(self) -> None:
        """The list from its first line to its last; every command has to end well."""
        section, equal = "", False
        for line in commands():
            if line.startswith("# "):
                if equal:
                    self.compare(DETAIL)
                equal |= section == BEGINS
                section = line.removeprefix("# ") if line[2].isupper() else section
            else:
                self.carry_out(section, line)
        for table in LANDS:
            self.compare(table)

    def carry_out(self, section: str, line: str) -> None:
        text = line.replace("$TABLE", self.table).replace("$HERE", str(EXAMPLE))
        words = shlex.split(text)
        match words:
            case ["python3", script, what]:
                runpy.run_path(script)["main"](what)
                if what == "make":
                    late = f"SELECT count(*) FROM {DETAIL} WHERE update_at > '2025-08-01 00:00:00'"
                    [(self.august,)] = self.source(late)
                    assert self.august > 100
            case ["timeout", "--signal=KILL", _, "tidegauge", *asked, "||", "true"]:
                self.interrupt(asked)
            case ["tidegauge", *asked, ">", file]:
                Path(file).write_text(self.done(section, asked).out)
            case ["tidegauge", *asked, "|", "wc", "-l"]:
                assert len(self.done(section, asked).out.splitlines()) > 1
            case ["tidegauge", *asked]:
                assert not {"|", ">", "||", "&&", ";"} & {*asked}
                self.done(section, asked)
            case _:
                raise AssertionError(f"what is this: {line}")

    def done(self, section: str, words: list[str]) -> Ran:
        ran = here(*words)
        assert ran.code == 0, f"{words}: {ran.said}"
        self.ran.append((section, " ".join(words).replace(self.table, "TABLE"), ran))
        return ran

    def interrupt(self, words: list[str]) -> None:
        """Not after some seconds, but where there is something to lose: a batch is in the lake, and the
        ledger does not know it yet."""
        words = ["before", Step.ADVANCE, "1", *words, "--project", str(self.folder)]
        victim = own_nursery().main(*words, module="tests.crash.pausing")
        await_stop(victim)
        victim.send_signal(signal.SIGKILL)
        assert end(victim).code == -signal.SIGKILL, victim.said()

    def compare(self, table: str) -> None:
        source = self.source(f"SELECT * FROM {table} ORDER BY 1, 2")
        assert source
        assert self.warehouse(f"SELECT * FROM {LANDS[table]} ORDER BY 1, 2") == source

    def said(self, section: str, command: str) -> str:
        return next(ran.out for where, what, ran in self.ran if (where, what) == (section, command))

    def taken_over(self) -> set[str]:
        events = here("history", "--json", "--limit", "1000").json["events"]
        return {event["flow"] for event in events if event["event"] == "taken_over"}


def commands() -> list[str]:
    """The lines of the list that do something, and its headings."""
    _, body = (EXAMPLE / "commands.sh").read_text().split("HERE=", 1)
    return [line for line in body.splitlines()[1:] if line]


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Example:
    folder = tmp_path / "embedded"
    folder.mkdir()
    shutil.copy(EXAMPLE / "embedded" / "tidegauge.yml", folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("APP_HOST", raising=False)

    def source(sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect("settlement.db")) as connection:
            return connection.execute(sql).fetchall()

    def warehouse(sql: str) -> list[tuple[Any, ...]]:
        with duckdb.connect("warehouse.duckdb", read_only=True) as connection:
            return connection.execute(sql).fetchall()

    return Example(folder, DETAIL, source, warehouse)


@pytest.fixture
def real(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mariadb: MariaDB, s3: S3, redshift: Redshift
) -> Iterator[Example]:
    shutil.copy(EXAMPLE / "tidegauge.yml", tmp_path)
    monkeypatch.chdir(tmp_path)
    house = redshift.create_database()
    environment = {
        "APP_HOST": mariadb.host,
        "APP_PORT": str(mariadb.port),
        "APP_USER": mariadb.user,
        "APP_PASSWORD": mariadb.password,
        "LAKE_BUCKET": s3.create_bucket(),
        "S3_ENDPOINT": s3.endpoint,
        "AWS_REGION": s3.region,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "DW_HOST": redshift.host,
        "DW_PORT": str(redshift.port),
        "DW_DATABASE": house,
        "DW_USER": redshift.user,
        "DW_PASSWORD": redshift.password,
        "DW_ROLE": redshift.iam_role,
        "DW_SSL": "disable",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    def source(sql: str) -> list[tuple[Any, ...]]:
        with closing(mariadb.connect("settlement")) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def warehouse(sql: str) -> list[tuple[Any, ...]]:
        with closing(redshift.postgres.connect(house)) as connection:
            rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
            return rows

    with closing(mariadb.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE settlement CHARACTER SET utf8mb4")
        yield Example(tmp_path, f"settlement.{DETAIL}", source, warehouse)
        cursor.execute("DROP DATABASE settlement")


@pytest.mark.parametrize("which", ["embedded", pytest.param("real", marks=pytest.mark.long)])
def test_every_command_of_the_list_does_what_it_says(which: str, request: pytest.FixtureRequest) -> None:
    example: Example = request.getfixturevalue(which)
    example.play()
    table = example.table
    first = example.said("Watermark lifecycle: initialization", "watermark get -t TABLE")
    assert first == "No watermark found, will start from default: 2025-01-01 00:00:00\n"
    # After the first sync, from August on.
    shown = example.said("Watermark operations: view, set, reset, list", "watermark get -t TABLE")
    names = ("SQLite → files", "files → DuckDB") if which == "embedded" else ("MySQL → S3", "S3 → Redshift")
    assert [name for name in names if name not in shown] == [], shown
    asked = example.said("Watermark operations: view, set, reset, list", "watermark get -t TABLE --json")
    document = json.loads(asked)
    assert (document["table_name"], document["mysql_status"], document["redshift_status"]) == (
        table,
        "success",
        "success",
    )
    assert document["mysql_rows_extracted"] == document["redshift_rows_loaded"] == example.august
    assert document["s3_file_count"] == document["processed_s3_file_count"]
    assert len(document["processed_s3_files"]) == document["s3_file_count"]
    assert f"{table}/load" in example.said("Watermark operations: view, set, reset, list", "watermark list")
    assert json.loads(Path("watermark_backup.json").read_text())["table_name"] == table
    limited = example.said("Troubleshooting 2: corruption", "sync -t TABLE --limit 1000")
    assert re.search(r"/extract +SUCCESS +1 +1,000 ", limited), limited
    proof = example.said("Advanced 3: validation", "sync -t TABLE --verify-data")
    assert re.search(rf"{table} +✓", proof), proof
    assert f"{table}/extract" in example.taken_over(), "the interrupted plan was ended, not begun anew"


def test_the_list_has_every_command_of_the_requirements() -> None:
    listed = {" ".join(line.split()) for line in commands()}
    for wanted in (
        "watermark get",
        "watermark set --timestamp",
        "watermark reset",
        "watermark reset --mysql-only",
        "watermark reset --redshift-only",
        "watermark list",
        "s3clean clean",
        "s3clean list",
        "s3clean list | wc -l",
        "sync",
        "sync --backup-only",
        "sync --redshift-only",
        "sync --debug",
        "sync --limit 1000",
        "sync --verify-data",
    ):
        verb, *rest = re.split(r" (?=--|\|)", wanted)
        assert any(
            line.startswith(f"tidegauge {verb}") and all(word in line for word in rest) for line in listed
        ), wanted


def test_every_command_on_the_page_is_in_the_list() -> None:
    page = (EXAMPLE.parents[1] / "docs" / "mysql-s3-redshift.md").read_text()
    listed = {line.replace('"$TABLE"', "TABLE") for line in commands()}
    named = re.findall(r"`tidegauge ([^`]+)`", page)
    assert len(named) > 15
    missing = [
        one
        for one in named
        if not any(
            line.startswith("tidegauge ") and all(word in line for word in re.split(r" (?=--)| … ?", one))
            for line in listed
        )
    ]
    assert missing == []


def test_the_list_is_a_script(tmp_path: Path) -> None:
    import subprocess

    assert os.access(EXAMPLE / "commands.sh", os.X_OK)
    subprocess.run(["bash", "-n", EXAMPLE / "commands.sh"], check=True, cwd=tmp_path)
