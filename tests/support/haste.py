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
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -Xms2g -Xmn1g"
"""No second compiler; and room for what is thrown away, so that it is seldom collected."""
CONF_AND_JAVA = {**CONF, "spark.driver.extraJavaOptions": JAVA}
"""For whoever starts a Java of its own."""
