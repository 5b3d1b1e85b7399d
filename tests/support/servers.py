"""Real servers for tests, benchmarks and demonstrations.

Each starts on a free loopback port with a private data folder, as an unprivileged user, and is stopped by
its process id. Durability is switched off: these servers are sources to read from, and they live for minutes.

    with start_postgres() as server, server.connect(server.create_database()) as connection: ...
"""

from __future__ import annotations

import itertools
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote
from urllib.request import urlopen

HOST = "127.0.0.1"
START_SECONDS = 600.0
USER, PASSWORD = "tidegauge", "tide p@ss/word%"
"""The password has every character that an address must quote."""
BARE_USER, BARE_PASSWORD = "bare", "bare-password"

_numbers = itertools.count(1)


class ServerMissing(Exception):
    """A test that needs a server fails without it; it is never skipped."""


@dataclass(frozen=True)
class MariaDB:
    host: str
    port: int
    user: str
    password: str
    pid: int

    def connect(self, database: str | None = None) -> Any:
        """A pymysql connection with autocommit."""
        import pymysql

        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database,
            autocommit=True,
            charset="utf8mb4",
        )

    def address(self, database: str) -> str:
        """As a ledger's address is written."""
        return f"mysql://{self.user}:{quote(self.password, safe='')}@{self.host}:{self.port}/{database}"

    def create_database(self) -> str:
        name = _fresh("db")
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        return name

    def bare_login(self) -> MariaDB:
        """The same server for a user that may SELECT everything and see no other session."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE USER IF NOT EXISTS {BARE_USER}@'%%' IDENTIFIED BY %s", (BARE_PASSWORD,))
            cursor.execute(f"GRANT SELECT ON *.* TO {BARE_USER}@'%'")
        return replace(self, user=BARE_USER, password=BARE_PASSWORD)


@dataclass(frozen=True)
class Postgres:
    host: str
    port: int
    user: str
    password: str
    pid: int

    def connect(self, database: str = "postgres") -> Any:
        """A psycopg connection with autocommit."""
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
        """As a ledger's address is written."""
        return f"postgresql://{self.user}:{quote(self.password, safe='')}@{self.host}:{self.port}/{database}"

    def create_database(self) -> str:
        name = _fresh("db")
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        return name

    def bare_login(self) -> Postgres:
        """The same server for a user that may SELECT everything and see no other session."""
        with self.connect() as connection, connection.transaction():
            # Test processes share the server, and one of them comes first.
            connection.execute("SELECT pg_advisory_xact_lock(1)")
            known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (BARE_USER,)).fetchone()
            if not known:
                connection.execute(f"CREATE ROLE {BARE_USER} LOGIN PASSWORD '{BARE_PASSWORD}'")
                connection.execute(f"GRANT pg_read_all_data TO {BARE_USER}")
        return replace(self, user=BARE_USER, password=BARE_PASSWORD)


@dataclass(frozen=True)
class S3:
    endpoint: str
    region: str
    access_key: str
    secret_key: str
    pid: int

    def client(self) -> Any:
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )

    def create_bucket(self) -> str:
        name = _fresh("bucket").replace("_", "-")
        self.client().create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": self.region}
        )
        return name


@dataclass(frozen=True)
class Redshift:
    """The stand-in for Redshift that stands before a PostgreSQL; see `redshift_server`."""

    host: str
    port: int
    user: str
    password: str
    iam_role: str
    """The only role that may read the buckets; of keys, those of the S3 server."""
    pid: int
    postgres: Postgres
    s3: S3
    folder: Path

    def connect(self, database: str) -> Any:
        """A connection of redshift_connector."""
        import redshift_connector

        return redshift_connector.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database,
            ssl=False,
        )

    def create_database(self) -> str:
        from tests.support.redshift_server import SETUP

        name = self.postgres.create_database()
        with self.postgres.connect(name) as connection:
            connection.execute(SETUP)
            connection.execute(f'ALTER DATABASE "{name}" SET search_path = public, redshift')
        return name

    def statements(self, database: str) -> list[str]:
        """Everything that clients asked of a database, in order."""
        lines = (self.folder / "statements").read_text().splitlines()
        said = [json.loads(line) for line in lines]
        return [str(one["sql"]) for one in said if one["database"] == database]

    def lose_next_commit(self, *, taking_effect: bool) -> None:
        """Whoever next commits rows loses the connection, before or after the server has committed."""
        (self.folder / "fault").write_text("after" if taking_effect else "before")


