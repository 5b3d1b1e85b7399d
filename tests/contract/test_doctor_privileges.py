"""What `doctor` says of a login's rights, and what a run then does: they agree, and the fix can be typed."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest

from tests.support.project import (
    Database,
    Project,
    duckdb_database,
    local,
    mysql_database,
    postgres_database,
    sqlite_database,
)
from tests.support.servers import MariaDB, Postgres
from tests.support.servers.process import fresh_name
from tidegauge.outputs.warehouse.duckdb.warehouse import DuckDB

NOBODY = 65534
PASSWORD = "words of a loader"


@pytest.fixture(params=["postgresql", "mysql"])
def target(request: pytest.FixtureRequest) -> Database:
    if request.param == "mysql":
        return mysql_database(request.getfixturevalue("mariadb"))
    return postgres_database(request.getfixturevalue("postgres"))


def log_in(target: Database) -> tuple[Database, str]:
    """The same database for a login that may do nothing there, and the login as a GRANT names it."""
    user, os.environ["TG_LOADER"] = fresh_name("loader"), PASSWORD
    if target.engine == "mysql":
        target.execute(f"CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}'")
        named = f"'{user}'@'%'"
    else:
        target.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'")
        named = f'"{user}"'
    text = target.connection
    words = [part for part in text.strip("{}").split(", ") if not part.startswith(("user:", "password:"))]
    return replace(
        target, connection="{" + ", ".join([*words, f"user: {user}", 'password: "${env:TG_LOADER}"']) + "}"
    ), named


def show(target: Database, named: str) -> None:
    """MySQL lets nobody into a database who has no right at all there."""
    target.execute("CREATE TABLE nothing (id INT)", f"GRANT SELECT ON {target.home}nothing TO {named}")


def made(tmp_path: Path, login: Database, mode: str = "merge") -> Project:
    source = sqlite_database(tmp_path / "source.db")
    source.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER, word TEXT)")
    source.insert("orders", [(1, 1, "one"), (2, 2, "two")])
    return local(tmp_path, source).write(
        f"tables: [orders], cursor: n, key: id, mode: {mode}",
        route="to: warehouse",
        connections=f"  warehouse: {login.connection}\n",
    )


def wrong(project: Project, about: str = "connection warehouse") -> list[tuple[str, str]]:
    ran = project.here("doctor", "--json")
    assert "findings" in ran.json, ran.said
    found = [one for one in ran.json["findings"] if not one["ok"] and one["about"] == about]
    assert ran.code == int(any(not one["ok"] for one in ran.json["findings"])), ran.said
    return [(one["says"], one["fix"]) for one in found]


def change(project: Project, step: int) -> None:
    """A row that is updated, one that is new, and one that is gone."""
    project.database.execute(
        f"UPDATE orders SET n = {10 * step}, word = 'w{step}' WHERE id = 1",
        f"INSERT INTO orders VALUES ({10 * step}, {10 * step + 1}, 'new')",
    )


def test_who_may_nothing_is_told_each_grant_and_then_runs(tmp_path: Path, target: Database) -> None:
    login, named = log_in(target)
    if target.engine == "mysql":
        show(target, named)
    project = made(tmp_path, login)
    lacks = wrong(project)
    assert lacks
    assert project.here("run").code == 1
    for _says, fix in lacks:
        target.execute(fix)
    assert wrong(project) == []
    assert project.here("run").code == 0
    assert target.rows("SELECT id FROM orders ORDER BY id") == [(1,), (2,)]
    change(project, 1)
    assert wrong(project) == []
    ran = project.here("run")
    assert ran.code == 0, ran.said


CASES = [
    ("merge", "orders", ("SELECT", "INSERT", "UPDATE")),
    ("overwrite", "orders", ("DELETE",)),
    ("merge", "tidegauge_commits", ("SELECT", "INSERT", "UPDATE")),
]


@pytest.mark.shown_on("postgresql", "tidegauge_commits")
@pytest.mark.parametrize(("mode", "table", "verbs"), CASES)
def test_a_right_that_is_taken_away_is_missed_by_doctor_and_by_a_run(
    tmp_path: Path, target: Database, mode: str, table: str, verbs: Sequence[str]
) -> None:
    """The tables are somebody else's. Each right is revoked in turn, and given back as `doctor` says."""
    login, named = log_in(target)
    schema = target.home[:-1]
    admin = made(tmp_path, target, mode)
    assert admin.here("run").code == 0
    if target.engine == "mysql":
        # On the database what staging tables need; on the two tables one by one.
        target.execute(
            f"GRANT SELECT, INSERT, CREATE, DROP, ALTER ON `{schema}`.* TO {named}",
            *(
                f"GRANT UPDATE, DELETE ON `{schema}`.{one} TO {named}"
                for one in ("orders", "tidegauge_commits")
            ),
        )
        verbs = [verb for verb in verbs if verb not in ("SELECT", "INSERT")]
    else:
        target.execute(
            f"GRANT USAGE, CREATE ON SCHEMA public TO {named}",
            *(
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON {one} TO {named}"
                for one in ("orders", "tidegauge_commits")
            ),
        )
    project = admin.write(
        f"tables: [orders], cursor: n, key: id, mode: {mode}",
        route="to: warehouse",
        connections=f"  warehouse: {login.connection}\n",
    )
    assert wrong(project) == []
    for step, verb in enumerate(verbs, start=1):
        target.execute(f"REVOKE {verb} ON {schema}.{table} FROM {named}")
        change(project, step)
        ((says, fix),) = wrong(project)
        assert verb in says
        assert table in says
        assert project.here("run").code == 1
        target.execute(fix)
        assert wrong(project) == []
        ran = project.here("run")
        assert ran.code == 0, ran.said
        assert target.rows("SELECT word FROM orders WHERE id = 1") == [(f"w{step}",)]


