"""Opening a ledger: made, found, refused, out of reach."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url

import tidegauge.ledger.migrate
from tests.support import processes
from tests.support.drafts import ME, draft
from tests.support.ledgers import open_sql
from tests.support.servers import HOST, S3, MariaDB, Postgres, free_port
from tidegauge.errors import LedgerError, LedgerUnreachable, LedgerVersion, TidegaugeError
from tidegauge.ledger.empty import EmptyLedger
from tidegauge.ledger.migrate import migrate
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.ledger.sql_tables import VERSION_TABLE, VERSIONS, metadata
from tidegauge.model.secret import Secret


def version_is(address: str, number: str) -> None:
    with open_sql(address) as ledger, ledger._writer.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = :number"), {"number": number})


def fails(address: str | Secret, *, create: bool = True) -> TidegaugeError:
    with pytest.raises(TidegaugeError) as caught:
        open_ledger(address, create=create).close()
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value


# --- made and found


def test_an_empty_store_becomes_a_ledger_and_is_found_again(ledger_address: str) -> None:
    with open_ledger(Secret(ledger_address), create=True) as ledger:
        plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]
    for create in (True, False):
        with open_ledger(ledger_address, create=create) as found:
            assert not isinstance(found, EmptyLedger)
            assert found.status("shop")[0].plan == plan


def test_without_create_nothing_is_made_and_the_ledger_is_empty(
    ledger_address: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with open_ledger(ledger_address, create=False) as ledger:
        assert isinstance(ledger, EmptyLedger)
        assert not [*ledger.status("shop"), *ledger.watermarks("shop"), *ledger.history("shop")]
        assert (ledger.pipelines(), ledger.find_plan("p")) == ([], None)
        assert ledger.now().tzinfo is None
    if "s3a:" in ledger_address:
        bucket = ledger_address.partition("s3a://")[2].partition("/")[0]
        server: S3 = request.getfixturevalue("s3")
        assert "Contents" not in server.client().list_objects_v2(Bucket=bucket)
    assert not (tmp_path / "made").exists()
    with open_ledger(ledger_address, create=False) as ledger:
        assert isinstance(ledger, EmptyLedger)


def test_reading_leaves_a_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    open_ledger(f"sqlite:///{path}", create=True).close()
    before = (path.read_bytes(), path.stat().st_mtime_ns, sorted(tmp_path.iterdir()))
    with open_ledger(f"sqlite:///{path}", create=False) as ledger:
        ledger.status("shop")
    assert (path.read_bytes(), path.stat().st_mtime_ns, sorted(tmp_path.iterdir())) == before


def test_sqlite_commits_are_durable_and_readers_do_not_wait(tmp_path: Path) -> None:
    with open_sql(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        with ledger._engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        with ledger._writer.begin():
            assert ledger.status("shop") == []


def test_a_path_is_taken_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "50%25 off?mode=ro#1 'é🌊'.db"
    with open_ledger(f"sqlite:///{path}", create=True) as ledger:
        ledger.plan([draft()], owner=ME, run_id="run")
    assert path.exists()
    assert sorted(tmp_path.iterdir()) == [path.parent]


# --- versions


def test_migrations_end_where_the_code_expects_the_tables(sql_ledger_address: str) -> None:
    with open_sql(sql_ledger_address) as ledger, ledger._engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_the_code_knows_every_migration() -> None:
    config = Config()
    config.set_main_option(
        "script_location", str(Path(tidegauge.ledger.migrate.__file__).parent / "migrations")
    )
    script = ScriptDirectory.from_config(config)
    assert tuple(reversed([step.revision for step in script.walk_revisions()])) == VERSIONS


def test_a_ledger_newer_than_the_code_is_refused(sql_ledger_address: str) -> None:
    version_is(sql_ledger_address, "9999")
    for create in (True, False):
        error = fails(sql_ledger_address, create=create)
        assert isinstance(error, LedgerVersion)
        assert "9999" in error.message
        assert error.hint is not None
        assert "upgrade Tidegauge" in error.hint
    with pytest.raises(LedgerVersion):
        migrate(sql_ledger_address)


def test_a_ledger_behind_the_code_asks_for_migration(
    sql_ledger_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ledger(sql_ledger_address, create=True).close()
    monkeypatch.setattr(tidegauge.ledger.migrate, "VERSIONS", (*VERSIONS, "next"))
    monkeypatch.setattr(tidegauge.ledger.migrate, "WORKABLE", ("next",))
    for create in (True, False):
        error = fails(sql_ledger_address, create=create)
        assert isinstance(error, LedgerVersion)
        assert error.hint == "run `tidegauge ledger migrate`"


def test_migrate_makes_a_ledger_and_says_from_where_to_where(sql_ledger_address: str) -> None:
    done = migrate(sql_ledger_address)
    assert (done.before, done.after) == (None, VERSIONS[-1])
    with open_ledger(sql_ledger_address, create=False) as ledger:
        assert isinstance(ledger, SqlLedger)
        ledger.plan([draft()], owner=ME, run_id="run")
        again = migrate(sql_ledger_address)
        assert (again.before, again.after) == (VERSIONS[-1], VERSIONS[-1])
        assert len(ledger.status("shop")) == 1


def test_a_migration_that_was_cut_off_is_gone_on_with(sql_ledger_address: str) -> None:
    """As MySQL leaves it, where every table is a commit of its own."""
    with open_sql(sql_ledger_address) as ledger, ledger._writer.begin() as connection:
        for table in (VERSION_TABLE, "history", "runs"):
            drop(connection, table)
        connection.execute(text("DROP INDEX ix_flows_pipeline" + _on_flows(connection.dialect.name)))
    with open_sql(sql_ledger_address) as ledger, ledger._engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []


def drop(connection: Connection, table: str) -> None:
    # With the views that read it, which PostgreSQL wants to be told.
    more = " CASCADE" if connection.dialect.name == "postgresql" else ""
    connection.execute(text(f"DROP TABLE {table}{more}"))


def _on_flows(dialect: str) -> str:
    return " ON flows" if dialect == "mysql" else ""


def test_a_table_of_somebody_else_is_not_touched(sql_ledger_address: str) -> None:
    open_ledger(sql_ledger_address, create=True).close()
    with open_sql(sql_ledger_address) as ledger, ledger._writer.begin() as connection:
        for table in (VERSION_TABLE, *metadata.tables):
            drop(connection, table)
        connection.execute(text("CREATE TABLE plans (id integer)"))
    error = fails(sql_ledger_address)
    assert isinstance(error, LedgerError)
    assert "'plans'" in error.message
    with open_ledger(sql_ledger_address, create=False) as left:
        assert isinstance(left, EmptyLedger)


def test_opening_a_ledger_that_is_there_does_not_import_alembic(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/ledger.db"
    open_ledger(address, create=True).close()
    script = (
        "import sys; from tidegauge.ledger.open import open_ledger; open_ledger(sys.argv[1], create=True);"
        "print(sorted({'alembic', 'pyspark', 'pymysql', 'psycopg'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script, address], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- out of reach


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user can enter; pytest's own are closed."""
    path = Path(tempfile.mkdtemp(prefix="tidegauge-ledger-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def as_nobody(work: Callable[[], object]) -> object:
    def unprivileged() -> object:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        return work()

    return processes.run(unprivileged)


def said(work: Callable[[], object]) -> tuple[str, str, str | None, bool] | None:
    try:
        work()
    except TidegaugeError as error:
        return error.type, error.message, error.hint, error.retryable
    return None


def test_a_read_only_file_is_one_clear_sentence(open_folder: Path) -> None:
    address = f"sqlite:///{open_folder}/ledger.db"
    open_ledger(address, create=True).close()
    (open_folder / "ledger.db").chmod(0o444)

    def work() -> object:
        ledger = open_ledger(address, create=True)
        return said(lambda: ledger.plan([draft()], owner=ME, run_id="run"))

    for folder_mode in (0o755, 0o777):
        open_folder.chmod(folder_mode)
        answer = as_nobody(lambda: said(work) or work())
        assert isinstance(answer, tuple)
        kind, message, hint, retryable = answer
        assert kind == "LedgerUnreachable"
        assert address in message
        assert "right to write" in hint or "may read and write" in hint
        assert not retryable


def test_a_folder_that_cannot_be_made_is_one_clear_sentence(open_folder: Path) -> None:
    address = f"sqlite:///{open_folder}/closed/deep/ledger.db"
    answer = as_nobody(lambda: said(lambda: open_ledger(address, create=True)))
    assert isinstance(answer, tuple)
    assert answer[0] == "LedgerUnreachable"
    assert "folder" in answer[1]
    assert "Permission denied" in answer[1]


def test_a_locked_file_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegauge.ledger.sql_connect.BUSY_SECONDS", 0.2)
    path = tmp_path / "ledger.db"
    open_ledger(f"sqlite:///{path}", create=True).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with open_ledger(f"sqlite:///{path}", create=True) as ledger:
        with pytest.raises(LedgerUnreachable, match="locked by another process") as caught:
            ledger.plan([draft()], owner=ME, run_id="run")
        assert caught.value.retryable
        assert ledger.status("shop") == []
        other.execute("ROLLBACK")
        assert ledger.plan([draft()], owner=ME, run_id="run")
    other.close()


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 100)
    for create in (True, False):
        error = fails(f"sqlite:///{path}", create=create)
        assert isinstance(error, LedgerUnreachable)
        assert "not a SQLite database" in error.message
        assert not error.retryable
    assert path.read_text() == "dear diary, " * 100


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    assert "cannot be opened" in fails(f"sqlite:///{tmp_path}").message


def test_a_full_disk_is_one_clear_sentence_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with open_sql(f"sqlite:///{path}") as ledger:
        with ledger._engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerUnreachable, match="disk is full"):
            ledger.plan([draft(f"flow {number}") for number in range(100)], owner=ME, run_id="run")
        assert ledger.status("shop") == []


