"""The bronze tables: `python lake.py make`, `change` and, after the runs, `prove`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]


def make(spark: SparkSession, lake: Path) -> None:
    tables = {
        "workspaces": "workspace_id INT, name STRING",
        "clusters": "cluster_id INT, workspace_id INT, num_workers INT, change_time TIMESTAMP",
        "usage": "usage_id BIGINT, workspace_id INT, used_at TIMESTAMP, units INT",
    }
    for name, columns in tables.items():
        spark.sql(
            f"CREATE TABLE delta.`{lake}/bronze/{name}` ({columns}) USING delta"
            " TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        )
    spark.sql(f"INSERT INTO delta.`{lake}/bronze/workspaces` VALUES (1, 'research'), (2, 'sales')")
    spark.sql(
        f"INSERT INTO delta.`{lake}/bronze/clusters` VALUES (10, 1, 2, TIMESTAMP '2026-01-01 08:00:00'),"
        " (11, 2, 8, TIMESTAMP '2026-01-01 09:00:00')"
    )
    spark.sql(
        f"INSERT INTO delta.`{lake}/bronze/usage` SELECT id, 1 + id % 2,"
        " TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(id % 5), id % 10 FROM range(10000)"
    )


def change(spark: SparkSession, lake: Path) -> None:
    """Rows that come, go, move out of a filter and into it; one late; one cluster grows, one is gone."""
    usage, clusters = f"delta.`{lake}/bronze/usage`", f"delta.`{lake}/bronze/clusters`"
    spark.sql(f"UPDATE {usage} SET units = 0 WHERE usage_id = 7")
    spark.sql(f"UPDATE {usage} SET units = 5 WHERE usage_id = 10")
    spark.sql(f"DELETE FROM {usage} WHERE usage_id IN (18, 19)")
    spark.sql(f"INSERT INTO {usage} VALUES (20000, 3, TIMESTAMP '2026-01-02 12:00:00', 4)")
    spark.sql(f"INSERT INTO delta.`{lake}/bronze/workspaces` VALUES (3, 'late')")
    spark.sql(
        f"UPDATE {clusters} SET num_workers = 4, change_time = TIMESTAMP '2026-01-03 08:00:00'"
        " WHERE cluster_id = 10"
    )
    spark.sql(f"DELETE FROM {clusters} WHERE cluster_id = 11")


def prove(spark: SparkSession, lake: Path) -> dict[str, int]:
    """Every target equals its transform over the whole; how many rows each has."""
    here = Path(__file__).parent

    def table(name: str) -> str:
        return f"delta.`{lake}/{name}`"

    usage = (here / "silver" / "usage.sql").read_text().replace("FROM usage", f"FROM {table('bronze/usage')}")
    daily = (here / "gold" / "daily_usage.sql").read_text().replace("FROM usage", f"FROM ({usage})")
    units = (
        f"SELECT w.workspace_id, w.name, sum(u.units) AS units FROM {table('bronze/workspaces')} w"
        f" JOIN ({usage}) u ON u.workspace_id = w.workspace_id GROUP BY 1, 2"
    )
    counts = {}
    for name, whole in {
        "silver/usage": usage,
        "gold/daily_usage": daily,
        "gold/units_of_workspace": units,
    }.items():
        expected, found = (
            _rows(spark, f"SELECT * FROM ({whole})"),
            _rows(spark, f"SELECT * FROM {table(name)}"),
        )
        assert expected == found, name
        counts[name] = len(found)
    history = _rows(
        spark,
        "SELECT cluster_id AS a, num_workers AS b, valid_to IS NULL AS c, is_current AS d"
        f" FROM {table('silver/clusters')}",
    )
    assert history == [(10, 2, False, False), (10, 4, True, True), (11, 8, False, False)], history
    counts["silver/clusters"] = len(history)
    return counts


def _rows(spark: SparkSession, query: str) -> Rows:
    frame = spark.sql(query)
    return sorted(tuple(row) for row in frame.select(sorted(frame.columns)).collect())


if __name__ == "__main__":
    from tidegauge.model.spec import SparkSettings
    from tidegauge.spark.jars import JarSet
    from tidegauge.spark.session import open_session

    session = open_session(SparkSettings(None, {}), [JarSet.DELTA])
    said = {"make": make, "change": change, "prove": prove}[sys.argv[1]](session, Path.cwd() / "lake")
    print(said or "done")
