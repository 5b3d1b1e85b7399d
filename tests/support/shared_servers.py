"""Servers that all test processes of one `pytest` share.

    python -m tests.support.shared_servers SOCKET FOLDER

starts each server when a test process first asks for it, and stops them when its standard input ends, which
is when the `pytest` that started it ends in any way. Killing a test process does not stop them.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.support.servers import S3, Postgres, start_postgres, start_s3

ADDRESS = "TIDEGAUGE_TEST_SERVERS"
"""The environment variable with the socket's path, for the processes of one `pytest`."""


def shared_postgres() -> Postgres:
    return Postgres(**_ask("postgres"))


def shared_s3() -> S3:
    return S3(**_ask("s3"))


def shared_java() -> dict[str, Any]:
    """Return port and secret of the Java whose Spark all test processes share, for `join_java`."""
    return _ask("java")


def shared_connect() -> str:
    """Return the address of the shared Spark Connect server."""
    return str(_ask("connect")["address"])


class SharedServers:
    """The process of the shared servers, started and ended by the main `pytest` process."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tidegauge-shared-")
        os.environ[ADDRESS] = f"{self._folder.name}/socket"
        # Listen before any test process can ask.
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.environ[ADDRESS])
            listener.listen(64)
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.support.shared_servers",
                    str(listener.fileno()),
                    self._folder.name,
                ],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )

    def close(self) -> None:
        self._process.communicate()
        self._folder.cleanup()


def _ask(name: str) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(os.environ[ADDRESS])
        wire.sendall(name.encode())
        wire.shutdown(socket.SHUT_WR)
        with wire.makefile() as answer:
            found: dict[str, Any] = json.loads(answer.read() or '{"error": "the shared servers are gone"}')
    if "error" in found:
        raise AssertionError(found["error"])
    return found


def _serve(listener: socket.socket, folder: Path) -> None:
    starts: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "postgres": start_postgres,
        "s3": start_s3,
        "connect": lambda: _start_connect(folder),
        "java": _start_java,
    }
    known: dict[str, dict[str, Any]] = {}
    with ExitStack() as servers:
        while True:
            # Standard input is readable only when it ends.
            if 0 in select.select([0, listener.fileno()], [], [])[0]:
                return
            wire, _ = listener.accept()
            with wire, wire.makefile("rw") as asked:
                name = asked.read()
                if name not in known:
                    known[name] = _start(servers, starts[name])
                asked.write(json.dumps(known[name]))


def _start_connect(folder: Path) -> AbstractContextManager[str]:
    # It imports pyspark, which most test runs do not need.
    from tests.support.connect import start_connect

    return start_connect(folder)


@contextmanager
def _start_java() -> Iterator[dict[str, Any]]:
    from tests.support.haste import SHARED_CONF_AND_JAVA
    from tidegauge.model.spec import SparkSettings
    from tidegauge.spark.jars import JarSet
    from tidegauge.spark.pyspark_private import SharedJava
    from tidegauge.spark.session import open_session

    # The second number is the attempts for a task, so that a failed one is repeated as in a cluster.
    settings = SparkSettings("local[6,2]", SHARED_CONF_AND_JAVA)
    java = SharedJava(open_session(settings, list(JarSet)))
    yield {"port": java.port, "secret": java.secret}  # it ends with this process


def _start(servers: ExitStack, start: Callable[[], AbstractContextManager[Any]]) -> dict[str, Any]:
    try:
        server = servers.enter_context(start())
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    match server:
        case str():
            return {"address": server}
        case dict():
            return server
    return asdict(server)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        _serve(given, Path(sys.argv[2]))
