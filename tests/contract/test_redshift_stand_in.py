"""The stand-in refuses what Redshift refuses, and loads as Redshift loads; else it would prove nothing."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redshift_connector
from redshift_connector.error import InterfaceError, ProgrammingError

from tests.support.servers import Redshift


class Bench:
    """A database with one connection, and a bucket beside it."""

    def __init__(self, redshift: Redshift) -> None:
        self.redshift = redshift
        self.database = redshift.create_database()
        self.bucket = redshift.s3.create_bucket()
        self.connection = redshift.connect(self.database)

    def run(self, sql: str) -> list[Any]:
        cursor = self.connection.cursor()
        cursor.execute(sql)
        return [] if cursor.description is None else list(map(tuple, cursor.fetchall()))

    def refused(self, sql: str) -> dict[str, str]:
        with pytest.raises(ProgrammingError) as caught:
            self.run(sql)
        self.connection.rollback()
        fields: dict[str, str] = caught.value.args[0]
        return fields

    def put(self, name: str, table: pa.Table, **entry: Any) -> dict[str, Any]:
        """A file, and the manifest's entry for it."""
        out = io.BytesIO()
        pq.write_table(table, out)
        self.redshift.s3.client().put_object(Bucket=self.bucket, Key=name, Body=out.getvalue())
        size = {"content_length": out.tell()}
        return {"url": f"s3://{self.bucket}/{name}", "mandatory": True, "meta": size} | entry

    def copy(
        self, *entries: dict[str, Any], table: str = "t", access: str | None = None, more: str = ""
    ) -> str:
        body = json.dumps({"entries": entries})
        self.redshift.s3.client().put_object(Bucket=self.bucket, Key="m", Body=body.encode())
        access = access or f"IAM_ROLE '{self.redshift.iam_role}'"
        return f"COPY {table} FROM 's3://{self.bucket}/m' {access} FORMAT AS PARQUET MANIFEST {more}"


@pytest.fixture
def bench(redshift: Redshift) -> Iterator[Bench]:
    bench = Bench(redshift)
    yield bench
    bench.connection.close()


ROWS = pa.table({"a": pa.array([1, 2], pa.int64()), "b": pa.array(["x", None])})


