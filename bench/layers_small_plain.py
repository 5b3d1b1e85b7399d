"""The flows of `bench.layers_small` as hand-written PySpark: one process that merges and ends.

    python -m bench.layers_small_plain FOLDER --make | --check | FLOW…

The versions that were read are kept in a file, which a crash can leave behind the tables.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.layers_small import FLOWS
from tidegauge.spark.jars import JarSet, jars
from tidegauge.spark.java import find_java
from tidegauge.spark.session import DELTA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHANGED = {"clean": "orders", "placed": "clean", "by_country": "placed", "by_customer": "clean"}
"""The input whose change feed each flow reads."""


def main(folder: Path, words: list[str]) -> None:
    os.environ["JAVA_HOME"] = str(find_java().home)
    spark = _session()
    try:
        if words == ["--make"]:
            _make(spark, folder)
        elif words == ["--check"]:
            _merge_all(spark, folder, list(FLOWS))
            _check(spark, folder)
        else:
            _merge_all(spark, folder, words)
    finally:
        spark.stop()


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "4")
    builder = builder.config("spark.jars", ",".join(map(str, jars([JarSet.DELTA], {}))))
    for name, value in DELTA.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _path(folder: Path, table: str) -> str:
    return str(folder / (table if table in ("orders", "customers") else f"plain_{table}"))


def _make(spark: SparkSession, folder: Path) -> None:
    for name in FLOWS:
        rows = spark.read.format("delta").load(str(folder / name)).select(*_columns(spark, folder, name))
        rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(_path(folder, name))
    _note(spark, folder, dict.fromkeys(FLOWS))


def _merge_all(spark: SparkSession, folder: Path, flows: list[str]) -> None:
    seen = json.loads((folder / "plain.json").read_text())
    for name in flows:
        _merge(spark, folder, name, int(seen[name]))
    _note(spark, folder, seen | dict.fromkeys(flows))


def _note(spark: SparkSession, folder: Path, seen: dict[str, int | None]) -> None:
    """Write the version that each flow has read; None means the newest one of its input."""
    for name, version in seen.items():
        if version is None:
            where = _path(folder, _CHANGED[name])
            newest = spark.sql(f"DESCRIBE HISTORY delta.`{where}` LIMIT 1").first()
            seen[name] = newest["version"] if newest else 0
    (folder / "plain.json").write_text(json.dumps(seen))


def _merge(spark: SparkSession, folder: Path, name: str, seen: int) -> None:
    from pyspark.sql import functions as f

    changed, (_, sql, key) = _CHANGED[name], FLOWS[name]
    for table in ("orders", "customers", *FLOWS):
        if (folder / table).exists():
            spark.read.format("delta").load(_path(folder, table)).createOrReplaceTempView(table)
    newest = spark.sql(f"DESCRIBE HISTORY delta.`{_path(folder, changed)}` LIMIT 1").first()
    if newest is None or newest["version"] <= seen:
        return
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", seen + 1)
    rows = feed.load(_path(folder, changed)).where("_change_type <> 'update_preimage'")
    if key == "id":
        # The flow works row by row, so the changed rows can stand in for the table.
        rows.drop("_change_type", "_commit_version", "_commit_timestamp").createOrReplaceTempView(changed)
        result = spark.sql(sql)
    else:
        result = spark.sql(sql).join(rows.select(key).distinct(), key, "left_semi")
    columns = [column for column in result.columns if column != key]
    result.select(f.col(key), *columns).createOrReplaceTempView("news")
    spark.sql(
        f"MERGE INTO delta.`{_path(folder, name)}` t USING news s ON t.{key} = s.{key}"
        f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{column} = s.{column}' for column in columns)}"
        f" WHEN NOT MATCHED THEN INSERT ({', '.join([key, *columns])})"
        f" VALUES ({', '.join(f's.{column}' for column in [key, *columns])})"
    )


def _check(spark: SparkSession, folder: Path) -> None:
    """Check that both sides made the same rows; without that the times would mean nothing."""
    for name in FLOWS:
        columns = _columns(spark, folder, name)
        ours = spark.read.format("delta").load(str(folder / name)).select(*columns)
        plain = spark.read.format("delta").load(_path(folder, name)).select(*columns)
        assert ours.exceptAll(plain).isEmpty(), name
        assert plain.exceptAll(ours).isEmpty(), name


def _columns(spark: SparkSession, folder: Path, name: str) -> list[str]:
    found = spark.read.format("delta").load(str(folder / name)).columns
    return [column for column in found if not column.startswith("_tidegauge")]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