SERVERS = ["postgres", "mariadb"]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> MariaDB | Postgres:
    found: MariaDB | Postgres = request.getfixturevalue(request.param)
    return found


def test_e3_a_wrong_password_is_one_clear_sentence_without_it(server: MariaDB | Postgres) -> None:
    url = make_url(server.address(server.create_database())).set(password="wrong-canary")
    for create in (True, False):
        error = fails(Secret(url.render_as_string(hide_password=False)), create=create)
        assert isinstance(error, LedgerUnreachable)
        assert "refused the login" in error.message
        assert "wrong-canary" not in f"{error.message} {error.hint} {error!r} {error.__cause__}"
        assert not error.retryable


def test_a_server_that_is_down_is_one_clear_sentence(server: MariaDB | Postgres) -> None:
    url = make_url(server.address("ledger")).set(port=free_port(), host=HOST)
    error = fails(url.render_as_string(hide_password=False))
    assert isinstance(error, LedgerUnreachable)
    assert f"{url.port}/ledger cannot be reached" in error.message
    assert server.password not in error.message
    assert error.retryable


def test_a_database_that_is_missing_is_one_clear_sentence(server: MariaDB | Postgres) -> None:
    error = fails(server.address("nowhere"))
    assert isinstance(error, LedgerUnreachable)
    assert "no such database" in error.message


