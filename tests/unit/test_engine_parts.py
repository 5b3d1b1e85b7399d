from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tidegauge.errors import OutputUnreachable, RuntimeMissing, SparkFailed, TypeNotHeld
from tidegauge.ledger.owner import is_gone, this_process
from tidegauge.model.secret import Secret
from tidegauge.spark.errors import from_spark, last_cause
from tidegauge.spark.java import find_java


def test_this_process_lives_and_one_with_a_reused_pid_does_not() -> None:
    me = this_process()
    assert not is_gone(me)
    assert is_gone(replace(me, started="1"))
    assert not is_gone(replace(me, started="1", host="another machine"))
    assert not is_gone(replace(me, started="1", host=""))


def test_a_killed_process_is_gone() -> None:
    code = (
        "from tidegauge.ledger.owner import this_process; me = this_process();"
        "print(me.host, me.pid, me.started, sep='|', flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    host, pid, started = child.stdout.readline().strip().split("|")
    owner = replace(this_process(), host=host, pid=int(pid), started=started)
    assert not is_gone(owner)
    os.kill(child.pid, signal.SIGKILL)
    until = time.monotonic() + 600
    while not is_gone(owner) and time.monotonic() < until:
        time.sleep(0.01)
    assert is_gone(owner)  # also while nobody has collected its exit code
    child.communicate()


def test_java_is_looked_for_where_the_user_says_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeMissing, match="no Java that works") as caught:
        find_java()
    assert "JAVA_HOME" in str(caught.value.hint)


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "bin" / "java"
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    binary.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeMissing, match=r"Java 8 .* too old"):
        find_java()


def test_no_java_at_all_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeMissing, match="Java is missing") as caught:
        find_java()
    assert "tidegauge[java]" in str(caught.value.hint)


TRACE = """An error occurred while calling o1.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:1)
Caused by: java.lang.RuntimeException: outer
\tat x.y.Z
Caused by: java.sql.SQLException: [TABLE_GONE] Table 'a.b' doesn't exist SQLSTATE: 42S02
\tat com.mysql.cj.Something
"""


def test_a_java_stack_trace_becomes_its_last_cause_in_one_line() -> None:
    assert last_cause(TRACE) == "Table 'a.b' doesn't exist"
    assert last_cause("java.io.IOException: gone") == "gone"
    assert last_cause("") == "unknown error"
    called = (
        "An error occurred while calling o1928.load.\n: java.lang.IllegalStateException: no files\n\tat x"
    )
    assert last_cause(called) == "no files"
    worker = (
        "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call):\n"
        '  File "x.py", line 1, in f\nValueError: not so\n SQLSTATE: 38000'
    )
    assert last_cause(worker) == "ValueError: not so"


def test_the_whole_trace_is_kept_for_debug_and_masked() -> None:
    Secret("hunter2canary")
    found = from_spark(RuntimeError(TRACE + "password=hunter2canary"), "a.b")
    assert isinstance(found, SparkFailed)
    assert found.message == "a.b: Table 'a.b' doesn't exist"
    assert found.detail is not None
    assert "DAGScheduler" in found.detail
    assert "hunter2canary" not in found.detail


def test_a_full_disk_and_a_value_that_cannot_be_held_are_told_apart() -> None:
    gone = "An exception was thrown from the Python worker:\nModuleNotFoundError: No module named "
    lacking = from_spark(RuntimeError(f"{gone}'tidegauge'"), "t")
    assert isinstance(lacking, RuntimeMissing)
    assert "PYSPARK_PYTHON" in (lacking.hint or "")
    full = from_spark(RuntimeError("Caused by: java.io.IOException: No space left on device"), "t")
    assert isinstance(full, OutputUnreachable)
    held = from_spark(RuntimeError("[USER_RAISED_EXCEPTION] tidegauge: t: column d SQLSTATE: P0001"), "t")
    assert isinstance(held, TypeNotHeld)
    assert held.message == "t: column d"


def test_importing_tidegauge_and_its_command_line_leaves_pyspark_alone() -> None:
    code = "import sys, tidegauge, tidegauge.cli.main; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
