"""Facts needed to read a result: versions, cores, memory and load. Nothing names the machine or its user."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import version
from pathlib import Path

_LIBRARIES = ("tidegauge", "pyspark", "sqlalchemy", "pymysql", "psycopg", "pyarrow")


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    return found | {name: version(name) for name in _LIBRARIES}


def machine() -> dict[str, float]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        # Above the number of cores, other processes were busy, and the figures are less reliable.
        "load": round(os.getloadavg()[0], 2),
    }


def processor_seconds(pid: int) -> float:
    """Read the processor seconds that all threads of a process have used so far."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
