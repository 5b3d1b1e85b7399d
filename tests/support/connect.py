"""A Spark Connect server, so that a process that is to be killed need not start its own Java."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

from tests.support import haste
from tests.support.servers import free_port
from tidegauge.spark.archive import java_options
from tidegauge.spark.jars import JarSet, jars
from tidegauge.spark.java import find_java
from tidegauge.spark.session import DELTA


@contextmanager
def start_connect(folder: Path) -> Iterator[str]:
    """Start the server; yield its address for `spark: {master: …}`."""
    port = free_port()
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {java_options(find_java())} {haste.JAVA}",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **DELTA,
        **haste.CONF,
    }
    # The server dies with this process, so that an aborted test run leaves no server behind.
    command = ["setpriv", "--pdeathsig", "KILL", str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command += ["--jars", ",".join(str(jar) for jar in jars(list(JarSet), {})), "spark-internal"]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
    }
    with (folder / "connect.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        until = time.monotonic() + 600
        while not _listens(port):
            assert server.poll() is None, (folder / "connect.log").read_text()[-2000:]
            assert time.monotonic() < until, "the Spark Connect server did not come up"
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        # SIGKILL, because nothing that the server has stored is needed again.
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
