"""A private PostgreSQL server for tests, and its logins."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.servers.process import (
    BARE_PASSWORD,
    BARE_USER,
    HOST,
    PASSWORD,
    USER,
    ServerHome,
    await_server,
    find_program,
    free_port,
    fresh_name,
    server_home,
)


@dataclass(frozen=True)
class Postgres:
    host: str
    port: int
    user: str
    password: str
    pid: int

    def connect(self, database: str = "postgres") -> Any:
        """Open a psycopg connection with autocommit."""
        import psycopg

        return psycopg.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            dbname=database,
            autocommit=True,
        )

    def address(self, database: str) -> str:
        """The address of a ledger in this database."""
        return f"postgresql://{self.user}:{quote(self.password, safe='')}@{self.host}:{self.port}/{database}"

    def create_database(self) -> str:
        name = fresh_name("db")
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        return name

    def bare_login(self) -> Postgres:
        """Return the same server with a user that may SELECT everything and see no other session."""
        with self.connect() as connection, connection.transaction():
            # Test processes share the server; the lock lets only one of them create the role.
            connection.execute("SELECT pg_advisory_xact_lock(1)")
            known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (BARE_USER,)).fetchone()
            if not known:
                connection.execute(f"CREATE ROLE {BARE_USER} LOGIN PASSWORD '{BARE_PASSWORD}'")
                connection.execute(f"GRANT pg_read_all_data TO {BARE_USER}")
        return replace(self, user=BARE_USER, password=BARE_PASSWORD)


@contextmanager
def start_postgres(folder: Path | None = None, *, options: Sequence[str] = ()) -> Iterator[Postgres]:
    """Start a PostgreSQL with prepared transactions; `options` are settings such as `timezone=Asia/Tokyo`.

    `folder`, where given, must be reachable by the user `postgres` when this runs as root.
    """
    with server_home(folder, "postgres") as home:
        data = home.path / "data"
        secret = home.write("password", PASSWORD)
        home.run(
            _find_postgres_program("initdb"),
            f"--pgdata={data}",
            f"--username={USER}",
            f"--pwfile={secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        )
        with _serve(home, data, options) as server:
            yield server


@contextmanager
def start_standby(primary: Postgres) -> Iterator[Postgres]:
    """Start a standby of a running server, which streams from it."""
    with server_home(None, "postgres") as home:
        data = home.path / "data"
        secret = home.write("pgpass", f"*:*:*:*:{PASSWORD}")
        secret.chmod(0o600)
        home.run(
            _find_postgres_program("pg_basebackup"),
            f"--pgdata={data}",
            f"--dbname=host={HOST} port={primary.port} user={USER} passfile={secret}",
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
        )
        with _serve(home, data, ()) as server:
            yield server


@contextmanager
def _serve(home: ServerHome, data: Path, options: Sequence[str]) -> Iterator[Postgres]:
    port = free_port()
    settings = [
        f"listen_addresses={HOST}",
        f"port={port}",
        f"unix_socket_directories={home.path}",
        "fsync=off",
        "synchronous_commit=off",
        "full_page_writes=off",
        "max_prepared_transactions=20",
        "max_connections=200",
        *options,
    ]
    server = _find_postgres_program("postgres")
    command = [server, "-D", str(data), *(part for setting in settings for part in ("-c", setting))]
    with home.serve(command, stop_with=signal.SIGQUIT) as process:
        found = Postgres(HOST, port, USER, PASSWORD, process.pid)
        await_server(process, home, lambda: found.connect().close())
        yield found


def _find_postgres_program(name: str) -> str:
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True
    )
    return find_program(name, *map(str, versions))
