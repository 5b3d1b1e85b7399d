"""Hazard E3 from end to end: canaries as passwords, failures of every kind, a search of all that is left."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from tests.integration.conftest import Make
from tests.support.project import Project, Ran
from tests.support.servers import S3, MariaDB, Postgres, free_port
from tidegauge.sources.connectorx_split import ConnectorxSplit
from tidegauge.sources.jdbc import JdbcReader

CANARY = "cänary/Pa ss@w0rd%41&x=1"
SYNC = "tables: [t], cursor: at, settle: 1s"
FORMS = {
    CANARY,
    quote(CANARY, safe=""),
    quote(CANARY),
    quote_plus(CANARY),
    CANARY.encode("unicode_escape").decode(),
    CANARY.encode().hex(),
}


def leaks(text: str) -> list[str]:
    return [form for form in FORMS if form.lower() in text.lower()]


def silent(*runs: Ran) -> None:
    for ran in runs:
        assert leaks(ran.out + ran.err) == [], "a secret was printed"


@pytest.fixture
def accounts(mariadb: MariaDB, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login on each server whose password is the canary."""
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE USER canary@'%%' IDENTIFIED BY %s", (CANARY,))
        cursor.execute("GRANT ALL PRIVILEGES ON *.* TO canary@'%'")
    with postgres.connect() as connection, connection.transaction():
        # Test processes share the server, and one of them comes first.
        connection.execute("SELECT pg_advisory_xact_lock(1)")
        known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'canary'").fetchone()
        verb = "ALTER" if known else "CREATE"
        connection.execute(f"{verb} ROLE canary SUPERUSER LOGIN PASSWORD '{CANARY}'")
    for name in ("TG_CANARY", "TG_CANARY_SOURCE"):
        monkeypatch.setenv(name, CANARY)


def as_canary(text: str) -> str:
    for variable in ("TG_MYSQL", "TG_POSTGRES"):
        text = text.replace(f"${{env:{variable}}}", "${env:TG_CANARY_SOURCE}")
    return text.replace("user: tidegauge", "user: canary")


