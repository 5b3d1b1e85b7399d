"""The observability example copied into a test's folder: its days, its runs, and the expected gold tables."""

from __future__ import annotations

import json
import runpy
import shutil
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.observability.expected import Row, System, compute_gold
from tests.support.project import Ran, here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[3] / "examples" / "003_observability"
WORDS = ("run", "--json", "--parallel", "4")


class Observability:
    def __init__(self, spark: SparkSession, folder: Path, *, scale: float = 0.25) -> None:
        self.spark, self.folder = spark, folder
        shutil.copytree(
            EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("lake", "system", ".*")
        )
        self._made = runpy.run_path(str(folder / "generate.py"))
        self.month = self._made["Month"](7, scale)
        self.file = folder / "tidegauge.yml"
        self.days = 0

    def write_day(self) -> None:
        """Write the rows that arrive on the next day."""
        self.days += 1
        self._made["write_day"](self.month, self.days, self.folder / "system")

    def run(self) -> Ran:
        ran = here(*WORDS, "--project", self.file)
        assert ran.code == 0, ran.said
        return ran

    def verify(self, *words: str) -> None:
        """Check that every flow that can be compared equals its transform over whole inputs."""
        ran = here("verify", "--json", *words, "--project", self.file)
        assert ran.code == 0, ran.said
        assert {one["equal"] for one in ran.json["tables"]} <= {True, None}, ran.said

    def arrived(self, *, on: int | None = None) -> System:
        """Return the rows of every system table that have arrived until now, or on one day."""
        found = {}
        for table, rows in self.month.rows.items():
            if table in self._made["REPLACED"]:
                last = max(day for day, _ in rows if day <= self.days)
                found[table] = self.month.arrivals(table, last)
            else:
                found[table] = [row for day, row in rows if (day <= self.days if on is None else day == on)]
        return found

    def read(self, table: str) -> list[Row]:
        """Read a table of the lake, such as `gold/gld_dim_sku`."""
        rows = self.spark.read.format("delta").load(str(self.folder / "lake" / table)).collect()
        return [row.asDict(recursive=True) for row in rows]

    def read_view(self, name: str) -> list[Row]:
        """Read a view from the catalogue after a run."""
        return [row.asDict() for row in self.spark.table(name).collect()]

    def check(self) -> None:
        """Check every gold table against the independent computation over all rows that have arrived."""
        for table, expected in compute_gold(self.arrived()).items():
            found = Counter(map(_make_comparable, self.read(f"gold/{table}")))
            right = Counter(map(_make_comparable, expected.values()))
            extra, missing = (
                list((one - other).items())[:2] for one, other in ((found, right), (right, found))
            )
            assert found == right, f"day {self.days}, {table}: {extra=} {missing=}"


def _make_comparable(row: Row) -> frozenset[tuple[str, Any]]:
    return frozenset((name, _plain(name, value)) for name, value in row.items())


def _plain(name: str, value: Any) -> Any:
    if name == "tags":
        return frozenset(json.loads(value).items())
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return Fraction(value) if isinstance(value, Decimal) else value