def test_a_login_without_rights_is_one_clear_sentence(server: MariaDB | Postgres) -> None:
    address = server.bare_login().address(server.create_database())
    error = fails(address)
    assert isinstance(error, LedgerUnreachable)
    assert "does not let this user" in error.message
    assert error.hint is not None
    assert "grant" in error.hint


def test_a_login_that_may_only_select_can_still_read(server: MariaDB | Postgres) -> None:
    database = server.create_database()
    with open_ledger(server.address(database), create=True) as ledger:
        ledger.plan([draft()], owner=ME, run_id="run")
    with open_ledger(server.bare_login().address(database), create=False) as ledger:
        assert len(ledger.status("shop")) == 1


def test_a_connection_that_the_server_ended_is_made_anew(server: MariaDB | Postgres) -> None:
    database = server.create_database()
    with open_ledger(server.address(database), create=True) as ledger:
        ledger.plan([draft()], owner=ME, run_id="run")
        with server.connect(database) as connection, connection.cursor() as cursor:
            if isinstance(server, Postgres):
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = %s AND pid <> pg_backend_pid()",
                    (database,),
                )
            else:
                cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (database,))
                for (number,) in cursor.fetchall():
                    if number != connection.thread_id():
                        cursor.execute(f"KILL {number}")
        assert len(ledger.status("shop")) == 1
        ledger.plan([draft("second")], owner=ME, run_id="run")
        assert len(ledger.status("shop")) == 2


def test_the_version_table_is_not_the_only_thing_that_is_checked(sql_ledger_address: str) -> None:
    """A ledger that lost a table says so instead of showing a stack of SQL."""
    with open_sql(sql_ledger_address) as ledger:
        with ledger._writer.begin() as connection:
            drop(connection, "plans")
        with pytest.raises(LedgerError) as caught:
            ledger.status("shop")
        assert "plans" in caught.value.message
        assert caught.value.hint
