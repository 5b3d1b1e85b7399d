"""The process that keeps a Spark warm: `python -m tidegauge.spark.warm_server`, started by the first command.

It starts a Spark as any command does, and lends its Java to commands of the same settings, one after the
other or side by side. Each command keeps a connection open while it uses Java; when the last one has gone,
all that they left in Java is cleared. The keeper ends when no command has come for `keep_warm`, when its Java
has died or grown, and when it is told to.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegauge.errors import TidegaugeError
from tidegauge.model.error_json import error_to_json
from tidegauge.model.spec import SparkSettings
from tidegauge.spark.jars import JarSet
from tidegauge.spark.pyspark_private import SharedJava, java_process
from tidegauge.spark.warm import WarmSpark, resident
from tidegauge.spark.warm_sockets import Listener, peer_of, receive, send

MOST_COMMANDS = 300
"""Commands that one Java serves: each leaves a little memory behind."""
_LOOK = 1.0
"""Seconds between two checks of Java and the clock."""
_FIRST = 60.0
"""Seconds in which the command that has started the keeper can connect, however short `keep_warm` is."""
_REST = 5.0
"""Seconds without a command after which Java returns memory to the system."""


def _now() -> float:
    """Seconds of a clock that goes on while the machine sleeps, where the system has one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True)
class _Client:
    pid: int | None
    command: str


class WarmSparkServer:
    def __init__(self, path: Path, asked: Mapping[str, Any]) -> None:
        """Starts Spark, and listens. Raises TidegaugeError."""
        self._fingerprint: str = asked["fingerprint"]
        self._needs = {JarSet(name) for name in asked["needs"]}
        self._keep: float = asked["keep_warm"]
        self._settings = SparkSettings(asked["master"], asked["conf"])
        self._warm = WarmSpark(self._needs, most_runs=MOST_COMMANDS)
        self._since = time.time()
        self._served = 0
        self._clients: dict[socket.socket, _Client] = {}
        self._stopping = False
        self._idle_since = _now()
        self._shrunk = True
        self._java = SharedJava(self._warm.open(self._settings, self._needs, False, False))
        self._selector = selectors.DefaultSelector()
        self._listener = Listener(path)
        self._idle_since = _now()
        self._selector.register(self._listener.wire, selectors.EVENT_READ)

    def serve(self) -> None:
        """Serve commands until there is a reason to end."""
        try:
            while not self._is_over():
                self._shrink()
                for key, _ in self._selector.select(_LOOK):
                    wire = key.fileobj
                    assert isinstance(wire, socket.socket)
                    if wire is self._listener.wire:
                        self._accept()
                    else:
                        self._drop_client(wire)
        finally:
            self._end()

    def _is_over(self) -> bool:
        java = java_process()
        if self._stopping or java is None or java.poll() is not None:
            return True
        if self._clients:
            return False
        # The command that started the keeper has to get its Spark, however short `keep_warm` is.
        patience = self._keep if self._served else max(self._keep, _FIRST)
        return not self._listener.is_found() or _now() - self._idle_since >= patience

    def _shrink(self) -> None:
        if not self._shrunk and not self._clients and _now() - self._idle_since >= _REST:
            self._shrunk = True
            with suppress(Exception):
                self._java.shrink()

    def _accept(self) -> None:
        wire, _ = self._listener.wire.accept()
        pid, user = peer_of(wire)
        try:
            if user not in (None, os.getuid()):
                raise ConnectionError
            wire.settimeout(5)
            asked = receive(wire) or {}
            wire.settimeout(None)
            if asked.get("ask") == "lease":
                self._lend(wire, _Client(pid, str(asked.get("command"))), asked)
                return
            if asked.get("ask") == "status":
                send(wire, self._status())
            elif asked.get("ask") == "stop" and (asked.get("force") or not self._clients):
                self._stopping = True
                self._end()
                send(wire, {"ended": True})
            else:
                send(wire, self._status() | {"ended": False})
        except (OSError, ValueError, LookupError, TypeError):
            pass  # another user, a command that went away, or a version with other messages
        wire.close()

    def _lend(self, wire: socket.socket, client: _Client, asked: Mapping[str, Any]) -> None:
        needs = {JarSet(name) for name in asked["needs"]}
        if asked["fingerprint"] != self._fingerprint or not needs <= self._needs:
            # The command starts a keeper of its own, which replaces this one if nobody uses it.
            self._stopping = not self._clients
            if self._stopping:
                self._end()
            send(wire, {"other": True, "ended": self._stopping, "needs": sorted(self._needs)})
            wire.close()
            return
        self._warm.open(self._settings, self._needs, False, False)
        self._served += 1
        self._shrunk = False
        self._clients[wire] = client
        self._selector.register(wire, selectors.EVENT_READ)
        # As configured now, which may differ from what the first command had.
        self._keep = asked["keep_warm"]
        try:
            send(wire, {"port": self._java.port, "secret": self._java.secret})
        except OSError:
            self._drop_client(wire)

    def _drop_client(self, wire: socket.socket) -> None:
        """Note that a command has ended, or was killed; after the last one, clear Java."""
        self._selector.unregister(wire)
        del self._clients[wire]
        wire.close()
        self._idle_since = _now()
        if not self._clients:
            with suppress(Exception):
                self._java.clear()
            self._stopping = self._stopping or self._warm.find_fault() is not None

    def _status(self) -> dict[str, Any]:
        java = java_process()
        left = None if self._clients else max(0.0, self._keep - (_now() - self._idle_since))
        return {
            "pid": os.getpid(),
            "java": java.pid if java else None,
            "memory": resident(java.pid) if java else 0,
            "folder": str(Path.cwd()),
            "master": self._settings.effective_master,
            "since": self._since,
            "commands": self._served,
            "used_by": [{"pid": one.pid, "command": one.command} for one in self._clients.values()],
            "ends_in": left,
        }

    def _end(self) -> None:
        """Stop listening, so that the next command starts another keeper, and end Spark."""
        if self._listener.wire.fileno() < 0:
            return
        self._selector.unregister(self._listener.wire)
        self._listener.close()
        self._warm.end()


def main() -> None:
    """Read the settings from standard input, start Spark, and say on standard output that it is ready."""
    asked = json.loads(sys.stdin.readline())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    path = Path(asked["path"])
    try:
        keeper = WarmSparkServer(path, asked)
    except TidegaugeError as error:
        _say({"error": error_to_json(error) | {"detail": error.detail}})
        sys.exit(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.close(asked["lock"])
    _say({"ready": True})
    keeper.serve()


def _say(word: Mapping[str, Any]) -> None:
    with suppress(OSError):
        sys.stdout.write(json.dumps(word) + "\n")
        sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
