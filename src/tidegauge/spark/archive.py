"""A class-data archive for Spark's Java: its classes parsed once, then mapped into memory at every start.

Java checks by itself that an archive fits, and starts without it where it does not; so nothing but time
depends on it. It is made once and kept in the cache beside the jars: by `scripts/setup`
(`python -m tidegauge.spark.archive`), or else at the exit of the first command that has started a Java, by a
detached process of the lowest priority, so that nobody waits for it. `TIDEGAUGE_CLASS_ARCHIVE=off` switches
both off, the making and the use; what is gained is in docs/performance.md.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegauge.errors import TidegaugeError
from tidegauge.model.spec import SparkSettings
from tidegauge.spark.cache import cache_folder
from tidegauge.spark.java import Java, find_java

_SWITCH = "TIDEGAUGE_CLASS_ARCHIVE"
"""`off`: neither used nor made. A path: where the process that makes it writes it."""
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""Without this Java warns, on standard output, of an archive that does not fit."""
_LEAST = 1 << 20
"""Bytes; a smaller archive holds nothing useful."""

_left_to_make = False


def java_options(java: Java) -> str:
    """The options that let Java use the archive, or write it where that is asked for. Where there is none
    yet, they are empty, and the archive is made when this process exits."""
    switch = os.environ.get(_SWITCH, "")
    if switch == "off":
        return ""
    if switch:
        return f"-XX:ArchiveClassesAtExit={_quote(switch)} {_QUIET}"
    archive = path_of(java)
    if archive.is_file():
        return f"-XX:SharedArchiveFile={_quote(str(archive))} -Xshare:auto {_QUIET}"
    _make_at_exit(java)
    return ""


def path_of(java: Java) -> Path:
    """The archive's path: another one for each Java, each pyspark and each set of its jars."""
    return cache_folder() / "classes" / f"{_make_fingerprint(java)}.jsa"


def make(java: Java) -> Path:
    """Make the archive now, unless it is there or another process is making it. Raises TidegaugeError."""
    archive = path_of(java)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with _lock(archive) as locked:
        if not locked or archive.is_file():
            return archive
        with tempfile.TemporaryDirectory(prefix=".making-", dir=archive.parent) as folder:
            fresh = Path(folder) / "fresh.jsa"
            done = subprocess.run(
                [sys.executable, "-c", "from tidegauge.spark.archive import rehearse; rehearse()"],
                env={**os.environ, _SWITCH: str(fresh), "JAVA_HOME": str(java.home)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=600,
            )
            if done.returncode or not fresh.is_file() or fresh.stat().st_size < _LEAST:
                raise TidegaugeError(
                    f"Java made no class-data archive: {_last_line(done.stderr)}",
                    hint="Spark starts more slowly without it; nothing else depends on it",
                )
            fresh.replace(archive)
    return archive


def rehearse() -> None:
    """Do what runs do, so that Java loads the classes they need; it writes the archive when it exits."""
    import pyarrow as pa

    from tidegauge.spark.pyspark_private import java_gateway
    from tidegauge.spark.session import open_session

    def echo(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    with tempfile.TemporaryDirectory(prefix="tidegauge-rehearsal-") as folder:
        session = open_session(SparkSettings("local[2]", {"spark.driver.memory": "1g"}), ())
        session.range(0, 2, 1, 2).mapInArrow(echo, "id bigint").collect()
        frame = session.range(0, 100, 1, 2).selectExpr(
            "id",
            "CAST(id AS string) AS word",
            "CAST(id AS decimal(12,2)) AS price",
            "timestamp_micros(id) AS at",
            "CAST(timestamp_micros(id) AS timestamp_ntz) AS clock",
            "date_from_unix_date(CAST(id AS int)) AS day",
        )
        frame.where("CASE WHEN id IS NULL THEN false ELSE true END").write.parquet(f"{folder}/t")
        session.read.parquet(f"{folder}/t").groupBy("day").count().collect()
        gateway = java_gateway(session)
        session.stop()
        gateway.shutdown()
        java: subprocess.Popen[bytes] = gateway.proc
        assert java.stdin is not None
        java.stdin.close()
        java.wait(timeout=300)


def _make_fingerprint(java: Java) -> str:
    import pyspark

    said = hashlib.sha256(pyspark.__version__.encode())
    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    with contextlib.suppress(OSError):
        said.update((java.home / "release").read_bytes())
    for file in (
        java.home / "bin" / "java",
        java.home / "lib" / "server" / "libjvm.so",
        *sorted(jars.glob("*.jar")),
    ):
        with contextlib.suppress(OSError):
            facts = file.stat()
            said.update(f"{file}|{facts.st_size}|{facts.st_mtime_ns}\n".encode())
    return said.hexdigest()[:24]


def _make_at_exit(java: Java) -> None:
    """Start a detached process, once this one ends, that makes the archive."""
    global _left_to_make
    if _left_to_make:
        return
    _left_to_make = True

    def start_maker() -> None:
        with contextlib.suppress(OSError):
            subprocess.Popen(
                ["nice", "-n", "19", sys.executable, "-m", "tidegauge.spark.archive"],  # noqa: S607
                env={**os.environ, "JAVA_HOME": str(java.home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    atexit.register(start_maker)


@contextmanager
def _lock(archive: Path) -> Iterator[bool]:
    with archive.with_suffix(".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def _quote(path: str) -> str:
    return f'"{path}"' if any(character.isspace() for character in path) else path


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{make(find_java())}\n")
    except (TidegaugeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"error: {error}")