def test_who_may_not_read_a_source_is_told_each_grant_and_then_runs(tmp_path: Path, target: Database) -> None:
    """Named, under a pattern, and taken away later; nothing but the catalogue is asked."""
    login, named = log_in(target)
    schema = target.home.rstrip(".")
    if target.engine == "mysql":
        show(target, named)
        schema = f"`{schema}`"
    for table in ("orders", "items", "others"):
        target.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, n INTEGER)")
        target.insert(table, [(1, 1), (2, 2)])
    # MySQL shows a table to who may do anything with it, reading or not.
    target.execute(f"GRANT INSERT ON {schema}.items TO {named}")
    project = local(tmp_path, login).write(
        'tables: [orders, items, "oth*", nowhere], cursor: n, key: id',
        route="to: warehouse",
        connections="  warehouse: {type: duckdb, path: w.duckdb}\n",
    )

    def findings(ok: bool) -> list[dict[str, Any]]:
        found = project.here("doctor", "--json").json["findings"]
        return [one for one in found if one["ok"] is ok and one["fix"]]

    typed = [one["fix"] for one in findings(ok=False) if one["fix"].startswith("GRANT SELECT")]
    typed = [fix for fix in typed if "nowhere" not in fix]
    assert len(typed) == 2, findings(ok=False)
    notes = [one["fix"] for one in findings(ok=True)]
    assert any("pg_read_all_stats" in fix or "GRANT PROCESS" in fix for fix in notes), notes
    assert any("others" in fix for fix in notes) == (target.engine == "postgresql"), notes
    target.execute(*typed, *notes)
    if target.engine == "mysql":
        target.execute(f"GRANT SELECT ON {schema}.others TO {named}")
    assert findings(ok=True) == []
    [left] = findings(ok=False)
    assert "nowhere" in left["says"]
    ran = project.here("run", "--json", "--select", "*orders", "--select", "*items", "--select", "*others")
    assert ran.code == 0, ran.said

    target.execute(f"REVOKE SELECT ON {schema}.items FROM {named}")
    [again] = [one for one in findings(ok=False) if "items" in one["says"]]
    assert again["fix"] in typed
    target.execute(again["fix"])
    assert not [one for one in findings(ok=False) if "items" in one["says"]]


def test_mysql_reads_grants_of_roles_and_of_patterns_as_the_server_does(
    tmp_path: Path, mariadb: MariaDB
) -> None:
    target = mysql_database(mariadb)
    login, named = log_in(target)
    schema, role = target.home[:-1], fresh_name("role")
    rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER"
    target.execute(
        f"CREATE ROLE {role}",
        f"GRANT {rights} ON `{schema}`.* TO {role}",
        f"GRANT {role} TO {named}",
    )
    show(target, named)
    project = made(tmp_path, login)
    # A role that no session takes on gives nothing.
    assert wrong(project)
    assert project.here("run").code == 1
    target.execute(f"SET DEFAULT ROLE {role} FOR {named}")
    assert wrong(project) == []
    assert project.here("run").code == 0
    # Of two patterns the server obeys the more exact one alone.
    target.execute(f"SET DEFAULT ROLE NONE FOR {named}", f"GRANT {rights} ON `db%`.* TO {named}")
    assert wrong(project) == []
    change(project, 1)
    assert project.here("run").code == 0
    exact = schema.replace("_", "\\_")
    target.execute(f"GRANT SELECT ON `{exact}`.* TO {named}")
    change(project, 2)
    assert wrong(project)
    assert project.here("run").code == 1


def test_a_postgresql_login_that_is_set_to_read_only_is_told(tmp_path: Path, postgres: Postgres) -> None:
    target = postgres_database(postgres)
    login, named = log_in(target)
    target.execute(
        f"GRANT USAGE, CREATE ON SCHEMA public TO {named}",
        f"ALTER ROLE {named} SET default_transaction_read_only = on",
    )
    project = made(tmp_path, login)
    ((says, fix),) = wrong(project)
    assert "takes no writes" in says
    assert project.here("run").code == 1
    target.execute(fix.partition(", or ")[2])
    assert wrong(project) == []
    assert project.here("run").code == 0


