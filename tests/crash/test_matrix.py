"""Kill a run before and after every step of the protocol, run again, and compare row by row.

The steps come from the code: a step that is added without a place here fails `test_every_step_…`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.lake import Lake, LocalLake, S3Lake, rows
from tests.support.nursery import Nursery
from tests.support.project import Ran, end
from tests.support.servers import S3, MariaDB, Postgres
from tidegauge.run.steps import Step

# A step that comes once for each batch is hit in the second one, with one batch behind it and one ahead.
TIMES = {
    Step.PLAN: 1,
    Step.CLAIM: 1,
    Step.BEGIN: 2,
    Step.WRITE: 2,
    Step.PUBLISH: 2,
    Step.CONFIRM: 2,
    Step.ADVANCE: 2,
    Step.FINISH: 1,
}
COMBINATIONS = [
    ("sqlite", "local"),
    ("postgresql", "s3"),
    ("mysql", "local"),
    ("json", "s3"),
    ("delta", "local"),
]
ROWS = 45

Setting = Callable[[str, str], tuple[Path, Lake]]


@pytest.fixture
def setting(
    tmp_path: Path,
    connect: str,
    mariadb: MariaDB,
    postgres: Postgres,
    s3: S3,
    monkeypatch: pytest.MonkeyPatch,
) -> Setting:
    """A project with a source of three batches, on the ledger and the output asked for."""

    def make(ledger: str, output: str) -> tuple[Path, Lake]:
        monkeypatch.setenv("LEDGER_PASSWORD", mariadb.password if ledger == "mysql" else postgres.password)
        monkeypatch.setenv("S3_KEY", s3.access_key)
        monkeypatch.setenv("S3_SECRET", s3.secret_key)
        # An address of a bucket holds no keys: they come by the usual AWS chain.
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
        server = mariadb if ledger == "mysql" else postgres
        address = "sqlite:///ledger.db"
        if ledger == "json":
            address = f"json:s3a://{s3.create_bucket()}/ledger?endpoint={s3.endpoint}&region={s3.region}"
        elif ledger == "delta":
            address = f"delta:{tmp_path / 'ledger'}"
        elif ledger != "sqlite":
            login = f"{server.user}:${{env:LEDGER_PASSWORD}}@{server.host}:{server.port}"
            address = f"{ledger}://{login}/{server.create_database()}"
        lake: Lake = LocalLake(tmp_path / "lake")
        place = "{type: parquet, path: lake}"
        if output == "s3":
            bucket = s3.create_bucket()
            lake = S3Lake(s3, bucket, "raw")
            place = (
                f"{{type: parquet, path: 's3a://{bucket}/raw', endpoint: '{s3.endpoint}',"
                f" region: {s3.region},"
                " access_key: '${env:S3_KEY}', secret_key: '${env:S3_SECRET}'}"
            )
        with closing(sqlite3.connect(tmp_path / "source.db")) as source, source:
            source.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT, at TEXT NOT NULL)")
            source.executemany(
                "INSERT INTO t VALUES (?, ?, ?)",
                [(n, f"word {n}", f"2025-01-01 00:00:0{n % 3}") for n in range(ROWS)],
            )
        project = tmp_path / "tidegauge.yml"
        project.write_text(
            f"pipeline: crash\nledger: '{address}'\nspark: {{master: '{connect}'}}\n"
            f"connections:\n  app: {{type: sqlite, path: source.db}}\n  lake: {place}\n"
            "sync:\n  - {from: app, to: lake, tables: [t], cursor: at, settle: 1s, batch_rows: 15}\n"
        )
        return project, lake

    return make


def child(nursery: Nursery, project: Path, *kill: str) -> Ran:
    return end(nursery.main(project, *kill, module="tests.crash.child"))


def test_every_step_of_the_protocol_is_killed_here() -> None:
    assert set(TIMES) == set(Step)


@pytest.mark.shown_on("sqlite", "json")
@pytest.mark.parametrize("step", list(Step))
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("ledger", "output"), COMBINATIONS)
def test_b1_b2_a_run_killed_at_any_step_loses_and_doubles_nothing(
    setting: Setting, nursery: Nursery, ledger: str, output: str, side: str, step: Step
) -> None:
    project, lake = setting(ledger, output)
    killed = child(nursery, project, side, step, str(TIMES[step]))
    assert killed.code == -9, killed.said

    again = child(nursery, project)
    assert again.code == 0, again.said

    found = sorted((row["id"], row["word"], row["at"]) for row in rows(lake, "t"))
    assert found == [(n, f"word {n}", f"2025-01-01 00:00:0{n % 3}") for n in range(ROWS)]
    assert again.out.splitlines()[-1].strip() == "t SKIPPED 0", "the second run found something new"
