"""`doctor` says beforehand what `plan` would refuse, of every kind of flow, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from tests.support.project import (
    Project,
    duckdb_database,
    local,
    mysql_database,
    postgres_database,
    s3_lake,
    sqlite_database,
)
from tests.support.servers import S3, MariaDB, Postgres


def found(project: Project) -> dict[str, tuple[bool, str, str | None]]:
    ran = project.here("doctor", "--json")
    listed = {one["about"]: (one["ok"], one["says"], one["fix"]) for one in ran.json["findings"]}
    assert ran.code == int(not all(ok for ok, *_ in listed.values())), ran.said
    return listed


def test_a_target_that_plan_would_refuse_is_named_with_the_fix(tmp_path: Path) -> None:
    source, target = sqlite_database(tmp_path / "source.db"), duckdb_database(tmp_path / "target.duckdb")
    for table in ("a", "b"):
        source.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, word TEXT)")
        source.insert(table, [(1, "one")])
    project = local(tmp_path, source).write(
        'tables: ["*"], cursor: id, key: id',
        route="to: warehouse",
        connections=f"  warehouse: {target.connection}\n",
    )
    assert not any(about.startswith("flow ") for about in found(project))
    target.execute("CREATE TABLE b (id INTEGER, word TEXT)", "INSERT INTO b VALUES (7, 'theirs')")
    ok, says, fix = found(project)["flow b"]
    assert not ok
    assert "the ledger knows nothing of them" in says
    assert fix is not None
    assert "watermark reset" in fix
    assert target.rows("SELECT id FROM b") == [(7,)]
    assert not target.rows("SELECT 1 FROM duckdb_tables() WHERE table_name LIKE 'tidegauge%'")


def test_what_is_wrong_with_a_source_is_said_once(tmp_path: Path) -> None:
    source = sqlite_database(tmp_path / "source.db")
    source.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, word TEXT)")
    project = local(tmp_path, source).write("tables: [a], cursor: changed_at, key: id")
    wrong = [says for ok, says, _ in found(project).values() if not ok]
    assert len(wrong) == len(set(wrong)) == 1
    assert "changed_at" in wrong[0]


def test_a_flow_between_delta_tables_is_looked_at_with_its_tables(tmp_path: Path) -> None:
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: test\nledger: 'sqlite:///ledger.db'\nflows:\n  silver:\n"
        "    inputs: {orders: {path: bronze}}\n"
        "    output: {path: silver, mode: merge, key: id}\n"
    )
    project = Project(tmp_path, sqlite_database(tmp_path / "none.db"), local(tmp_path, None).lake)  # type: ignore[arg-type]
    ok, says, _ = found(project)["flow silver"]
    assert not ok
    assert "bronze" in says
    deltalake.write_deltalake(str(tmp_path / "bronze"), pa.table({"id": [1, 2]}))
    ok, says, _ = found(project)["flow silver"]
    assert ok, says


def list_bucket(s3: S3, bucket: str) -> dict[str, str]:
    found = s3.client().list_objects_v2(Bucket=bucket).get("Contents", [])
    return {one["Key"]: f"{one['ETag']} {one['LastModified']}" for one in found}


@pytest.mark.parametrize("ran_before", [False, True])
def test_nothing_is_changed_anywhere(
    tmp_path: Path, s3: S3, mariadb: MariaDB, postgres: Postgres, ran_before: bool
) -> None:
    """Files, buckets and databases, before the first run and after it."""
    source, target = mysql_database(mariadb), postgres_database(postgres)
    for table in ("a", "duck", "lite"):
        source.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, word TEXT)")
        source.insert(table, [(1, "one")])
    text, lake = s3_lake(s3)
    bucket = text.partition("s3a://")[2].partition("/")[0]
    files = "".join(
        f"  - {{from: app, to: {to}, tables: [{to}], cursor: id, key: id}}\n" for to in ("duck", "lite")
    )
    project = Project(tmp_path, source, lake, text).write(
        "tables: [a], cursor: id, key: id",
        route="via: lake, to: warehouse",
        ledger="json:ledger",
        connections=(
            f"  warehouse: {target.connection}\n  folder: {{type: parquet, path: deep/folder}}\n"
            "  duck: {type: duckdb, path: deep/t.duckdb}\n  lite: {type: sqlite, path: deep/t.db}\n"
        ),
    )
    project.file.write_text(project.file.read_text() + files)
    if ran_before:
        ran = project.here("run")
        assert ran.code == 0, ran.said

    def facts() -> object:
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = '{}' ORDER BY 1"
        folders = sorted((str(one), one.stat().st_mtime_ns) for one in tmp_path.rglob("*"))
        return (
            project.traces(),
            folders,
            list_bucket(s3, bucket),
            source.rows(tables.format(source.home[:-1])),
            target.rows(tables.format("public")),
        )

    before = facts()
    ran = project.here("doctor", "--json")
    assert ran.code == 0, ran.said
    assert facts() == before
    said = [one["says"] for one in ran.json["findings"] if one["about"] == "connection lake"]
    assert any("was not tried" in one for one in said)
    assert "its clock agrees with this machine's" in said

    ran = project.here("doctor", "--json", "--write-probe")
    assert ran.code == 0, ran.said
    said = [one["says"] for one in ran.json["findings"]]
    assert not any("was not tried" in one for one in said)
    assert sum("a put-if-absent is honoured" in one for one in said) == 3
    after = facts()
    assert [name for name, _ in after[1]] == [name for name, _ in before[1]]  # type: ignore[index]
    assert (after[0], *after[2:]) == (before[0], *before[2:])  # type: ignore[index]


def test_a_bucket_that_is_not_there_or_keys_that_are_wrong_are_told(tmp_path: Path, s3: S3) -> None:
    source = sqlite_database(tmp_path / "source.db")
    source.execute("CREATE TABLE a (id INTEGER PRIMARY KEY)")
    text, lake = s3_lake(s3)
    bucket = text.partition("s3a://")[2].partition("/")[0]
    project = Project(tmp_path, source, lake, text.replace(bucket, "no-such-bucket")).write(
        "tables: [a], cursor: id, key: id"
    )
    ok, says, fix = found(project)["connection lake"]
    assert not ok
    assert "there is no bucket no-such-bucket" in says
    assert fix is not None
    assert "create the bucket" in fix
