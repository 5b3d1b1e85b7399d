"""The only places of this room that touch private attributes of pyspark; a new pyspark is checked here.

None is for speed, so there is no gain to measure and nothing to switch off: pyspark has no public way to ask
or to say these things. pyproject.toml pins its version.
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
    """None where pyspark was not imported yet, or another thread is about to."""
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
    return getattr(getattr(_find_context_class(), "_gateway", None), "proc", None)


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


def join_java(port: int, secret: str) -> SparkSession:
    """A session in the Java of another process. What it sets is its own; the cores are shared.

    pyspark joins a Java only by what it finds in the environment, in which it stays for this call alone.
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
        # pyspark's own would cancel the jobs of every command, and not of this one alone.
        signal.signal(signal.SIGINT, interrupt)
    # Python tasks see this command's environment; and the mark gives them Pythons that no other command has
    # used, so that they import what modules say now.
    context.environment = {**os.environ, **context.environment, "TIDEGAUGE_COMMAND": uuid.uuid4().hex}
    kind: Any = SparkSession
    default = kind._get_j_spark_session_class(gateway.jvm).getDefaultSession().get()
    session: SparkSession = kind(context, default.newSession())
    return session


class LentJava:
    """The Java of this process, which other processes join; and what they leave in it."""

    def __init__(self, session: SparkSession) -> None:
        self._context, self._catalog = session.sparkContext, session.catalog
        self._gateway = java_gateway(session)
        # Whatever of Java this process goes on using is older than this.
        self._own = _number(self._gateway.jvm.java.lang.Object()._target_id)

    @property
    def port(self) -> int:
        return int(self._gateway.gateway_parameters.port)

    @property
    def secret(self) -> str:
        return str(self._gateway.gateway_parameters.auth_token)

    def shrink(self) -> None:
        """Give the system back what nobody needs, and let Spark drop what belongs to nobody."""
        self._gateway.jvm.java.lang.System.gc()

    def clear(self) -> None:
        """When all have gone: jobs of those that were killed, cached rows, tables' logs, clients of buckets,
        Pythons, objects."""
        jvm = self._gateway.jvm
        self._context.cancelAllJobs()
        self._catalog.clearCache()
        with suppress(Exception):  # only where Delta's jar is
            jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        jvm.org.apache.hadoop.fs.FileSystem.closeAll()
        self._end_pythons()
        self._drop_objects()

    def _end_pythons(self) -> None:
        environment = self._gateway.jvm.org.apache.spark.SparkEnv.get()
        field = environment.getClass().getDeclaredField("pythonWorkers")
        field.setAccessible(True)
        factories = field.get(environment)
        for factory in _listed(factories.values().toSeq()):
            factory.stop()
        factories.clear()

    def _drop_objects(self) -> None:
        """Java keeps an object until the process that has it lets go of it, which a dead one never does."""
        from py4j.java_gateway import JavaObject

        server: Any = JavaObject("GATEWAY_SERVER", self._gateway._gateway_client)
        known = server.getGateway().getBindings().keySet()
        known.retainAll([name for name in [*known] if _number(name) <= self._own])


def _number(name: str) -> int:
    """Of an object that Python holds, in the order of their making; 0 for what is always there."""
    found = re.fullmatch(r"o(\d+)", name)
    return int(found[1]) if found else 0


def _listed(items: Any) -> list[Any]:
    """A Scala sequence."""
    return [items.apply(place) for place in range(items.size())]