def test_copy_is_part_of_the_clients_transaction(bench: Bench) -> None:
    bench.run("CREATE TABLE t (a BIGINT, b VARCHAR(10))")
    bench.connection.commit()
    bench.run(bench.copy(bench.put("x", ROWS)))
    assert bench.run("SELECT pg_last_copy_count()") == [(2,)]
    assert bench.run("SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, None)]
    bench.connection.rollback()
    assert bench.run("SELECT COUNT(*) FROM t") == [(0,)]
    bench.run(bench.copy(bench.put("x", ROWS), bench.put("y", ROWS)))
    bench.connection.commit()
    assert bench.run("SELECT COUNT(*) FROM t") == [(4,)]
    assert bench.run("SELECT pg_last_copy_count()") == [(4,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t FOR UPDATE",
        "INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING",
        "INSERT INTO t VALUES (1, 'x') RETURNING a",
        "SELECT a FROM t WHERE a IS DISTINCT FROM 1",
        "SELECT DISTINCT ON (a) a FROM t",
        "SELECT COUNT(*) FILTER (WHERE a > 1) FROM t",
        "SELECT * FROM (VALUES (1), (2)) AS v (x)",
        "SELECT ARRAY[1, 2]",
        "CREATE INDEX i ON t (a)",
        "CREATE UNLOGGED TABLE u (a INT)",
        "CREATE TABLE u (a BYTEA)",
        "CREATE TABLE u (a JSONB)",
        "CREATE TABLE u (a INT[])",
        "CREATE TABLE u (a VARCHAR(65536))",
        "CREATE TABLE u (a DECIMAL(39, 2))",
        "CREATE TABLE u (a INT) DISTKEY(b)",
        "CREATE TABLE u (a INT CHECK (a > 0))",
        "ALTER TABLE t ALTER COLUMN a TYPE BIGINT",
        "ALTER TABLE t ALTER COLUMN b TYPE VARCHAR(200)",  # allowed outside of a transaction only
        "ALTER TABLE t ADD COLUMN c INT, ADD COLUMN d INT",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS c INT",
        "DELETE FROM t AS x WHERE x.a = 1",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED AND t.b <> s.b THEN UPDATE SET b = s.b"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b",
        "MERGE INTO t USING (SELECT * FROM s) AS s ON t.a = s.a WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)",
        "SELECT a FROM t WHERE a = pg_backend_pid()",
        "WITH gone AS (DELETE FROM t RETURNING a) SELECT * FROM gone",
        "COPY t FROM STDIN",
        "VACUUM FULL VERBOSE ANALYZE EVERYTHING",
        "SELECT FROM WHERE",
    ],
)
def test_what_redshift_refuses_is_refused(bench: Bench, sql: str) -> None:
    bench.run("CREATE TABLE t (a INT, b VARCHAR(10))")
    bench.run("CREATE TABLE s (a INT, b VARCHAR(10))")
    bench.connection.commit()
    assert bench.refused(sql)["S"] == "ERROR"
    assert bench.run("SELECT COUNT(*) FROM t") == [(0,)]


def test_a_refusal_aborts_the_transaction(bench: Bench) -> None:
    bench.run("CREATE TABLE t (a INT)")
    with pytest.raises(ProgrammingError):
        bench.run("SELECT * FROM t FOR UPDATE")
    with pytest.raises(ProgrammingError, match="aborted"):
        bench.run("SELECT 1")
    bench.connection.rollback()
    assert bench.refused("SELECT * FROM t")["C"] == "42P01"


def test_keys_are_not_enforced_but_for_null(bench: Bench) -> None:
    bench.run("CREATE TABLE t (a INT, b INT UNIQUE, PRIMARY KEY (a)) DISTKEY(a) SORTKEY(a, b)")
    bench.run("INSERT INTO t VALUES (1, 1), (1, 1)")
    bench.connection.commit()
    assert bench.run("SELECT COUNT(*) FROM t") == [(2,)]
    assert bench.refused("INSERT INTO t VALUES (NULL, 1)")["C"] == "23502"


def test_text_means_256_bytes(bench: Bench) -> None:
    bench.run("CREATE TABLE t (a TEXT, b VARCHAR)")
    found = bench.run("SELECT character_maximum_length FROM svv_columns WHERE table_name = 't'")
    assert found == [(256,), (256,)]


def test_quoted_names_are_folded_until_told_otherwise(bench: Bench) -> None:
    bench.run('CREATE TABLE "Mixed" ("Case" INT)')
    assert bench.run("SELECT column_name FROM svv_columns WHERE table_name = 'mixed'") == [("case",)]
    bench.run("SET enable_case_sensitive_identifier TO true")
    bench.run('CREATE TABLE "Mixed" ("Case" INT)')
    assert bench.run("SELECT column_name FROM svv_columns WHERE table_name = 'Mixed'") == [("Case",)]


def test_merge_with_both_clauses_works(bench: Bench) -> None:
    bench.run("CREATE TABLE t (a INT, b VARCHAR(10))")
    bench.run("CREATE TABLE s (a INT, b VARCHAR(10))")
    bench.run("INSERT INTO t VALUES (1, 'old')")
    bench.run("INSERT INTO s VALUES (1, 'new'), (2, 'two')")
    bench.run(
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b"
        " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, s.b)"
    )
    assert bench.run("SELECT a, b FROM t ORDER BY a") == [(1, "new"), (2, "two")]


def test_columns_of_parquet_go_by_place_and_number(bench: Bench) -> None:
    bench.run("CREATE TABLE t (z BIGINT, y VARCHAR(10))")
    bench.run("CREATE TABLE wide (z BIGINT, y VARCHAR(10), x INT)")
    bench.connection.commit()
    bench.run(bench.copy(bench.put("x", ROWS)))
    assert bench.run("SELECT z, y FROM t ORDER BY z") == [(1, "x"), (2, None)]
    bench.connection.commit()
    told = bench.refused(bench.copy(bench.put("x", ROWS), table="wide"))
    assert "Table columns: 3, Data columns: 2" in told["D"]
    bench.run(bench.copy(bench.put("x", ROWS), table="wide (z, y)"))
    assert bench.run("SELECT COUNT(*) FROM wide") == [(2,)]


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        ("INT", pa.array([1], pa.int64())),
        ("BIGINT", pa.array([1], pa.int32())),
        ("TIMESTAMPTZ", pa.array([1], pa.timestamp("us", "UTC"))),
        ("DECIMAL(12,2)", pa.array([1], pa.int64())),
        ("VARCHAR(10)", pa.array([1], pa.int64())),
        ("DOUBLE PRECISION", pa.array([1.0], pa.float32())),
    ],
)
def test_types_of_parquet_are_not_converted(bench: Bench, declared: str, values: pa.Array) -> None:
    bench.run(f"CREATE TABLE t (a {declared})")
    bench.connection.commit()
    told = bench.refused(bench.copy(bench.put("x", pa.table({"a": values}))))
    assert told["M"] == "Spectrum Scan Error"
    assert "incompatible Parquet schema for column 'a'" in told["D"]


