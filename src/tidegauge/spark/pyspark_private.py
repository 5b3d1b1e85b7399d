"""The only places of this room that touch private attributes of pyspark; a new pyspark is checked here.

None is for speed, so there is no gain to measure and nothing to switch off: pyspark has no public way to ask
or to say these things. pyproject.toml pins its version.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_running() -> bool:
    """Whether this process has a Spark context. The public ways to ask would start one, or see only this
    thread's; and pyspark is not imported just to find out that nobody has used it."""
    spark = sys.modules.get("pyspark")
    return spark is not None and spark.SparkContext._active_spark_context is not None


def java_gateway(session: SparkSession) -> Any:
    """The connection to Java, which has to be shut down before Java is waited for."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    return gateway


@contextmanager
def active_on_connect(session: SparkSession) -> Iterator[None]:
    """Make this the thread's active session of Spark Connect, and the one before again afterwards.

    There a checkpoint belongs to the thread's active session, whichever session its frame is of.
    """
    kind: Any = type(session)
    before = kind.getActiveSession()
    kind._active_session.session = session
    try:
        yield
    finally:
        kind._active_session.session = before
