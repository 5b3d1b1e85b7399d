"""Spark's extra jars: resolved once by their Maven coordinates, then taken from a cache.

Run as a program it fills the cache: `python -m tidegauge.spark.jars [jdbc] [s3] [delta]`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import Path

from tidegauge.errors import RuntimeMissing
from tidegauge.model.engines import FACTS
from tidegauge.spark.cache import cache_folder
from tidegauge.spark.errors import last_cause
from tidegauge.spark.java import find_java


class JarSet(StrEnum):
    DELTA = "delta"
    JDBC = "jdbc"
    S3 = "s3"


_PACKAGES: dict[JarSet, tuple[str, ...]] = {
    JarSet.DELTA: ("io.delta:delta-spark_4.2_2.13:4.4.0",),
    JarSet.JDBC: tuple(sorted(facts.jdbc_jar for facts in FACTS.values() if facts.jdbc_jar)),
    JarSet.S3: (
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.awssdk:s3:2.35.4",
        "software.amazon.awssdk:s3-transfer-manager:2.35.4",
        "software.amazon.awssdk:sts:2.35.4",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    ),
}
# Jars that Spark ships already, and newer, or that only an optional part of a driver asks for.
_EXCLUDES: dict[JarSet, tuple[str, ...]] = {
    JarSet.DELTA: (
        "com.fasterxml.jackson.core:*",
        "com.fasterxml.jackson.datatype:*",
        "com.google.code.findbugs:*",
        "io.unitycatalog:unitycatalog-hadoop",
        "javax.annotation:*",
        "org.apache.hadoop:*",
        "org.apache.logging.log4j:*",
        "org.apache.parquet:*",
        "org.roaringbitmap:*",
        "org.slf4j:*",
    ),
    JarSet.JDBC: tuple(sorted({jar for facts in FACTS.values() for jar in facts.jdbc_excludes})),
    JarSet.S3: (
        "software.amazon.awssdk:bundle",
        "org.slf4j:*",
        "io.netty:*",
        "org.apache.httpcomponents:*",
        "commons-codec:*",
        "commons-logging:*",
        "org.wildfly.openssl:*",
    ),
}

_FAULT = re.compile(r"\((?:\w+\.)*\w+Exception: (.*)\)")

_RESOLVE = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for name, value in json.load(sys.stdin).items():
    builder = builder.config(name, value)
print("jars=" + builder.getOrCreate().conf.get("spark.jars"))
"""


def jars(needs: Collection[JarSet], conf: Mapping[str, str]) -> list[Path]:
    """The jars for these needs; the network is used only the first time. Raises RuntimeMissing."""
    return [jar for need in sorted(needs) for jar in _find_jars(need, conf)]


def find_cached(need: JarSet) -> list[Path] | None:
    """The cached jars for a need; None unless all of them are there."""
    listing = _listing_path(need)
    try:
        kept = [Path(jar) for jar in json.loads(listing.read_text())]
        return kept if all(jar.exists() for jar in kept) else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RuntimeMissing(
            f"{listing} cannot be read ({error.strerror})",
            hint="give this user the right to it, or a cache of its own: TIDEGAUGE_CACHE=FOLDER",
        ) from error


def _listing_path(need: JarSet) -> Path:
    wanted = f"{','.join(_PACKAGES[need])}|{','.join(_EXCLUDES[need])}"
    return cache_folder() / "jars" / f"{need}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}.json"


def _find_jars(need: JarSet, conf: Mapping[str, str]) -> list[Path]:
    if (kept := find_cached(need)) is not None:
        return kept
    listing = _listing_path(need)
    found = _resolve(need, ",".join(_PACKAGES[need]), conf)
    listing.parent.mkdir(parents=True, exist_ok=True)
    fresh = listing.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps([str(jar) for jar in found], indent=1))
    fresh.replace(listing)
    return found


def _resolve(need: JarSet, wanted: str, conf: Mapping[str, str]) -> list[Path]:
    """Fetch jars with Spark's own resolver, in another process: it prints a lot, and needs its own JVM."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars.ivy": str(cache_folder() / "ivy" / need),
        "spark.jars.packages": wanted,
        "spark.jars.excludes": ",".join(_EXCLUDES[need]),
    }
    if "spark.jars.ivySettings" in conf:
        settings["spark.jars.ivySettings"] = conf["spark.jars.ivySettings"]
    answer = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _RESOLVE],
        input=json.dumps(settings),
        capture_output=True,
        text=True,
        env={**os.environ, "JAVA_HOME": str(find_java().home)},
        timeout=600,
    )
    line = next((line for line in answer.stdout.splitlines() if line.startswith("jars=")), None)
    if line is None:
        causes = _FAULT.findall(answer.stderr) or [last_cause(answer.stderr)]
        raise RuntimeMissing(
            f"the jars for {need} could not be downloaded ({causes[-1]}): {wanted}",
            hint="check the network; behind a mirror, name your Ivy settings (spark.jars.ivySettings) or a"
            " folder's jars (spark.jars) under `spark: conf:`; for a certificate of your own, set"
            " JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=…",
            detail=answer.stderr,
        )
    return [Path(jar.removeprefix("file://")) for jar in line.removeprefix("jars=").split(",")]


if __name__ == "__main__":
    try:
        for jar in jars([JarSet(word) for word in sys.argv[1:]] or list(JarSet), {}):
            sys.stdout.write(f"{jar.name}\n")
    except RuntimeMissing as error:
        sys.exit(f"error: {error}")