@contextmanager
def start_mariadb(folder: Path | None = None, *, options: Sequence[str] = ()) -> Iterator[MariaDB]:
    """A MariaDB whose clock, zone and sql_mode are the distribution's defaults.

    `folder`, where given, must be reachable by the user `mysql` when this runs as root.
    """
    server = _program("mariadbd", "/usr/sbin")
    install = _program("mariadb-install-db", "/usr/bin")
    with _home(folder, "mysql") as home:
        data, sock, port = home.path / "data", home.path / "mariadb.sock", free_port()
        home.run(
            install,
            "--no-defaults",
            f"--datadir={data}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )
        command = [
            server,
            "--no-defaults",
            f"--datadir={data}",
            f"--socket={sock}",
            f"--pid-file={home.path / 'mariadb.pid'}",
            f"--tmpdir={home.path}",
            f"--bind-address={HOST}",
            f"--port={port}",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
            "--sync-frm=0",
            "--innodb-buffer-pool-size=256M",
            "--max-connections=200",
            *options,
        ]
        with home.serve(command) as process:
            _await(process, home, lambda: _mariadb_accounts(sock))
            yield MariaDB(HOST, port, USER, PASSWORD, process.pid)


@contextmanager
def start_postgres(folder: Path | None = None, *, options: Sequence[str] = ()) -> Iterator[Postgres]:
    """A PostgreSQL with prepared transactions allowed; `options` are settings such as `timezone=Asia/Tokyo`.

    `folder`, where given, must be reachable by the user `postgres` when this runs as root.
    """
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True
    )
    server = _program("postgres", *map(str, versions))
    initdb = _program("initdb", *map(str, versions))
    with _home(folder, "postgres") as home:
        data, port = home.path / "data", free_port()
        secret = home.write("password", PASSWORD)
        home.run(
            initdb,
            f"--pgdata={data}",
            f"--username={USER}",
            f"--pwfile={secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        )
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
        command = [server, "-D", str(data), *(part for setting in settings for part in ("-c", setting))]
        with home.serve(command, stop_with=signal.SIGQUIT) as process:
            found = Postgres(HOST, port, USER, PASSWORD, process.pid)
            _await(process, home, lambda: found.connect().close())
            yield found


@contextmanager
def start_s3() -> Iterator[S3]:
    """moto's S3 server in a process of its own, writes one after the other; what it holds ends with it."""
    port = free_port()
    with _home(None, None) as home:
        command = [sys.executable, str(Path(__file__).with_name("s3_server.py")), HOST, str(port)]
        with home.serve(command) as process:
            endpoint = f"http://{HOST}:{port}"
            _await(process, home, lambda: urlopen(endpoint, timeout=5).close())
            yield S3(endpoint, "eu-central-1", "test-access-key", "test-secret-key", process.pid)


@contextmanager
def start_redshift(postgres: Postgres, s3: S3) -> Iterator[Redshift]:
    """A proxy before a PostgreSQL that speaks as Redshift does and reads its COPYs from an S3 server."""
    port = free_port()
    role = "arn:aws:iam::123456789012:role/tidegauge-load"
    with _home(None, None) as home:
        settings = {
            "host": HOST,
            "port": port,
            "postgres": {
                "host": postgres.host,
                "port": postgres.port,
                "user": postgres.user,
                "password": postgres.password,
            },
            "s3": {
                "endpoint_url": s3.endpoint,
                "region_name": s3.region,
                "aws_access_key_id": s3.access_key,
                "aws_secret_access_key": s3.secret_key,
            },
            "access": {"role": role, "access_key": s3.access_key, "secret_key": s3.secret_key},
            "statements": str(home.write("statements", "")),
            "fault": str(home.path / "fault"),
        }
        command = [sys.executable, "-m", "tests.support.redshift_server"]
        command.append(str(home.write("settings.json", json.dumps(settings))))
        with home.serve(command, at=Path(__file__).parents[2]) as process:
            _await(process, home, lambda: socket.create_connection((HOST, port)).close())
            yield Redshift(
                HOST, port, postgres.user, postgres.password, role, process.pid, postgres, s3, home.path
            )


def free_port() -> int:
    """A port on which nothing listens, now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class _Home:
    """A server's private folder and the user that owns it."""

    path: Path
    account: pwd.struct_passwd | None
    """None: oneself."""
    log: IO[bytes] = field(repr=False)

    def run(self, *command: str) -> None:
        done = subprocess.run(
            self._as_account(command),
            cwd=self.path,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0:
            raise ServerMissing(f"{command[0]} ended with {done.returncode}: {self.last_words()}")

    @contextmanager
    def serve(
        self, command: Sequence[str], *, stop_with: int = signal.SIGKILL, at: Path | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            self._as_account(command),
            cwd=at or self.path,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            # At once: nobody reads again what such a server has stored.
            if process.poll() is None:
                process.send_signal(stop_with)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.write_text(text)
        if self.account:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)
        return path

    def last_words(self) -> str:
        lines = (self.path / "log").read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-5:])

    def _as_account(self, command: Sequence[str]) -> list[str]:
        # setpriv replaces itself with the server, so the process we started is the server; and the server
        # is told to end when we are killed, so that a test run cut short leaves nothing behind.
        prefix = [_program("setpriv", "/usr/bin"), "--pdeathsig", "KILL"]
        if self.account:
            ids = [f"--reuid={self.account.pw_uid}", f"--regid={self.account.pw_gid}", "--clear-groups"]
            prefix += ids
        return [*prefix, *command]


