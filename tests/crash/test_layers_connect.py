"""Delta flows side by side on one Spark Connect server: nothing of one is seen by another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.project import end, shell, start, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("north", "south")
FEED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
SQL = "SELECT g, sum(n) AS n FROM rows GROUP BY g"


def said(folder: Path, table: str) -> list[dict[str, Any]]:
    """Our own words in the table's commits."""
    found = []
    for file in sorted((folder / table / "_delta_log").glob("*.json")):
        info = json.loads(file.read_text().splitlines()[0]).get("commitInfo", {})
        if "userMetadata" in info:
            found.append(json.loads(info["userMetadata"]))
    return found


@pytest.mark.long
def test_b1_flows_that_share_a_connect_server_and_a_name_keep_apart_and_survive_a_kill(
    spark: SparkSession, connect: str, tmp_path: Path
) -> None:
    # Every flow calls its input `rows`, and all of them have the same columns.
    for base, name in enumerate(TABLES):
        path = f"delta.`{tmp_path}/{name}`"
        spark.sql(f"CREATE TABLE {path} (id BIGINT, g BIGINT, n BIGINT) {FEED}")
        spark.sql(f"INSERT INTO {path} SELECT id, id % 3, id + {1000 * base} FROM range(30)")
    (tmp_path / "sums.sql").write_text(SQL)
    flows = "".join(
        f"  {name}_sums: {{inputs: {{rows: {{path: {name}}}}}, transform: sums.sql,"
        f" output: {{path: {name}_sums, key: g}}}}\n"
        for name in TABLES
    )
    # That a row is not as expected has to be told from what the server says of a failed job.
    flows += (
        "  aside: {inputs: {rows: {path: north}}, expect: {'id <> 7': quarantine},"
        " output: {path: aside, mode: append, on_delete: ignore}}\n"
    )
    file = tmp_path / "tidegauge.yml"
    file.write_text(f'pipeline: two\nspark: {{master: "{connect}"}}\nflows:\n{flows}')
    words = ("run", "--project", file, "--parallel", "4")

    def check() -> None:
        for name in TABLES:
            spark.read.format("delta").load(str(tmp_path / name)).createOrReplaceTempView("rows")
            found = spark.read.format("delta").load(f"{tmp_path}/{name}_sums")
            assert sorted(found.collect()) == sorted(spark.sql(SQL).collect()), name
            assert {one["flow"] for one in said(tmp_path, f"{name}_sums")} == {f"{name}_sums"}

    first = shell(*words)
    assert first.code == 0, first
    check()
    aside = spark.read.format("delta").load(f"{tmp_path}/aside_quarantine")
    assert [json.loads(one.row)["id"] for one in aside.collect()] == [7]
    assert spark.read.format("delta").load(f"{tmp_path}/aside").count() == 29
    for base, name in enumerate(TABLES):
        path = f"delta.`{tmp_path}/{name}`"
        spark.sql(f"UPDATE {path} SET n = n + {10 + base} WHERE id % 5 = {base}")
        spark.sql(f"DELETE FROM {path} WHERE id = {20 + base}")
    killed = start(*words)
    targets = [f"{name}_sums" for name in TABLES]
    until(
        lambda: sum(len(said(tmp_path, name)) for name in targets) > len(targets) or killed.poll() is not None
    )
    assert killed.poll() is None, killed.said()
    killed.kill()
    end(killed)
    again = shell(*words)
    assert again.code == 0, again
    check()
    for name in targets:
        numbers = [one["seq"] for one in said(tmp_path, name)]
        assert numbers == sorted(set(numbers))
