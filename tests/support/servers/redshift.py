"""Starts the stand-in for Redshift, on top of a PostgreSQL and an S3 server."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.servers.postgres import Postgres
from tests.support.servers.process import HOST, await_server, free_port, server_home
from tests.support.servers.s3 import S3


@dataclass(frozen=True)
class Redshift:
    """A running stand-in for Redshift; see `redshift_server`."""

    host: str
    port: int
    user: str
    password: str
    iam_role: str
    """The only role that may read the buckets; the only keys that may are those of `s3`."""
    pid: int
    postgres: Postgres
    s3: S3
    folder: Path

    def connect(self, database: str) -> Any:
        """Open a connection with redshift_connector."""
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
        """Return every statement that clients sent to a database, in order."""
        lines = (self.folder / "statements").read_text().splitlines()
        said = [json.loads(line) for line in lines]
        return [str(one["sql"]) for one in said if one["database"] == database]

    def lose_next_commit(self, *, taking_effect: bool) -> None:
        """Cut the connection at the next commit of rows, before it takes effect or after."""
        (self.folder / "fault").write_text("after" if taking_effect else "before")


@contextmanager
def start_redshift(postgres: Postgres, s3: S3) -> Iterator[Redshift]:
    """Start a proxy that behaves like Redshift, stores in PostgreSQL and reads COPYs from an S3 server."""
    port = free_port()
    role = "arn:aws:iam::123456789012:role/tidegauge-load"
    with server_home(None, None) as home:
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
        with home.serve(command, at=Path(__file__).parents[3]) as process:
            await_server(process, home, lambda: socket.create_connection((HOST, port)).close())
            yield Redshift(
                HOST, port, postgres.user, postgres.password, role, process.pid, postgres, s3, home.path
            )