@contextmanager
def _home(folder: Path | None, account_name: str | None) -> Iterator[_Home]:
    account = None
    if account_name and os.geteuid() == 0:
        try:
            account = pwd.getpwnam(account_name)
        except KeyError:
            raise ServerMissing(
                f"there is no user '{account_name}' on this machine: run `make setup`"
            ) from None
    # Never inside pytest's own folders: those are closed to other users.
    path = folder or Path(tempfile.mkdtemp(prefix=f"tidegauge-{account_name or 's3'}-"))
    path.mkdir(parents=True, exist_ok=True)
    if account:
        os.chown(path, account.pw_uid, account.pw_gid)
    try:
        with (path / "log").open("wb") as log:
            yield _Home(path, account, log)
    finally:
        if folder is None:
            # Tens of thousands of files: Python's own way takes minutes on a machine that is busy.
            subprocess.run(["rm", "-rf", path], check=False)


def _await(process: subprocess.Popen[bytes], home: _Home, ready: Callable[[], object]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            ready()
        except Exception as error:
            if process.poll() is not None:
                raise ServerMissing(f"the server ended at its start: {home.last_words()}") from error
            if time.monotonic() > deadline:
                raise ServerMissing(f"no answer in {START_SECONDS:.0f} s: {home.last_words()}") from error
            time.sleep(0.05)
        else:
            return


def _mariadb_accounts(sock: Path) -> None:
    import pymysql

    with pymysql.connect(unix_socket=str(sock), user="root") as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM mysql.global_priv WHERE User = ''")
        cursor.execute("FLUSH PRIVILEGES")
        cursor.execute(f"CREATE USER IF NOT EXISTS {USER}@'%%' IDENTIFIED BY %s", (PASSWORD,))
        cursor.execute(f"GRANT ALL PRIVILEGES ON *.* TO {USER}@'%' WITH GRANT OPTION")


def _program(name: str, *folders: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    if not found:
        raise ServerMissing(f"{name} is not installed: run `make setup`")
    return found


def _fresh(prefix: str) -> str:
    return f"{prefix}_{os.getpid()}_{next(_numbers)}"
