"""Flows between Delta tables in a bucket, as a user types them; inputs and outputs are all on S3."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.project import Ran, here, refused
from tests.support.servers import S3
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Lake
from tidegauge.spark.hadoop import configure_bucket
from tidegauge.spark.session import sibling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]
FEED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"


class Bucket:
    """A project in a folder, its tables in a bucket of their own, and the Spark that both have."""

    def __init__(self, spark: SparkSession, s3: S3, folder: Path) -> None:
        self.s3, self.folder, self.name = s3, folder, s3.create_bucket()
        self.file = folder / "tidegauge.yml"
        self.root = f"s3a://{self.name}/a lake"
        keys = Secret(s3.access_key), Secret(s3.secret_key)
        self.spark = sibling(spark)
        configure_bucket(self.spark, Lake("lake", self.root, s3.endpoint, s3.region, *keys))

    def write(self, flows: str, **files: str) -> None:
        """`@name` is the path of that table, here and in `sql`."""
        self.file.write_text(
            "pipeline: lakehouse\nconnections:\n"
            f"  lake: {{type: delta, path: '{self.root}', endpoint: '{self.s3.endpoint}',"
            f" region: {self.s3.region}, access_key: '${{env:TG_S3_KEY}}',"
            " secret_key: '${env:TG_S3_SECRET}'}\n"
            f"flows:\n{self._named(flows)}"
        )
        for name, text in files.items():
            (self.folder / f"{name}.sql").write_text(text)

    def sql(self, statement: str) -> Rows:
        found = self.spark.sql(self._named(statement, "delta.`{}`")).collect()
        return sorted((tuple(row) for row in found), key=str)

    def type(self, *words: str) -> Ran:
        return here(*words, "--project", str(self.file))

    def run(self, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
        """By flow, the last report of each."""
        ran = self.type("run", "--json", *words)
        assert ran.code == code, ran.said
        return {flow["flow"]: flow for flow in json.loads(ran.out)["flows"]}

    def files(self, table: str) -> set[str]:
        listed = self.s3.client().list_objects_v2(Bucket=self.name, Prefix=f"a lake/{table}/")
        return {one["Key"] for one in listed.get("Contents", ())}

    def commits(self, table: str) -> list[list[dict[str, Any]]]:
        """The log as it lies there, oldest first."""
        client = self.s3.client()
        paths = sorted(path for path in self.files(table) if re.search(r"_delta_log/\d+\.json$", path))
        bodies = [client.get_object(Bucket=self.name, Key=path)["Body"].read() for path in paths]
        return [[json.loads(line) for line in body.splitlines()] for body in bodies]

    def tags(self, table: str) -> list[tuple[str, int]]:
        return [
            (one["txn"]["appId"].rpartition("/")[2], one["txn"]["version"])
            for actions in self.commits(table)
            for one in actions
            if "txn" in one
        ]

    def _named(self, text: str, form: str = "'{}'") -> str:
        return re.sub(r"@([\w/]+)", lambda name: form.format(f"{self.root}/{name[1]}"), text)


@pytest.fixture
def bucket(spark: SparkSession, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setenv("TG_S3_KEY", s3.access_key)
    monkeypatch.setenv("TG_S3_SECRET", s3.secret_key)
    return Bucket(spark, s3, tmp_path)


SILVER = "SELECT id, day, n, at FROM t WHERE n > 0"
DAYS = "SELECT day, count(*) AS ids, sum(n) AS n FROM t GROUP BY day"
HISTORY = "output: {path: @history, mode: scd2, key: id, sequence_by: at, track: [n]}"


def make(bucket: Bucket) -> None:
    rows = "VALUES (1, DATE'2026-01-01', 10, 1), (2, DATE'2026-01-02', 20, 1) AS v(id, day, n, at)"
    bucket.sql(f"CREATE TABLE @bronze/t {FEED} AS SELECT * FROM {rows}")


def change(bucket: Bucket) -> None:
    """One row altered, one that leaves silver, one more."""
    bucket.sql("UPDATE @bronze/t SET n = IF(id = 1, 11, -1), at = 2")
    bucket.sql("INSERT INTO @bronze/t VALUES (3, DATE'2026-01-01', 30, 2)")


@pytest.mark.long
def test_the_layers_keep_their_law_on_s3_and_a_batch_that_changes_nothing_is_committed_too(
    bucket: Bucket,
) -> None:
    make(bucket)
    bucket.write(
        "  silver: {inputs: {t: {path: @bronze/t}}, transform: silver.sql,"
        " output: {path: @silver/t, key: id}}\n"
        "  log: {inputs: {t: {path: @silver/t}}, output: {path: @log, mode: append, on_delete: ignore}}\n"
        f"  history: {{inputs: {{t: {{path: @bronze/t}}}}, transform: rows.sql, {HISTORY}}}\n",
        silver=SILVER,
        rows="SELECT id, n, at FROM t",
    )

    first = bucket.run()
    assert {flow["state"] for flow in first.values()} == {"SUCCESS"}
    change(bucket)
    second = bucket.run()
    counts = [second["silver"][f"rows_{kind}"] for kind in ("inserted", "updated", "deleted")]
    assert counts == [1, 1, 1]
    assert {flow["state"] for flow in bucket.run().values()} == {"SKIPPED"}

    # Out of the filter before and after, and an event of the history that changes nothing.
    bucket.sql("UPDATE @bronze/t SET at = 3 WHERE id = 2")
    idle = bucket.run()
    assert {name: flow["rows_written"] for name, flow in idle.items()} == dict.fromkeys(first, 0)
    assert (idle["silver"]["state"], idle["history"]["state"]) == ("SUCCESS", "SUCCESS")
    assert bucket.tags("silver/t") == bucket.tags("history") == [("0", 1), ("0", 2), ("0", 3)]
    assert bucket.sql("SELECT * FROM @silver/t") == bucket.sql(SILVER.replace(" t ", " @bronze/t "))
    assert [(row[0], row[2]) for row in bucket.sql("SELECT * FROM @log")] == [
        (1, 10),
        (1, 11),
        (2, 20),
        (3, 30),
    ]
    assert bucket.sql("SELECT id, n, valid_from, valid_to FROM @history") == [
        (1, 10, 1, 2),
        (1, 11, 2, None),
        (2, -1, 2, None),
        (2, 20, 1, 2),
        (3, 30, 2, None),
    ]


@pytest.mark.long
def test_partitions_a_whole_table_and_a_history_read_anew_on_s3(bucket: Bucket) -> None:
    make(bucket)
    bucket.write(
        "  days: {inputs: {t: {path: @bronze/t}}, transform: days.sql,"
        " output: {path: @days, mode: replace_partitions, partition_by: day}}\n"
        "  copy: {inputs: {t: {path: @bronze/t}}, output: {path: @copy, mode: overwrite}}\n"
        f"  history: {{inputs: {{t: {{path: @bronze/t}}}}, transform: rows.sql, {HISTORY}}}\n",
        days=DAYS,
        rows="SELECT id, n, at FROM t",
    )
    bucket.run()
    change(bucket)
    bucket.run("--select", "days", "--select", "copy")
    bucket.sql("UPDATE @bronze/t SET n = n + 1, at = 3 WHERE id < 3")
    bucket.run()
    assert bucket.sql("SELECT * FROM @copy") == bucket.sql("SELECT * FROM @bronze/t")
    assert bucket.sql("SELECT day, ids, n FROM @days") == bucket.sql(DAYS.replace(" t ", " @bronze/t "))
    history = bucket.sql("SELECT * FROM @history")
    bucket.run("--select", "history", "--full-refresh", "--yes", "--reason", "from the beginning")
    assert bucket.sql("SELECT * FROM @history") == history
    assert len(history) == 2 + 3 + 2


@pytest.mark.long  # as `test_layers_kills` shows it on a disk; S3's puts are `test_delta_epochs`'
def test_b4_lives_opened_by_puts_to_s3_and_a_rebuilt_ledger_bring_nothing_twice(bucket: Bucket) -> None:
    bucket.sql(f"CREATE TABLE @bronze/t {FEED} AS SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(id, word)")
    bucket.write(
        "  copy: {inputs: {t: {path: @bronze/t}}, output: {path: @copy, key: id}}\n"
        "  log: {inputs: {t: {path: @bronze/t}}, output: {path: @log, mode: append}}\n"
    )
    # An epoch that is opened before there is a table, and tables that are made where its file lies already.
    bucket.run("--full-refresh", "--yes", "--reason", "first of all")
    bucket.sql("ALTER TABLE @copy SET TBLPROPERTIES (delta.checkpointInterval = 1)")
    bucket.sql("INSERT INTO @bronze/t VALUES (3, 'c')")

    # Spark has the tables at hand when their logs get an entry that is not Spark's.
    reset = bucket.type("watermark", "reset", "--select", "copy", "--yes", "--reason", "again")
    assert reset.code == 0, reset.said
    assert bucket.tags("copy")[-3:] == [("0", 2**63 - 1), ("1", 2**63 - 1), ("2", 0)]
    refreshed = bucket.run("--select", "log", "--full-refresh", "--yes", "--reason", "again")
    assert refreshed["log"]["rows_inserted"] == 3
    bucket.run()
    assert bucket.tags("copy")[-1] == bucket.tags("log")[-1] == ("2", 1)
    assert any(path.endswith(".checkpoint.parquet") for path in bucket.files("copy"))

    shutil.rmtree(bucket.folder / ".tidegauge")
    lost = bucket.run(code=1)
    assert {flow["error"]["type"] for flow in lost.values()} == {"OutputNotEmpty"}
    rebuilt = bucket.type("ledger", "rebuild", "--yes", "--reason", "the disk died")
    assert rebuilt.code == 0, rebuilt.said
    assert {flow["state"] for flow in bucket.run().values()} == {"SKIPPED"}
    bucket.sql("INSERT INTO @bronze/t VALUES (4, 'd')")
    assert {flow["rows_read"] for flow in bucket.run().values()} == {1}
    wanted = [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert bucket.sql("SELECT * FROM @copy") == bucket.sql("SELECT * FROM @log") == wanted
    assert bucket.tags("copy")[-1] == bucket.tags("log")[-1] == ("2", 2)


@pytest.mark.long
def test_c1_a_source_on_s3_is_vacuumed_with_the_connections_keys_and_not_while_a_reader_needs_it(
    bucket: Bucket,
) -> None:
    bucket.sql(f"CREATE TABLE @bronze/t {FEED} AS SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(id, word)")
    bucket.write("  copy: {inputs: {t: {path: @bronze/t}}, output: {path: @copy, key: id}}\n")
    bucket.run()
    bucket.sql("UPDATE @bronze/t SET word = 'c' WHERE id = 1")
    vacuum = ("vacuum", "-t", f"{bucket.root}/bronze/t", "--retain", "0h", "--yes")
    before = bucket.files("bronze/t")
    refused(
        bucket.type(*vacuum), "copy still reads it (input t, its watermark is version 0)", "run copy first"
    )
    assert bucket.files("bronze/t") == before

    bucket.run()
    done = bucket.type(*vacuum, "--json")
    assert done.code == 0, done.said
    gone = before - bucket.files("bronze/t")
    assert done.json["tables"][0]["files_removed"] == len(gone) > 0
    assert not any("_delta_log" in path for path in gone)
    assert bucket.sql("SELECT * FROM @bronze/t") == [(1, "c"), (2, "b")]