def test_a_value_that_is_too_long_in_bytes_is_a_load_error_that_outlives_the_transaction(
    bench: Bench,
) -> None:
    bench.run("CREATE TABLE t (a BIGINT, b VARCHAR(4))")
    bench.connection.commit()
    rows = pa.table({"a": pa.array([1, 2], pa.int64()), "b": ["four", "ééé"]})
    told = bench.refused(bench.copy(bench.put("x", rows)))
    assert "Table: 4, Data: 6" in told["D"]
    ((pid,),) = bench.run("SELECT pg_backend_pid()")
    found = bench.run(
        f"SELECT TRIM(colname), TRIM(raw_field_value), line_number FROM stl_load_errors WHERE session = {pid}"
    )
    assert found == [("b", "ééé", 2)]
    assert bench.run("SELECT COUNT(*) FROM t") == [(0,)]


def test_d4_a_manifest_is_taken_at_its_word(bench: Bench) -> None:
    bench.run("CREATE TABLE t (a BIGINT, b VARCHAR(10))")
    bench.connection.commit()
    there = bench.put("x", ROWS)
    gone = there | {"url": f"s3://{bench.bucket}/gone"}
    assert "NoSuchKey" in bench.refused(bench.copy(there, gone))["M"]
    bench.run(bench.copy(there, gone | {"mandatory": False}))
    assert bench.run("SELECT pg_last_copy_count()") == [(2,)]
    bench.connection.commit()
    longer = there | {"meta": {"content_length": 1}}
    assert "its manifest entry says 1" in bench.refused(bench.copy(longer))["D"]
    unmeasured = {"url": there["url"], "mandatory": True}
    assert "Manifest" in bench.refused(bench.copy(unmeasured))["M"]
    assert bench.run("SELECT COUNT(*) FROM t") == [(2,)]


def test_copy_needs_the_right_credentials_and_no_region(bench: Bench) -> None:
    bench.run("CREATE TABLE t (a BIGINT, b VARCHAR(10))")
    bench.connection.commit()
    file = bench.put("x", ROWS)
    s3 = bench.redshift.s3
    keys = f"ACCESS_KEY_ID '{s3.access_key}' SECRET_ACCESS_KEY '{s3.secret_key}'"
    bench.run(bench.copy(file, access=keys))
    bench.connection.rollback()
    assert "role" in bench.refused(bench.copy(file, access="IAM_ROLE 'arn:aws:iam::1:role/other'"))["M"]
    wrong = f"ACCESS_KEY_ID '{s3.access_key}' SECRET_ACCESS_KEY 'wrong'"
    assert "SignatureDoesNotMatch" in bench.refused(bench.copy(file, access=wrong))["M"]
    assert "No S3 credentials" in bench.refused(bench.copy(file, access=" "))["M"]
    told = bench.refused(bench.copy(file, more="REGION 'eu-central-1'"))
    assert told["M"] == "REGION argument is not supported for PARQUET based COPY"


def test_a_conflict_is_error_1023(bench: Bench) -> None:
    bench.run("CREATE TABLE t (a INT)")
    bench.run("INSERT INTO t VALUES (1)")
    bench.connection.commit()
    other = bench.redshift.connect(bench.database)
    cursor = other.cursor()
    cursor.execute("SELECT * FROM t")
    bench.run("UPDATE t SET a = 2")
    bench.connection.commit()
    with pytest.raises(ProgrammingError) as caught:
        cursor.execute("UPDATE t SET a = 3")
    assert caught.value.args[0]["M"] == "1023"
    assert "Serializable isolation violation" in caught.value.args[0]["D"]
    other.close()


def test_a_lock_lets_nobody_past(bench: Bench) -> None:
    bench.run("CREATE TABLE t (a INT)")
    bench.connection.commit()
    bench.run("LOCK t")
    other = bench.redshift.connect(bench.database)
    passed = threading.Event()

    def wait() -> None:
        other.cursor().execute("LOCK TABLE t")
        passed.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not passed.wait(0.3)
    bench.connection.commit()
    thread.join(10)
    assert passed.is_set()
    other.close()


@pytest.mark.parametrize("taking_effect", [True, False])
def test_a_commit_can_be_lost_on_its_way(bench: Bench, taking_effect: bool) -> None:
    bench.run("CREATE TABLE t (a INT)")
    bench.connection.commit()
    bench.run("INSERT INTO t VALUES (1)")
    bench.redshift.lose_next_commit(taking_effect=taking_effect)
    with pytest.raises(InterfaceError):
        bench.connection.commit()
    bench.connection = bench.redshift.connect(bench.database)
    assert bench.run("SELECT COUNT(*) FROM t") == [(int(taking_effect),)]


def test_it_is_no_plain_postgresql_to_its_clients(bench: Bench) -> None:
    host, port = bench.redshift.host, bench.redshift.port
    with pytest.raises(InterfaceError, match="SSL"):
        redshift_connector.connect(host=host, port=port, user="x", password="x", database="x")
    assert b"server_version" in dict(bench.connection.parameter_statuses)
    assert dict(bench.connection.parameter_statuses)[b"server_version"] == b"8.0.2"
