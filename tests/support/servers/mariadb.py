"""A private MariaDB server for tests, and its logins."""

from __future__ import annotations

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
    await_server,
    find_program,
    free_port,
    fresh_name,
    server_home,
)


@dataclass(frozen=True)
class MariaDB:
    host: str
    port: int
    user: str
    password: str
    pid: int

    def connect(self, database: str | None = None) -> Any:
        """Open a pymysql connection with autocommit."""
        from tidegauge.model.mysql_connection import MysqlConnection

        return MysqlConnection(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database,
            autocommit=True,
            charset="utf8mb4",
        )

    def address(self, database: str) -> str:
        """The address of a ledger in this database."""
        return f"mysql://{self.user}:{quote(self.password, safe='')}@{self.host}:{self.port}/{database}"

    def create_database(self) -> str:
        name = fresh_name("db")
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        return name

    def bare_login(self) -> MariaDB:
        """Return the same server with a user that may SELECT everything and see no other session."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE USER IF NOT EXISTS {BARE_USER}@'%%' IDENTIFIED BY %s", (BARE_PASSWORD,))
            cursor.execute(f"GRANT SELECT ON *.* TO {BARE_USER}@'%'")
        return replace(self, user=BARE_USER, password=BARE_PASSWORD)


@contextmanager
def start_mariadb(folder: Path | None = None, *, options: Sequence[str] = ()) -> Iterator[MariaDB]:
    """Start a MariaDB whose clock, time zone and sql_mode are the distribution's defaults.

    `folder`, where given, must be reachable by the user `mysql` when this runs as root.
    """
    server = find_program("mariadbd", "/usr/sbin")
    install = find_program("mariadb-install-db", "/usr/bin")
    with server_home(folder, "mysql") as home:
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
            await_server(process, home, lambda: _create_accounts(sock))
            yield MariaDB(HOST, port, USER, PASSWORD, process.pid)


def _create_accounts(sock: Path) -> None:
    import pymysql

    with pymysql.connect(unix_socket=str(sock), user="root") as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM mysql.global_priv WHERE User = ''")
        cursor.execute("FLUSH PRIVILEGES")
        cursor.execute(f"CREATE USER IF NOT EXISTS {USER}@'%%' IDENTIFIED BY %s", (PASSWORD,))
        cursor.execute(f"GRANT ALL PRIVILEGES ON *.* TO {USER}@'%' WITH GRANT OPTION")


@contextmanager
def start_replica() -> Iterator[tuple[MariaDB, MariaDB]]:
    """Start two servers, of which the second replicates all that happens in the first from now on."""
    with (
        start_mariadb(options=["--server-id=1", "--log-bin"]) as primary,
        start_mariadb(options=["--server-id=2", "--read-only"]) as replica,
    ):
        with primary.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@global.gtid_binlog_pos")
            ((reached,),) = cursor.fetchall()
        with replica.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET GLOBAL gtid_slave_pos = %s", (reached,))
            cursor.execute(
                "CHANGE MASTER TO MASTER_HOST = %s, MASTER_PORT = %s, MASTER_USER = %s, MASTER_PASSWORD = %s,"
                " MASTER_USE_GTID = slave_pos",
                (HOST, primary.port, USER, PASSWORD),
            )
            cursor.execute("START SLAVE")
        yield primary, replica
