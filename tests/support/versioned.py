"""A Delta table for a test, read version by version, and its rows with their counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.delta_log.table import read_newest
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.plan import ReadWay
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.protocols.source import ChangedInput
from tidegauge.sources.delta.changes import open_changed_input
from tidegauge.spark.session import sibling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEED = "'delta.enableChangeDataFeed' = 'true'"
Rows = Counter[tuple[str, ...]]


class Versioned:
    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.path = str(path)

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement.replace("{t}", f"delta.`{self.path}`"))

    def at(self, version: int) -> DataFrame:
        return self.spark.read.format("delta").option("versionAsOf", version).load(self.path)

    @property
    def latest(self) -> int:
        return read_newest(self.path).version

    def window(
        self,
        after: int | None,
        upto: int,
        way: ReadWay = ReadWay.FEED,
        *,
        raw: bool = False,
        scheme: str = "",
    ) -> ChangedInput:
        ends = (None if after is None else VersionPosition(after), VersionPosition(upto))
        table = TableRef(path=self.path)
        return open_changed_input(sibling(self.spark), table, scheme + self.path, Window(*ends), way, raw=raw)


def counted(frame: DataFrame) -> Rows:
    """Count each row by its text, in which -0.0 differs from 0.0, and NaN equals NaN."""
    return Counter(tuple(map(as_text, row)) for row in frame.collect())


def as_text(value: Any) -> str:
    return repr(sorted(value.items())) if isinstance(value, dict) else repr(value)


def told(rows: Rows) -> list[str]:
    return sorted(" ".join(row) for row in rows.elements())
