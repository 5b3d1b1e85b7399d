"""Real servers for tests, benchmarks and demonstrations.

Each starts on a free loopback port with a private data folder, as an unprivileged user, and is stopped by
its process id. Durability is switched off, because their data is needed for minutes only.

    with start_postgres() as server, server.connect(server.create_database()) as connection: ...
"""

from __future__ import annotations

from tests.support.servers.mariadb import MariaDB, start_mariadb, start_replica
from tests.support.servers.postgres import Postgres, start_postgres, start_standby
from tests.support.servers.process import HOST, PASSWORD, ServerMissing, free_port
from tests.support.servers.redshift import Redshift, start_redshift
from tests.support.servers.s3 import S3, start_s3

__all__ = [
    "HOST",
    "PASSWORD",
    "S3",
    "MariaDB",
    "Postgres",
    "Redshift",
    "ServerMissing",
    "free_port",
    "start_mariadb",
    "start_postgres",
    "start_redshift",
    "start_replica",
    "start_s3",
    "start_standby",
]
