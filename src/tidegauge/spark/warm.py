"""One Spark for many runs: it stays warm, and is started anew when it has died or grown."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.model.spec import SparkSettings
from tidegauge.spark.jars import JarSet
from tidegauge.spark.pyspark_private import is_stopped, java_process, stop_spark
from tidegauge.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_RUNS = 1000
"""Runs that one Spark serves: its libraries keep a little memory for each."""
ROOM = 2**30
"""Bytes that Java may use beside its heap; beyond that, something outside of the heap grows."""
_MEMORY = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class WarmSpark:
    """The Spark of this process's runs. Only a Spark that was started here is ended here: a cluster's (Spark
    Connect) and a host's own are left alone."""

    def __init__(self, needs: set[JarSet], *, most_runs: int = MOST_RUNS, room: int = ROOM) -> None:
        """`needs` are those of all runs: Spark gets its jars only when it starts."""
        self._needs = needs
        self._most_runs = most_runs
        self._room = room
        self._lock = threading.Lock()
        self._runs = 0
        self._heap: int | None = None

    def open(self, settings: SparkSettings, needs: set[JarSet], light: bool, debug: bool) -> SparkSession:
        with self._lock:
            own = replace(settings, keep_warm=None)
            session = open_session(own, self._needs | needs, light=light, debug=debug)
            self._runs += 1
            if self._heap is None:
                self._heap = _parse_bytes(session.conf.get("spark.driver.memory", "1g") or "1g")
            return session

    def find_fault(self) -> str | None:
        """Why Spark should be started anew, in words; None: it is well, or was not started."""
        with self._lock:
            process = java_process() if self._runs else None
            if process is None:
                return None
            stopped = process.poll() is None and is_stopped()
            if stopped:
                # A Java that is being killed stops answering a moment before it has ended.
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=1)
            if process.poll() is not None:
                return f"Spark's Java ended with code {process.returncode}"
            if stopped:
                return "Spark has stopped by itself"
            if self._runs >= self._most_runs:
                return f"Spark has served {self._runs:,} runs"
            size = resident(process.pid)
            if self._heap is not None and size > self._heap + self._room:
                return f"Spark's Java has grown to {size >> 20:,} MiB"
            return None

    def end(self) -> None:
        """End Spark and its Java; the next run that needs it starts another. Not while a run is under way."""
        with self._lock:
            stop_spark()
            self._runs, self._heap = 0, None


def resident(pid: int) -> int:
    """The resident memory of a process in bytes; 0 where it is not known."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _parse_bytes(text: str) -> int:
    match = _MEMORY.fullmatch(text.strip())
    return int(match[1]) * 1024 ** _POWERS[match[2].lower()] if match else 0
