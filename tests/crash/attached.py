"""A process that uses the Java of another, so that killing the process often costs no new Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegauge.spark.pyspark_private import SharedJava, join_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def address_of(spark: SparkSession) -> dict[str, Any]:
    """Return the port and secret by which another process reaches the Java of this session."""
    java = SharedJava(spark)
    return {"port": java.port, "secret": java.secret}


def attach(port: int, secret: str) -> None:
    """Make `open_session` in this process use that Java, as code in a notebook uses the notebook's Spark."""
    join_java(port, secret)
