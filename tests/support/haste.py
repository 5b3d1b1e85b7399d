"""Settings for a fast Spark in tests: tables have few rows, so generating and compiling code does not pay."""

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
"""Only the first compiler. The heap sizes below leave room for garbage, so that it is seldom collected."""
JAVA = f"{_JAVA} -Xms2g -Xmn1g"
CONF_AND_JAVA = {**CONF, "spark.driver.extraJavaOptions": JAVA}
"""Settings for a process that starts its own Java."""
SHARED_CONF_AND_JAVA = {
    **CONF,
    "spark.driver.memory": "6g",
    "spark.driver.extraJavaOptions": f"{_JAVA} -Xms6g -Xmn3g",
    # As if each of the processes that share it had two cores.
    "spark.default.parallelism": "2",
    "spark.sql.leafNodeDefaultParallelism": "2",
}
"""Settings for the Java that all test processes share."""
