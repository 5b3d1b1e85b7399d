"""Spark in haste: its tables have a few rows, for which Java need not be written and compiled."""

from __future__ import annotations

CONF = {
    "spark.driver.memory": "2g",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""No second compiler; and, below, room for what is thrown away, so that it is seldom collected."""
JAVA = f"{_JAVA} -Xms2g -Xmn1g"
CONF_AND_JAVA = {**CONF, "spark.driver.extraJavaOptions": JAVA}
"""For whoever starts a Java of its own."""
SHARED_CONF_AND_JAVA = {
    **CONF,
    "spark.driver.memory": "6g",
    "spark.driver.extraJavaOptions": f"{_JAVA} -Xms6g -Xmn3g",
    # As if there were two cores for each of those who share it.
    "spark.default.parallelism": "2",
    "spark.sql.leafNodeDefaultParallelism": "2",
}
"""For the Java that all test processes share."""
