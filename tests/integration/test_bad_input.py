"""Wrong projects, servers and tables: one sentence, a hint, the right exit code, and nothing is changed."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.integration.conftest import Make
from tests.support.lake import rows
from tests.support.project import Project, refused, unchanged
from tests.support.servers import MariaDB, Postgres, free_port, start_s3

SYNC = "tables: [t], cursor: at, settle: 1s, batch_rows: 2, parallel: 1"


@pytest.fixture
def project(make: Make) -> Project:
    """A project that has run: there is a ledger and a lake to leave alone."""
    made = make()
    made.database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT, at TEXT NOT NULL, f REAL)")
    made.database.insert("t", [(n, f"word {n}", "2025-01-01 00:00:00", n / 2) for n in range(5)])
    assert made.write(SYNC).here("run").code == 0
    return made


def server(make: Make, engine: str) -> Project:
    made = make(engine)
    made.database.execute(
        f"CREATE TABLE t (id INTEGER PRIMARY KEY, at {made.database.moment} NOT NULL, f DOUBLE PRECISION)"
    )
    made.database.insert("t", [(n, "2025-01-01 00:00:00", 0.5) for n in range(5)])
    return made


@pytest.mark.parametrize(
    ("sync", "words"),
    [
        ("tables: [t], cursr: at", ["cursr", "did you mean `cursor`"]),
        ("tables: [t], cursor: at, settle: 30 parsecs", ["30 parsecs", "is not a duration"]),
        ("tables: [t], cursor: at, null_cursor: maybe", ["maybe", "fail"]),
        ("tables: [t], cursor: at, open_transactions: {ignore_afer: 1h}", ["ignore_after"]),
    ],
)
def test_a_wrong_word_in_the_file_is_shown_with_file_line_and_the_right_one(
    project: Project, sync: str, words: list[str]
) -> None:
    with unchanged(project):
        sentence = refused(project.write(sync).here("run"), *words, code=2)
    assert re.search(r"tidegauge\.yml:\d+:\d+: ", sentence)


def test_a_connection_that_is_not_there_names_the_nearest(project: Project) -> None:
    project.write(SYNC)
    project.file.write_text(project.file.read_text().replace("from: app", "from: ap"))
    with unchanged(project):
        refused(project.here("run"), "ap", "app", code=2)


def test_a_secret_that_is_not_set_is_named_by_its_variable(project: Project) -> None:
    connection = "{type: mysql, database: d, user: u, password: '${env:TG_NOT_SET}'}"
    project.file.write_text(project.file.read_text().replace(project.database.connection, connection))
    with unchanged(project):
        refused(project.here("run"), "TG_NOT_SET", code=2)
        refused(project.here("status"), "TG_NOT_SET", code=2)


def test_e6_a_file_that_would_build_objects_is_only_refused(project: Project) -> None:
    text = project.file.read_text()
    project.file.write_text(text + f"lease: !!python/object/apply:os.mkdir ['{project.folder / 'hacked'}']\n")
    with unchanged(project):
        refused(project.here("run"), code=2)
    assert not (project.folder / "hacked").exists()


@pytest.mark.parametrize("engine", ["mysql", "postgresql"])
def test_a_wrong_password_is_refused_by_the_server_and_told_in_a_sentence(
    make: Make, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = server(make, engine).write(SYNC)
    monkeypatch.setenv("TG_MYSQL" if engine == "mysql" else "TG_POSTGRES", "not the password")
    with unchanged(project):
        refused(project.here("run"), "app", "password")
        refused(project.here("plan"), "password")
        assert "✗ connection app" in project.here("doctor").out


@pytest.mark.parametrize("engine", ["mysql", "postgresql"])
def test_a_server_that_is_down_is_told_in_seconds(make: Make, engine: str) -> None:
    project = server(make, engine).write(SYNC)
    text = re.sub(r"port: \d+", f"port: {free_port()}", project.file.read_text())
    project.file.write_text(text)
    with unchanged(project):
        ran = project.here("run", "--json")
        assert ran.code == 1
        [flow] = ran.json["flows"]
        assert (flow["error"]["type"], flow["error"]["retryable"]) == ("SourceUnreachable", True)
        refused(project.here("run"), "app")


@pytest.mark.parametrize("engine", ["sqlite", "mysql", "postgresql"])
@pytest.mark.parametrize(
    ("sync", "words"),
    [
        ("tables: [tt], cursor: at", ["tt"]),
        ("tables: [t], cursor: att", ["att", "at"]),
        ("tables: [t], cursor: 'coalesce(at, nothing)'", ["nothing"]),
        ("tables: [t], cursor: at, key: idd", ["idd", "id"]),
        ("tables: [t], cursor: at, types: {idd: string}", ["idd"]),
        ("tables: [t], cursor: f", ["f", "cannot be ordered safely"]),
    ],
)
def test_a_table_or_column_that_is_not_there_or_does_not_fit_is_named(
    make: Make, engine: str, sync: str, words: list[str]
) -> None:
    project = server(make, engine).write(sync)
    with unchanged(project):
        refused(project.here("run"), *words)
        refused(project.here("plan"), *words)


@pytest.mark.parametrize("engine", ["sqlite", "mysql", "postgresql"])
def test_a_key_that_is_none_is_refused_with_an_example(make: Make, engine: str) -> None:
    project = make(engine)
    moment = project.database.moment
    project.database.execute(f"CREATE TABLE t (a INTEGER NOT NULL, b INTEGER, at {moment} NOT NULL)")
    project.database.insert("t", [(1, 1, "2025-01-01 00:00:00"), (1, None, "2025-01-01 00:00:00")])
    with unchanged(project):
        refused(project.write("tables: [t], cursor: at, key: a").here("run"), "not unique")
        refused(project.write("tables: [t], cursor: at, key: [a, b]").here("run"), "NULL")


@pytest.mark.parametrize("engine", ["mysql", "postgresql"])
@pytest.mark.parametrize(
    "option",
    [
        "autoDeserialize: 'true'",
        "AUTODESERIALIZE: 'true'",
        "allowLoadLocalInfile: 'true'",
        "'%61utoDeserialize': 'true'",
        "'connect_timeout=1&autoDeserialize': 'true'",
        "socketFactory: org.springframework.context.support.ClassPathXmlApplicationContext",
        "loggerFile: /tmp/x",
        "sessionInitStatement: DROP TABLE t",
        "ssl_ca: '/tmp/x?autoDeserialize=true'",
    ],
)
def test_e2_hostile_options_never_reach_a_driver(make: Make, engine: str, option: str) -> None:
    project = server(make, engine).write(SYNC)
    text = project.file.read_text().replace("{type: " + engine, f"{{options: {{{option}}}, type: {engine}")
    project.file.write_text(text)
    with unchanged(project):
        refused(project.here("run"), code=2)


@pytest.mark.parametrize("engine", ["mysql", "postgresql"])
@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("host", "'127.0.0.1/x?autoDeserialize=true&a='", 2),
        ("host", "'127.0.0.1:1,evil'", 2),
        ("database", "'t?autoDeserialize=true'", 1),
        ("database", "'../%61?allowLoadLocalInfile=true#'", 1),
        ("user", "'u&autoDeserialize=true'", 1),
    ],
)
def test_e2_options_hidden_in_other_keys_are_only_strange_names(
    make: Make, engine: str, key: str, value: str, code: int
) -> None:
    project = server(make, engine).write(SYNC)
    text = re.sub(rf"{key}: [^,}}]+", f"{key}: {value}", project.file.read_text(), count=1)
    project.file.write_text(text)
    with unchanged(project):
        refused(project.here("run"), code=code)


def test_b4_a_filled_lake_without_its_ledger_is_refused_and_not_read_again(project: Project) -> None:
    project.ledger_file.unlink()
    with unchanged(project):
        refused(project.here("run"), "holds batches", "ledger")
        refused(project.here("plan"), "holds batches")
    assert len(rows(project.lake, "t")) == 5


def test_b5_an_older_ledger_is_refused_and_so_is_one_ahead_of_its_lake(project: Project) -> None:
    older = project.folder / "older.db"
    shutil.copy(project.ledger_file, older)
    lake = project.folder / "older_lake"
    shutil.copytree(project.folder / "lake", lake)
    project.database.insert("t", [(9, "later", "2025-01-01 00:00:00", 0.0)])
    project.write(f"{SYNC}, lookback: 9999d")
    assert project.here("run").code == 0
    newer = project.folder / "newer.db"
    shutil.copy(project.ledger_file, newer)

    shutil.copy(older, project.ledger_file)
    with unchanged(project):
        refused(project.here("run"), "more batches than the ledger knows", "ledger rebuild")
        refused(project.here("plan"), "more batches than the ledger knows")
    # As the hint says.
    assert project.here("ledger", "rebuild", "--reason", "a test", "--yes").code == 0
    assert project.here("run").code == 0
    assert project.here("verify").code == 0

    shutil.copy(newer, project.ledger_file)
    shutil.rmtree(project.folder / "lake")
    lake.rename(project.folder / "lake")
    with unchanged(project):
        refused(project.here("run"), "does not have it")


def test_a_lake_that_another_pipeline_writes_is_refused(project: Project) -> None:
    project.file.write_text(project.file.read_text().replace("pipeline: test", "pipeline: other"))
    with unchanged(project):
        refused(project.here("run"), "holds batches")


def test_a_ledger_made_by_newer_code_is_refused(project: Project) -> None:
    with closing(sqlite3.connect(project.ledger_file)) as ledger, ledger:
        [(table,)] = ledger.execute(
            "SELECT name FROM sqlite_master WHERE name LIKE '%version%' AND type = 'table'"
        )
        ledger.execute(f"UPDATE {table} SET version_num = '9999'")
    with unchanged(project):
        for command in ("run", "plan", "status", "history"):
            refused(project.here(command), "newer")


def test_a_ledger_that_is_a_folder_or_another_file_is_refused(project: Project) -> None:
    project.ledger_file.rename(project.folder / "kept.db")
    project.ledger_file.mkdir()
    for command in ("run", "status"):
        refused(project.here(command), "ledger.db")
    project.ledger_file.rmdir()
    project.ledger_file.write_bytes(b"this is no database, but a letter to somebody" * 100)
    for command in ("run", "status"):
        refused(project.here(command), "ledger.db")
    assert project.ledger_file.read_bytes().startswith(b"this is no database")


def test_a_ledger_that_another_process_locks_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.ledger.sql_connect.BUSY_SECONDS", 1)
    with closing(sqlite3.connect(project.ledger_file, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        refused(project.here("run"), "locked")
        holder.execute("ROLLBACK")


@pytest.mark.parametrize("engine", ["mysql", "postgresql"])
def test_a_ledger_server_with_a_wrong_password_or_without_the_database_is_named(
    project: Project, engine: str, mariadb: MariaDB, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    at: MariaDB | Postgres = mariadb if engine == "mysql" else postgres
    monkeypatch.setenv("TG_LEDGER", "not the password")
    address = f"{engine}://{at.user}:${{env:TG_LEDGER}}@{at.host}:{at.port}/nothing"
    refused(project.write(SYNC, ledger=address).here("run"), "refused the login")
    monkeypatch.setenv("TG_LEDGER", at.password)
    refused(project.here("run"), "no such database")
    down = address.replace(f":{at.port}", f":{free_port()}")
    refused(project.write(SYNC, ledger=down).here("status"), "cannot be reached")


def test_a_missing_bucket_and_wrong_keys_are_told_apart(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make()
    project.database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")
    project.database.insert("t", [(1, "2025-01-01 00:00:00")])
    with start_s3() as s3:
        bucket = s3.create_bucket()
        monkeypatch.setenv("S3_KEY", s3.access_key)
        monkeypatch.setenv("S3_SECRET", "wrong-secret")
        place = (
            f"{{type: parquet, path: 's3a://BUCKET/raw', endpoint: '{s3.endpoint}', region: {s3.region},"
            " access_key: '${env:S3_KEY}', secret_key: '${env:S3_SECRET}'}"
        )
        missing = project.write(SYNC, lake_text=place.replace("BUCKET", "no-such-bucket"))
        with unchanged(missing):
            refused(missing.here("run"), "no-such-bucket")
            refused(missing.here("plan"), "no-such-bucket")
        urlopen(Request(f"{s3.endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})).close()
        wrong = project.write(SYNC, lake_text=place.replace("BUCKET", bucket))
        with unchanged(wrong):
            refused(wrong.here("run"), "refused the keys", bucket)
    with unchanged(wrong):
        ran = wrong.here("run", "--json")
        assert (ran.code, ran.flow("t")["error"]["type"]) == (1, "OutputUnreachable"), ran.said


def test_a_lake_path_that_is_a_file_is_refused(project: Project) -> None:
    (project.folder / "file").write_text("not a folder")
    project.write(SYNC, lake_text="{type: parquet, path: file}")
    refused(project.here("run"), "file")


def test_a_sqlite_file_that_is_missing_is_not_made(make: Make, tmp_path: Path) -> None:
    project = make()
    project.write(SYNC)
    refused(project.here("run"), "source.db")
    assert not os.path.lexists(tmp_path / "source.db")