@pytest.mark.shown_on("mysql-jdbc", "postgresql-direct")
@pytest.mark.parametrize("read", ["jdbc", "direct"])
@pytest.mark.parametrize("engine", ["mysql", "postgresql"])
def test_e3_no_secret_is_in_anything_that_is_printed_or_kept(
    make: Make,
    engine: str,
    read: str,
    accounts: None,
    mariadb: MariaDB,
    postgres: Postgres,
    s3: S3,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The passwords of source, ledger and bucket are the canary; runs succeed and fail around it."""
    project = make(engine, "s3")
    database = project.database
    other: MariaDB | Postgres = postgres if engine == "mysql" else mariadb
    scheme = "postgresql" if engine == "mysql" else "mysql"
    ledger = other.create_database()
    address = f"{scheme}://canary:${{env:TG_CANARY}}@{other.host}:{other.port}/{ledger}"
    # moto takes any key: the canary is as good as another.
    place = project.lake_text.replace("${env:TG_S3_SECRET}", "${env:TG_CANARY}")
    moment = database.moment
    database.execute(
        f"CREATE TABLE t (id INTEGER PRIMARY KEY, value {moment} NOT NULL, at {moment} NOT NULL)",
    )
    database.insert("t", [(n, "2025-01-01 00:00:00", "2025-01-01 00:00:00") for n in range(3)])

    def write(**changes: str) -> Project:
        project.write(f"{SYNC}, read: {read}", **{"ledger": address, "lake_text": place, **changes})
        project.file.write_text(as_canary(project.file.read_text()))
        return project

    good = write().here("run", "--json", "--debug")
    assert good.code == 0, good.said
    looks = [
        project.here(*words, "--debug")
        for words in (["status"], ["history"], ["watermark", "list"], ["plan"], ["doctor"], ["files", "list"])
    ]
    assert {ran.code for ran in looks} == {0}, [ran.said for ran in looks if ran.code]
    silent(good, *looks)

    failures: list[Ran] = []
    # A value that only the read finds out cannot be held; then a table that is gone when it is read.
    database.execute(f"INSERT INTO t VALUES (9, {_unreadable(engine)}, '2025-01-02 00:00:00')")
    _rewind(project)
    failures.append(project.here("run", "--json", "--debug"))
    assert failures[-1].flow(project.name("t"))["error"]["type"] == "TypeNotHeld", failures[-1].said
    place_of_read, name = (JdbcReader, "read") if read == "jdbc" else (ConnectorxSplit, "batches")
    reads = getattr(place_of_read, name)

    def too_late(*words: Any) -> Any:
        database.execute("ALTER TABLE t RENAME TO gone")
        return reads(*words)

    with monkeypatch.context() as patched:
        patched.setattr(place_of_read, name, too_late)
        failures.append(project.here("run", "--debug"))
    told = failures[-1].err
    assert "Caused by" in told or "\tat " in told or read == "direct", failures[-1].said
    database.execute("ALTER TABLE gone RENAME TO t")
    # The servers say no, or nothing.
    for name in ("TG_CANARY_SOURCE", "TG_CANARY"):
        monkeypatch.setenv(name, CANARY + "!")
        failures += [project.here("run", "--debug"), project.here("run", "--json", "--debug")]
        monkeypatch.setenv(name, CANARY)
    for port in {str(mariadb.port), str(postgres.port)}:
        text = project.file.read_text()
        project.file.write_text(text.replace(port, str(free_port())))
        failures.append(project.here("run", "--debug"))
        project.file.write_text(text)
    write(lake_text=place.replace(s3.endpoint, f"http://127.0.0.1:{free_port()}"))
    failures.append(project.here("run", "--debug"))
    assert {ran.code for ran in failures} == {1}, [ran.said for ran in failures if ran.code != 1]
    silent(*failures)

    kept = _ledger_text(other, ledger)
    assert "refused" in kept or "failed" in kept, "no failure was kept, so this proves nothing"
    assert leaks(kept) == [], "a secret is in the ledger"
    for name in project.lake.names(project.name("t")):
        body = project.lake.get(project.name("t"), name)
        assert leaks(body.decode("latin-1")) == [], name
        assert CANARY.encode() not in body, name
    for name, body in project.traces().items():
        assert CANARY.encode() not in body, name


def test_e3_plain_text_secrets_are_not_even_accepted(make: Make) -> None:
    project = make("mysql").write(SYNC)
    project.file.write_text(project.file.read_text().replace("${env:TG_MYSQL}", CANARY))
    ran = project.here("run", "--debug")
    assert ran.code == 2, ran.said
    silent(ran)
    project.write(SYNC, ledger=f"mysql://u:{quote(CANARY, safe='')}@127.0.0.1/d")
    ran = project.here("run", "--debug")
    assert ran.code == 2, ran.said
    silent(ran)


def test_e3_a_surprise_inside_shows_no_secret_either(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Even an exception that nobody foresaw, with the password in its message."""
    project = make("mysql")
    password = os.environ["TG_MYSQL"]
    project.database.execute("CREATE TABLE t (id INT PRIMARY KEY, at DATETIME NOT NULL)")
    project.database.insert("t", [(1, "2025-01-01 00:00:00")])
    project.write(f"{SYNC}, read: jdbc")

    def surprise(*_: object, **__: object) -> None:
        raise ZeroDivisionError(f"jdbc:mysql://host?password={password}")

    with monkeypatch.context() as patched:
        patched.setattr("tidegauge.sources.jdbc.JdbcReader.read", surprise)
        in_walk = project.here("run", "--debug")
    with monkeypatch.context() as patched:
        patched.setattr("tidegauge.run.run.choose", surprise)
        environment = [project.here("run"), project.here("run", "--json", "--debug")]
    for ran in (in_walk, *environment):
        assert ran.code == 1, ran.said
        assert "password=***" in ran.out + ran.err
        assert password not in ran.out + ran.err
        assert quote(password, safe="") not in ran.out + ran.err
    assert "unexpected ZeroDivisionError" in environment[0].err
    assert "Traceback" not in environment[0].err
    with closing(sqlite3.connect(project.ledger_file)) as ledger:
        assert password not in "\n".join(ledger.iterdump())


def _unreadable(engine: str) -> str:
    """A value that only the read of the batch finds out cannot be held."""
    return "'infinity'" if engine == "postgresql" else "'0000-00-00 00:00:00'"


def _rewind(project: Project) -> None:
    """The new row lies below the watermark: read the past again."""
    project.file.write_text(project.file.read_text().replace("settle: 1s", "settle: 1s, lookback: 9999d"))


def _ledger_text(server: MariaDB | Postgres, database: str) -> str:
    parts = []
    with closing(server.connect(database)) as connection:
        cursor = connection.cursor()
        for table in ("flows", "plans", "runs", "watermarks", "history"):
            cursor.execute(f"SELECT * FROM {table}")
            parts += [str(row) for row in cursor.fetchall()]
    return "\n".join(parts)
