"""Counts the jobs that a test starts in the Spark that it shares with other processes."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def count_jobs(spark: SparkSession) -> int:
    """Count the jobs that this thread, or threads that work for it, started since its first call."""
    context = spark.sparkContext
    group = context.getLocalProperty("spark.jobGroup.id")
    if group is None:
        group = uuid.uuid4().hex
        context.setJobGroup(group, "a test")
    return len(context.statusTracker().getJobIdsForGroup(group))
