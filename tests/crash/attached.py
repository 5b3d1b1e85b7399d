"""A process that uses the Spark of another: killing it costs no Java, so it can be killed often."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def address_of(spark: SparkSession) -> dict[str, Any]:
    """How another process reaches the Java of this session."""
    gateway: Any = spark.sparkContext._gateway
    return {"port": gateway.java_parameters.port, "secret": gateway.java_parameters.auth_token}


def attach(port: int, secret: str) -> None:
    """From here on `open_session` finds that Spark, as a notebook's code finds the notebook's."""
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    spark = gateway.jvm.org.apache.spark
    java = spark.api.java.JavaSparkContext(spark.SparkContext.getOrCreate())
    SparkSession(SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=java.sc().conf())))
