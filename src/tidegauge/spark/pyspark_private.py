"""The only places of this room that touch private attributes of pyspark; a new pyspark is checked here.

None is for speed, so there is no gain to measure and nothing to switch off: pyspark has no public way to ask
or to say these things. pyproject.toml pins its version.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


def java_process() -> subprocess.Popen[bytes] | None:
    """The Java that pyspark has started for this process; None where it has none of its own."""
    spark = sys.modules.get("pyspark")
    gateway = spark.SparkContext._gateway if spark is not None else None
    return getattr(gateway, "proc", None)


def is_stopped() -> bool:
    """Whether Java has ended the Spark context of this process behind Python's back, as after an error that
    Spark does not survive."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    if context is None:
        return False
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:
        return True


def stop_spark() -> None:
    """End the Spark of this process and the Java that was started for it, dead or alive.

    The public `stop` leaves Java running, which is what has grown; and with a Java that is dead it leaves
    things behind by which the next session would take it for alive.
    """
    if not is_running() and java_process() is None:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    context = SparkContext._active_spark_context
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if context is not None:
            context.stop()
    kind: Any = SparkSession
    kind._instantiatedSession = kind._activeSession = None
    holder: Any = SparkContext
    holder._active_spark_context = holder._gateway = holder._jvm = None
    process = getattr(gateway, "proc", None)
    with suppress(Exception):
        gateway.shutdown()
    if process is not None:
        _end_process(process)


def _end_process(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
