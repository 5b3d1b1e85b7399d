"""The only file of this room that touches private attributes of pyspark: check it with each new version.

None is used for speed, so there is no gain to measure and nothing to switch off: pyspark has no public way to
do these things. pyproject.toml pins its version.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_running() -> bool:
    """Whether this process has a Spark context. The public ways to ask would start one, or see only this
    thread's; and pyspark is not imported just to find out that nobody has used it."""
    return getattr(_find_context_class(), "_active_spark_context", None) is not None


def _find_context_class() -> Any:
    """The class SparkContext; None where pyspark is not imported, or another thread is just importing it."""
    return getattr(sys.modules.get("pyspark"), "SparkContext", None)


def is_at_hand() -> bool:
    """Whether this process has a Spark of any kind: its own, or a session of Spark Connect."""
    if is_running():
        return True
    session = getattr(sys.modules.get("pyspark.sql.connect.session"), "SparkSession", None)
    return session is not None and session.getActiveSession() is not None


def java_gateway(session: SparkSession) -> Any:
    """The connection to Java, which has to be shut down before Java is waited for."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    return gateway


@contextmanager
def active_on_connect(session: SparkSession) -> Iterator[None]:
    """Make this the thread's active session of Spark Connect for the block.

    On Connect a checkpoint belongs to the thread's active session, whichever session its frame is of.
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
    return getattr(getattr(_find_context_class(), "_gateway", None), "proc", None)


def is_stopped() -> bool:
    """Whether Java has stopped this process's Spark context without Python knowing, as after an error that
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

    The public `stop` leaves Java running, and Java is what has grown; and where Java is dead, it leaves state
    behind that would make the next session take Java for alive.
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


def join_java(port: int, secret: str) -> SparkSession:
    """A session in the Java of another process. Its settings are its own; the cores are shared.

    pyspark takes Java's address only from the environment, so it is put there during this call alone.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    interrupt = signal.getsignal(signal.SIGINT)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    try:
        gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    shared = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    jsc = gateway.jvm.JavaSparkContext.fromSparkContext(shared)
    conf: Any = SparkConf(loadDefaults=False, _jconf=shared.conf())
    context: Any = SparkContext(conf=conf, gateway=gateway, jsc=jsc)
    if interrupt is not None and threading.current_thread() is threading.main_thread():
        # pyspark's own handler would cancel the jobs of every command, and not of this one alone.
        signal.signal(signal.SIGINT, interrupt)
    # Python tasks get this command's environment. TIDEGAUGE_COMMAND makes it unlike any other, so that Spark
    # starts new Python workers for it, which import the modules as they are now.
    context.environment = {**os.environ, **context.environment, "TIDEGAUGE_COMMAND": uuid.uuid4().hex}
    kind: Any = SparkSession
    default = kind._get_j_spark_session_class(gateway.jvm).getDefaultSession().get()
    session: SparkSession = kind(context, default.newSession())
    return session


class SharedJava:
    """The Java of this process, which other processes join; it clears what they leave in it."""

    def __init__(self, session: SparkSession) -> None:
        self._context, self._catalog = session.sparkContext, session.catalog
        self._gateway = java_gateway(session)
        # Java's objects are numbered: what this process goes on using is older than this one.
        self._own = _number(self._gateway.jvm.java.lang.Object()._target_id)

    @property
    def port(self) -> int:
        return int(self._gateway.gateway_parameters.port)

    @property
    def secret(self) -> str:
        return str(self._gateway.gateway_parameters.auth_token)

    def shrink(self) -> None:
        """Run Java's garbage collector: it returns memory to the system, and lets Spark drop unused data."""
        self._gateway.jvm.java.lang.System.gc()

    def clear(self) -> None:
        """Clear what commands have left, once all have gone: jobs of those that were killed, cached rows,
        tables' logs, clients of buckets, Python workers, objects."""
        jvm = self._gateway.jvm
        self._context.cancelAllJobs()
        self._catalog.clearCache()
        with suppress(Exception):  # raised where Spark has no Delta jar
            jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        jvm.org.apache.hadoop.fs.FileSystem.closeAll()
        self._end_pythons()
        self._drop_objects()

    def _end_pythons(self) -> None:
        environment = self._gateway.jvm.org.apache.spark.SparkEnv.get()
        field = environment.getClass().getDeclaredField("pythonWorkers")
        field.setAccessible(True)
        factories = field.get(environment)
        for factory in _list_items(factories.values().toSeq()):
            factory.stop()
        factories.clear()

    def _drop_objects(self) -> None:
        """Drop the commands' objects: Java keeps an object until its process releases it, which a killed one
        never does."""
        from py4j.java_gateway import JavaObject

        server: Any = JavaObject("GATEWAY_SERVER", self._gateway._gateway_client)
        known = server.getGateway().getBindings().keySet()
        known.retainAll([name for name in [*known] if _number(name) <= self._own])


def _number(name: str) -> int:
    """The number of an object that Python holds, in the order of creation; 0 for one that is always there."""
    found = re.fullmatch(r"o(\d+)", name)
    return int(found[1]) if found else 0


def _list_items(items: Any) -> list[Any]:
    """The items of a Scala sequence."""
    return [items.apply(place) for place in range(items.size())]
