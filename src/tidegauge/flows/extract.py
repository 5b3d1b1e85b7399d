"""A flow from a database table to a lake: the first of two stages, or the only one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegauge.compare.frames import Difference
from tidegauge.flows.table.database import DatabaseFlow
from tidegauge.flows.verify.lake import verify_lake
from tidegauge.model.position import RowPosition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ExtractFlow(DatabaseFlow):
    """A flow from a database to a lake, which keeps every version of a row: no row is deleted there."""

    def compare(
        self,
        position: RowPosition | None,
        spark: Callable[[], SparkSession],
        *,
        epoch: int,
        known: str | None,  # noqa: ARG002 - a lake loses no columns
    ) -> Difference:
        """Compare the source with the newest version of each row in the lake."""
        return verify_lake(self.spec, self.source(), position, epoch, spark())
