"""Delta tables in hand-written PySpark: read the changes since the last run, merge, replace days.

The versions that were read are kept in one JSON file, written after each table. A run that dies between a
commit and that file repeats the table's work, and the merges are idempotent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FEED = ("_change_type", "_commit_version", "_commit_timestamp")


class PlainTables:
    def __init__(self, spark: SparkSession, project: Path, lake: Path) -> None:
        """`project` is the example's folder with its SQL and system tables, `lake` the folder to write to."""
        self._spark, self._project, self._lake = spark.newSession(), project, lake
        for name in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone"):
            self._spark.conf.set(name, str(spark.conf.get(name)))
        self._spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
        self._state = lake / "seen.json"
        self._seen: dict[str, int] = {}

    def _load_state(self) -> None:
        self._seen = json.loads(self._state.read_text()) if self._state.exists() else {}

    def _step(self, work: Callable[[], None]) -> None:
        before = dict(self._seen)
        work()
        if self._seen != before:
            self._state.parent.mkdir(parents=True, exist_ok=True)
            self._state.write_text(json.dumps(self._seen))

    def _has_news(self, name: str, *tables: str) -> bool:
        now = {f"{name} < {table}": DeltaTable(self._path(table)).version() for table in tables}
        news = any(self._seen.get(mark) != version for mark, version in now.items())
        self._seen |= now
        return news

    def _changes(self, name: str, table: str) -> DataFrame | None:
        """Read the changes to `table` since the step `name` last read it; None if there are none."""
        from pyspark.sql import functions as F  # noqa: N812

        seen = self._seen.get(f"{name} < {table}")
        if not self._has_news(name, table):
            return None
        if seen is None:
            return self._read(table).withColumn("_change_type", F.lit("insert"))
        reader = self._spark.read.format("delta").option("readChangeFeed", "true")
        return reader.option("startingVersion", seen + 1).load(self._path(table))

    def _transform(self, name: str, **inputs: DataFrame) -> DataFrame:
        for word, rows in inputs.items():
            rows.drop(*_FEED).createOrReplaceTempView(word)
        folder = {"slv": "silver", "gld": "gold"}[name[:3]]
        return self._spark.sql((self._project / folder / f"{name}.sql").read_text())

    def _merge(
        self,
        name: str,
        rows: DataFrame,
        key: Sequence[str],
        *,
        update: bool = True,
        gone: bool = False,
        gone_if: str | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        if not self._exists(name):
            self._create(name, rows)
            return
        columns = columns or rows.columns
        rows.createOrReplaceTempView("staged")
        words = [f"MERGE INTO delta.`{self._path(name)}` t USING staged s"]
        words.append("ON " + " AND ".join(f"t.{column} = s.{column}" for column in key))
        if gone_if is not None:
            words.append(f"WHEN MATCHED AND {gone_if} THEN DELETE")
        values = [column for column in columns if column not in key]
        if update and values:
            same = " AND ".join(f"t.{column} <=> s.{column}" for column in values)
            changed = ", ".join(f"t.{column} = s.{column}" for column in values)
            words.append(f"WHEN MATCHED AND NOT ({same}) THEN UPDATE SET {changed}")
        if gone_if is None:
            words.append("WHEN NOT MATCHED THEN INSERT *")
        else:
            names, given = ", ".join(columns), ", ".join(f"s.{column}" for column in columns)
            words.append(f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({given})")
        if gone:
            words.append("WHEN NOT MATCHED BY SOURCE THEN DELETE")
        self._spark.sql(" ".join(words))

    def _replace_days(self, name: str, rows: DataFrame, days: Sequence[int]) -> None:
        if not self._exists(name):
            self._create(name, rows, "date_sk")
            return
        where = f"date_sk IN ({', '.join(map(str, days))})"
        rows.write.format("delta").mode("overwrite").option("replaceWhere", where).save(self._path(name))

    def _create(self, name: str, rows: DataFrame, *partitions: str) -> None:
        writer = rows.drop(*_FEED).write.format("delta").option("delta.enableChangeDataFeed", "true")
        writer.partitionBy(*partitions).save(self._path(name))

    def _exists(self, name: str) -> bool:
        return Path(self._path(name), "_delta_log").is_dir()

    def _read(self, name: str) -> DataFrame:
        return self._spark.read.format("delta").load(self._path(name))

    def _path(self, name: str) -> str:
        return str(self._project / "system" / name if "/" in name else self._lake / name)
