"""How many jobs a test asks of the Spark that it shares with others."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def count_jobs(spark: SparkSession) -> int:
    """Those that this thread has begun, or who works for it, since it first asked."""
    context = spark.sparkContext
    group = context.getLocalProperty("spark.jobGroup.id")
    if group is None:
        group = uuid.uuid4().hex
        context.setJobGroup(group, "a test")
    return len(context.statusTracker().getJobIdsForGroup(group))
