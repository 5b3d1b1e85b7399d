"""A process that uses the Spark of another: killing it costs no Java, so it can be killed often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegauge.spark.pyspark_private import LentJava, join_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def address_of(spark: SparkSession) -> dict[str, Any]:
    """How another process reaches the Java of this session."""
    java = LentJava(spark)
    return {"port": java.port, "secret": java.secret}


def attach(port: int, secret: str) -> None:
    """From here on `open_session` finds that Spark, as a notebook's code finds the notebook's."""
    join_java(port, secret)
