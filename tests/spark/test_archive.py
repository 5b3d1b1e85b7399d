"""The class-data archive: nothing but time depends on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegauge.errors import TidegaugeError
from tidegauge.spark.archive import java_options, make, path_of
from tidegauge.spark.java import Java, find_java

_START = """
import sys
from tidegauge.spark.session import open_session
from tidegauge.model.spec import SparkSettings
session = open_session(SparkSettings("local[1]", {"spark.driver.memory": "1g"}), ())
pid = session.sparkContext._gateway.proc.pid
print(session.range(3).count(), "SharedArchiveFile" in open(f"/proc/{pid}/cmdline").read())
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache é with spaces"
    monkeypatch.setenv("TIDEGAUGE_CACHE", str(folder))
    monkeypatch.delenv("TIDEGAUGE_CLASS_ARCHIVE", raising=False)
    return folder


def start(**environment: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", _START],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=1000,
    )
    return done.stdout.strip(), done.stderr.strip()


@pytest.mark.long
def test_an_archive_is_made_once_and_taken_in_silence(cache: Path) -> None:
    java = find_java()
    archive = make(java)
    made = archive.stat().st_mtime_ns
    assert make(java) == archive
    assert archive.stat().st_mtime_ns == made
    assert start() == ("3 True", "")
    assert [path.suffix for path in sorted((cache / "classes").iterdir())] == [".jsa", ".lock"]


@pytest.mark.long
@pytest.mark.parametrize("body", [b"", b"not an archive" * 1000])
def test_a_broken_archive_is_ignored_in_silence(cache: Path, body: bytes) -> None:
    archive = path_of(find_java())
    archive.parent.mkdir(parents=True)
    archive.write_bytes(body)
    assert start() == ("3 True", "")


@pytest.mark.long
def test_it_can_be_switched_off(cache: Path) -> None:
    assert start(TIDEGAUGE_CLASS_ARCHIVE="off") == ("3 False", "")
    assert not cache.exists()


def test_another_java_or_pyspark_has_another_archive(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = find_java()
    other = Java(tmp_path / "java", java.version, "PATH")
    (other.home / "bin").mkdir(parents=True)
    (other.home / "release").write_text('JAVA_VERSION="21"')
    assert path_of(java) != path_of(other)
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(home))
    before = path_of(java)
    (home / "jars" / "more.jar").write_bytes(b"x")
    assert path_of(java) != before


def test_one_that_cannot_be_made_says_so_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = Java(tmp_path / "no java", 17, "JAVA_HOME")
    with pytest.raises(TidegaugeError, match="no class-data archive"):
        make(none)
    assert [path.suffix for path in (cache / "classes").iterdir()] == [".lock"]


def test_a_process_leaves_the_making_to_its_end_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[object] = []
    monkeypatch.setattr("tidegauge.spark.archive.atexit.register", left.append)
    monkeypatch.setattr("tidegauge.spark.archive._left_to_make", False)
    java = find_java()
    assert java_options(java) == java_options(java) == ""
    assert len(left) == 1
