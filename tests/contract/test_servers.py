"""The test servers themselves: what every other contract test takes for granted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.support.servers import S3, MariaDB, Postgres


@contextmanager
def _cursor(connection: Any) -> Iterator[Any]:
    with connection, connection.cursor() as cursor:
        yield cursor


def test_every_database_is_fresh_and_empty(mariadb: MariaDB, postgres: Postgres) -> None:
    for server in (mariadb, postgres):
        first, second = server.create_database(), server.create_database()
        with _cursor(server.connect(first)) as cursor:
            cursor.execute("CREATE TABLE t (a int)")
        with _cursor(server.connect(second)) as cursor:
            cursor.execute("CREATE TABLE t (a int)")


def test_servers_run_without_privileges(mariadb: MariaDB, postgres: Postgres) -> None:
    for server in (mariadb, postgres):
        status = Path(f"/proc/{server.pid}/status").read_text()
        uid = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1]
        assert uid != "0"


def test_a_bare_login_may_only_select(mariadb: MariaDB, postgres: Postgres) -> None:
    name = mariadb.create_database()
    with _cursor(mariadb.connect(name)) as cursor:
        cursor.execute("CREATE TABLE t (a int)")
    with _cursor(mariadb.bare_login().connect(name)) as cursor:
        cursor.execute("SELECT * FROM t")
        with pytest.raises(pymysql.err.OperationalError, match="PROCESS"):
            cursor.execute("SELECT * FROM information_schema.innodb_trx")
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            cursor.execute("INSERT INTO t VALUES (1)")

    name = postgres.create_database()
    with _cursor(postgres.connect(name)) as cursor, _cursor(postgres.connect(name)) as other:
        cursor.execute("CREATE TABLE t (a int)")
        other.execute("BEGIN")
        with _cursor(postgres.bare_login().connect(name)) as bare:
            bare.execute("SELECT * FROM t")
            bare.execute(
                "SELECT count(*), count(xact_start) FROM pg_stat_activity WHERE usename = %s",
                (postgres.user,),
            )
            seen, with_start = bare.fetchone()
            assert seen >= 2
            assert with_start == 0


def test_buckets_hold_objects(s3: S3) -> None:
    bucket = s3.create_bucket()
    s3.client().put_object(Bucket=bucket, Key="a/b", Body=b"x", IfNoneMatch="*")
    assert s3.client().get_object(Bucket=bucket, Key="a/b")["Body"].read() == b"x"