@pytest.mark.parametrize("store", ["postgresql", "mysql"])
def test_a_ledger_that_the_login_may_not_make_or_write_is_told(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    server: Any = request.getfixturevalue("mariadb" if store == "mysql" else "postgres")
    base = mysql_database(server) if store == "mysql" else postgres_database(server)
    _, named = log_in(base)
    user, name = (
        named.split("@")[0].strip("'\""),
        base.rows("SELECT database()" if store == "mysql" else "SELECT current_database()")[0][0],
    )
    if store == "mysql":
        show(base, named)
    project = made(tmp_path, duckdb_database(tmp_path / "target.duckdb"))
    os.environ["TG_LEDGER"] = replace(server, user=user, password=PASSWORD).address(name)
    project.ledger = "${env:TG_LEDGER}"
    project = project.write(
        "tables: [orders], cursor: n, key: id",
        route="to: warehouse",
        connections=f"  warehouse: {{type: duckdb, path: '{tmp_path / 'target.duckdb'}'}}\n",
    )
    for take_away in (None, "UPDATE", "DELETE"):
        if take_away is not None and store == "postgresql":
            base.execute(
                f"ALTER TABLE plans OWNER TO {server.user}",
                f"GRANT ALL ON plans TO {named}",
                f"REVOKE {take_away} ON plans FROM {named}",
            )
        elif take_away is not None:
            pattern = name.replace("_", "\\_")
            base.execute(f"REVOKE {take_away} ON `{pattern}`.* FROM {named}")
        lacks = wrong(project, "ledger")
        assert lacks
        if take_away != "DELETE":  # what a run deletes there it deletes seldom
            change(project, 1)
            assert project.here("run").code == 1
            project.database.execute("DELETE FROM orders WHERE id = 10")
        for _says, fix in lacks:
            base.execute(fix)
        assert wrong(project, "ledger") == []
        assert project.here("run").code == 0


@contextmanager
def somebody_else() -> Iterator[Path]:
    """A folder of this user, who is not root for now: root may write everywhere."""
    root = not os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if root:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            with patch.dict(os.environ, {"TIDEGAUGE_CACHE": str(folder / "cache")}):
                yield folder
        finally:
            if root:
                os.seteuid(0)


def sqlite_held(file: Path) -> Any:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_a_file_that_cannot_be_written_is_told_with_the_chmod(tmp_path: Path, engine: str) -> None:
    make: Callable[[Path], Database] = sqlite_database if engine == "sqlite" else duckdb_database
    # Whatever is imported on the way is imported now: the other user may not read it.
    first = made(tmp_path, make(tmp_path / "target.db"))
    assert wrong(first) == []
    assert first.here("run").code == 0
    with somebody_else() as folder:
        (folder / "t").mkdir()
        see_barriers(made(folder, make(folder / "t" / "target.db")), folder / "t" / "target.db")


def see_barriers(project: Project, file: Path) -> None:
    assert wrong(project) == []
    file.parent.chmod(0o500)
    ((says, fix),) = wrong(project)
    assert "may not make files in" in says
    assert project.here("run").code == 1
    assert os.system(fix.partition(",")[0]) == 0
    assert wrong(project) == []
    assert project.here("run").code == 0
    file.chmod(0o400)
    ((says, fix),) = wrong(project)
    assert "may not write to" in says
    change(project, 1)
    assert project.here("run").code == 1
    assert os.system(fix.partition(",")[0]) == 0
    assert wrong(project) == []
    assert project.here("run").code == 0


def test_a_file_that_another_process_has_is_told(tmp_path: Path) -> None:
    file = tmp_path / "target.db"
    project = made(tmp_path, sqlite_database(file))
    assert project.here("run").code == 0
    with closing(sqlite_held(file)):
        ((says, _),) = wrong(project)
        assert "locked" in says
    assert wrong(project) == []


def test_a_duckdb_file_that_another_process_has_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess
    import sys

    monkeypatch.setattr(DuckDB, "patience", 1.0)  # doctor plans too, and a plan waits half a minute for it
    file = tmp_path / "target.duckdb"
    project = made(tmp_path, duckdb_database(file))
    assert project.here("run").code == 0
    script = f"import duckdb; c = duckdb.connect({str(file)!r}); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        lacks = wrong(project)
        other.communicate("\n")
    assert "another process has it open" in lacks[0][1]
    assert wrong(project) == []
    with closing(duckdb.connect(str(file))) as connection:
        assert connection.execute("SELECT COUNT(*) FROM orders").fetchone() == (2,)
