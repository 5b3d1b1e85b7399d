"""The one Spark session of a process: in UTC, quiet, with settings for small jobs; every flow uses it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.errors import RuntimeMissing, SparkFailed, TidegaugeError
from tidegauge.model.secret import mask
from tidegauge.model.spec import SparkSettings
from tidegauge.spark import hadoop
from tidegauge.spark.archive import java_options
from tidegauge.spark.errors import last_cause
from tidegauge.spark.hadoop import on_connect
from tidegauge.spark.jars import JarSet, jars
from tidegauge.spark.java import find_java
from tidegauge.spark.pyspark_private import active_on_connect, is_running
from tidegauge.spark.warm_client import is_kept, take_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Set on a session of our own, so that a host's session (a notebook's, say) keeps its settings.
_PER_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    **hadoop.SESSION,
}

_SMALL_JOBS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
"""For a Spark that is started here, for this machine alone. A cluster or a host has numbers of its own."""

_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Options for a Java that moves no rows itself: it starts sooner, and is slower with many rows. Without the
last option it would have a fifth of the room for compiled code, and stop compiling once Spark has filled it.
Left out where the user sets `spark.driver.extraJavaOptions`. See docs/performance.md."""

_PATIENT = (
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400"
    " -XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)
"""Options for every other Java: code is compiled a second time only after four times as many calls. A run of
minutes would spend a third of its processor time on that compiler, most of it for code that plans queries;
loops over rows are still compiled. Left out where the user sets `spark.driver.extraJavaOptions`."""

_LINE_DEBUGGING = "spark.python.sql.dataFrameDebugging.enabled"

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A small table's log is read by two tasks instead of fifty.
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""These have to be set before Spark starts. A host's Spark has the first two already, or knows no Delta."""


def open_session(
    settings: SparkSettings, needs: Collection[JarSet], *, light: bool = False, debug: bool = False
) -> SparkSession:
    """A session of the process's Spark: of the one that is active, a Connect server's, one that is kept warm,
    or one that is started here.

    The first call decides which Spark it is, and later calls use the same one. `light`: no rows go through
    Java itself, because tasks read and write by themselves; it starts sooner, and would be slow with many
    rows. Raises SparkFailed, or RuntimeMissing.
    """
    from pyspark.sql import SparkSession

    try:
        active = SparkSession.getActiveSession()
        if active is None and is_running():
            # Each thread has its own active session: the process may have one although this thread has none.
            active = SparkSession.builder.getOrCreate()
        if active is None and settings.is_connect:
            _require_connect()
            active = SparkSession.builder.remote(settings.effective_master).getOrCreate()
        if active is None and not debug:
            # With --debug a command shows what its Java prints, so it starts one of its own.
            active = take_up(settings, needs)
        session = (
            _launch(settings, needs, light=light, debug=debug) if active is None else _own_session(active)
        )
        for name, value in _PER_SESSION.items():
            session.conf.set(name, value)
    except TidegaugeError:
        raise
    except Exception as error:
        raise SparkFailed(
            f"Spark did not start: {last_cause(mask(str(error)))}",
            hint="run `tidegauge doctor`; with --debug this shows all that Spark says",
            detail=mask(str(error)),
        ) from error
    return session


def check_java(settings: SparkSettings) -> None:
    """Raises RuntimeMissing if a session would have to be started here and could not be."""
    if not settings.is_connect and not is_running() and not is_kept(settings):
        find_java()


def sibling(session: SparkSession) -> SparkSession:
    """Another session of the same Spark: its settings and views are its own."""
    beside: Any = session
    made: SparkSession = beside.cloneSession() if on_connect(session) else _branch(session)
    for name, value in _PER_SESSION.items():
        made.conf.set(name, value)
    return made


@contextmanager
def lend(session: SparkSession) -> Iterator[SparkSession]:
    """Give a session to this thread for the block, and end it after the block.

    Both matter on Spark Connect only, where the server would otherwise keep the session for an hour.
    """
    if not on_connect(session):
        yield session
        return
    try:
        with active_on_connect(session):
            yield session
    finally:
        with suppress(Exception):
            session.client.release_session()
            session.client.close()


def _own_session(active: SparkSession) -> SparkSession:
    """A session whose settings may be changed: a new one, or on Connect the active one (flows get
    siblings of it)."""
    return active if on_connect(active) else _branch(active)


def _branch(session: SparkSession) -> SparkSession:
    """A new session with this one's numbers for small jobs, which Spark's own `newSession` does not copy."""
    made = session.newSession()
    for name in _SMALL_JOBS:
        if (value := session.conf.get(name, None)) is not None:
            made.conf.set(name, value)
    return made


def _launch(settings: SparkSettings, needs: Collection[JarSet], *, light: bool, debug: bool) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    _choose_python(settings)
    # For the small Java that only writes the command line of the real one.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LIGHT)
    conf = SparkConf(loadDefaults=False)
    for name, value in _conf(settings, needs, debug=debug).items():
        conf.set(name, value)
    name = "spark.driver.extraJavaOptions"
    if "SharedArchiveFile" not in settings.conf.get(name, ""):
        conf.set(name, f"{conf.get(name, '')} {java_options(java)}".strip())
    if not settings.conf.get(name):
        conf.set(name, f"{conf.get(name, '')} {_LIGHT if light else _PATIENT}")
    # What Java prints goes to a file: the user gets one sentence, and the rest with `--debug`.
    chatter: Any = None if debug else tempfile.TemporaryFile()  # noqa: SIM115 - the JVM outlives this call
    try:
        gateway = launch_gateway(  # type: ignore[no-untyped-call]
            conf, popen_kwargs={"stdout": chatter, "stderr": chatter} if chatter else {}
        )
        context = SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        said = ""
        if chatter is not None:
            chatter.seek(0)
            said = mask(chatter.read().decode(errors="replace"))
        complaints = [line for line in said.splitlines() if "rror" in line or "xception" in line]
        raise SparkFailed(
            f"Spark did not start: {last_cause(chr(10).join(complaints) or str(error))}",
            hint="run `tidegauge doctor`; with --debug this shows all that Spark says",
            detail=said or str(error),
        ) from error
    context.setLogLevel("WARN" if debug else "OFF")
    return SparkSession(context)


def _choose_python(settings: SparkSettings) -> None:
    """Choose the Python of Spark's tasks. On this machine it is this one, whatever the environment says."""
    if settings.is_local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _conf(settings: SparkSettings, needs: Collection[JarSet], *, debug: bool = False) -> dict[str, str]:
    conf = {
        "spark.app.name": "tidegauge",
        "spark.master": settings.effective_master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.driver.memory": _driver_memory(),
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "tidegauge-warehouse"),
        # This sends Java the line of Python with every column that is named: half of all calls to Java.
        _LINE_DEBUGGING: str(debug).lower(),
        **_PER_SESSION,
    }
    if settings.is_local:
        conf |= _SMALL_JOBS
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if "spark.jars" not in settings.conf and needs:
        conf["spark.jars"] = ",".join(str(jar) for jar in jars(needs, settings.conf))
    if JarSet.DELTA in needs:
        conf |= DELTA
    conf |= {name: value for name, value in settings.conf.items() if name != "spark.jars.ivySettings"}
    for side in ("driver", "executor"):
        name = f"spark.{side}.extraJavaOptions"
        conf[name] = f"-Duser.timezone=UTC {conf.get(name, '')}".strip()
    return conf


def _driver_memory() -> str:
    """A quarter of the machine, between one and eight gigabytes."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return "2g"
    return f"{max(1024, min(8192, total // 4 // 2**20))}m"


def _require_connect() -> None:
    """Raise RuntimeMissing where Connect's client is not installed, before pyspark says so at length."""
    try:
        import grpc  # noqa: F401
    except ImportError as error:
        raise RuntimeMissing(
            "spark.master is a Spark Connect address, and its client is not installed",
            hint="run: pip install 'tidegauge[connect]'",
        ) from error
